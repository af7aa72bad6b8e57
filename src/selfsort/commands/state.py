"""What an interrupted `fit` leaves in its folder, and how a later one finds it: `job.json` and `checkpoint/`."""

import json
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from selfsort.errors import ModelFileError, SelfsortError

CHECKPOINT, JOB = "checkpoint", "job.json"
"""`job.json` says how the run was started; it is there as long as the run is not finished."""

NOT_KEPT = {"resume", "out", "overwrite", "as_json"}
"""Parameters of `fit` that are not part of a job."""


def load_job(folder: Path, parameters: Sequence[click.Parameter]) -> dict[str, Any]:
    """How the interrupted run in `folder` was started: a value for each of these parameters of the command."""
    try:
        job: dict[str, Any] = json.loads((folder / JOB).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        finished = (folder / "run.json").exists() and not (folder / JOB).exists()
        if finished:
            remove_state(folder)  # what is left of it if a process was killed while it did this
        reason = "its run is finished" if finished else f"it has no readable {JOB}"
        raise SelfsortError(f"{folder}: nothing to resume, {reason}.") from error
    known = {parameter.name: parameter for parameter in parameters if parameter.name not in NOT_KEPT}
    if (
        not isinstance(job, dict)
        or job.keys() != known.keys()
        or not all(_fits(value, known[name]) for name, value in job.items())
    ):
        raise SelfsortError(f"{folder / JOB}: damaged or of another version; start anew with --overwrite.")
    return job


def _fits(value: Any, parameter: click.Parameter) -> bool:
    """Whether a parameter can have had this value."""
    if parameter.name == "clusters":
        return isinstance(value, int | str)
    if parameter.multiple:
        return isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    if getattr(parameter, "is_flag", False):
        return isinstance(value, bool)
    if isinstance(parameter.type, click.IntRange):
        return type(value) is int or (value is None and parameter.name != "seed")
    return isinstance(value, str) or (value is None and parameter.name != "source")


def refuse_used_folder(out: Path) -> None:
    """A run must not go into a folder that holds another one."""
    if (out / JOB).exists():
        raise SelfsortError(
            f"{out}: holds an interrupted run; go on with --resume {shlex.quote(str(out))}, or start anew with --overwrite."
        )
    if (out / "run.json").exists():
        raise SelfsortError(f"{out}: holds the results of an earlier run; choose another --out, or --overwrite.")


def has_checkpoint(out: Path) -> bool:
    """Whether there is something to go on from."""
    return any((out / CHECKPOINT).glob("*.safetensors"))


def remove_state(out: Path) -> None:
    """Remove what an interrupted run would go on from, and nothing else; `job.json` first, for then the run counts as over."""
    for file in (out / JOB, *(out / CHECKPOINT).glob("*.safetensors")):
        with suppress(OSError):
            file.unlink(missing_ok=True)
    with suppress(OSError):
        (out / CHECKPOINT).rmdir()


def seconds_before(out: Path) -> float:
    """How long earlier processes have trained, as far as their checkpoints know."""
    from selfsort.container import load_header

    total = 0.0
    for file in (out / CHECKPOINT).glob("*.safetensors"):
        with suppress(ModelFileError, KeyError, TypeError, ValueError):
            total += float(load_header(file, kind="checkpoint").values["progress"]["seconds"])
    return total
