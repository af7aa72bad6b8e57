"""The folder of a run: its file names, its lock, and whether what lies in it is ours; no torch."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from selfsort.container import load_header
from selfsort.errors import ModelFileError, SelfsortError
from selfsort.files import locked, read_file
from selfsort.runs.limits import MAX_JSON_BYTES

MODEL = "model.safetensors"
RECORD = "run.json"
TABLE = "assignments.csv"
PICTURE = "clusters.png"
REPORT = "report.html"
MAP = "map.npz"
METADATA = "metadata.csv"
VECTORS = "vectors.npz"
JOURNAL = "edits.jsonl"
JOB = "job.json"
CHECKPOINT = "checkpoint"
GIVEN = "given.csv"
VERSIONS = "versions"
SWITCH = "switch.json"
NAMES = (
    MODEL,
    RECORD,
    TABLE,
    METADATA,
    PICTURE,
    REPORT,
    MAP,
    VECTORS,
    JOURNAL,
    JOB,
    CHECKPOINT,
    GIVEN,
    VERSIONS,
    SWITCH,
)


@dataclass(frozen=True)
class RunFolder:
    """Where the files of a run are.

    `job.json` says how the run was started and is there as long as the run is not finished;
    `run.json` is written last and says that it is.
    """

    path: Path

    @property
    def model(self) -> Path:
        return self.path / MODEL

    @property
    def record(self) -> Path:
        return self.path / RECORD

    @property
    def table(self) -> Path:
        return self.path / TABLE

    @property
    def metadata(self) -> Path:
        return self.path / METADATA

    @property
    def picture(self) -> Path:
        return self.path / PICTURE

    @property
    def report(self) -> Path:
        return self.path / REPORT

    @property
    def map(self) -> Path:
        return self.path / MAP

    @property
    def vectors(self) -> Path:
        return self.path / VECTORS

    @property
    def journal(self) -> Path:
        return self.path / JOURNAL

    @property
    def job(self) -> Path:
        return self.path / JOB

    @property
    def checkpoint(self) -> Path:
        return self.path / CHECKPOINT

    @property
    def given(self) -> Path:
        return self.path / GIVEN

    @property
    def versions(self) -> Path:
        return self.path / VERSIONS

    def locked(self) -> AbstractContextManager[None]:
        """Hold the folder for this process."""
        return locked(self.path)

    def claim(self, *, overwrite: bool = False) -> None:
        """Refuse a folder that a new run must not write to; touches nothing.

        Files that a run would replace are replaced only if `overwrite` is set and a run of ours
        wrote them: beside a `run.json` or `job.json` that we could have written.
        """
        foreign = next((name for name in NAMES if _exists(self.path / name)), None)
        if foreign is None:
            return
        if not self._is_ours():
            raise SelfsortError(
                f"{self.path / foreign}: not written by selfsort, and a run would replace it; "
                "choose another folder."
            )
        if overwrite:
            return
        if _exists(self.job):
            raise SelfsortError(
                f"{self.path}: holds an interrupted run; continue it with `resume_folder`, or "
                "start again with `overwrite=True`."
            )
        raise SelfsortError(
            f"{self.path}: holds the results of an earlier run; choose another folder, or use "
            "`overwrite=True`."
        )

    def _is_ours(self) -> bool:
        """Whether `run.json` or `job.json` reads as one of ours, of this version or another."""
        for path in (self.record, self.job):
            with suppress(OSError, ValueError, RecursionError):
                content = json.loads(read_file(path, limit=MAX_JSON_BYTES))
                if isinstance(content, dict) and {"source", "seed"} <= content.keys():
                    return True
        return False

    def checkpoints(self) -> Iterator[Path]:
        """The checkpoints of an interrupted run; other files in their folder are not ours."""
        for file in sorted(self.checkpoint.glob("*.safetensors")):
            with suppress(ModelFileError):
                load_header(file, kind="checkpoint")
                yield file

    def has_checkpoint(self) -> bool:
        """Whether there is something to resume from."""
        return any(self.checkpoints())

    def seconds_before(self) -> float:
        """How long earlier processes have trained, as far as their checkpoints know."""
        total = 0.0
        for file in self.checkpoints():
            with suppress(ModelFileError, KeyError, TypeError, ValueError):
                total += float(load_header(file, kind="checkpoint").values["progress"]["seconds"])
        return total

    def remove_state(self) -> None:
        """Remove what an interrupted run would resume from, and nothing else; `job.json` first, for
        then the run counts as over.
        """
        for file in (self.job, *self.checkpoints()):
            with suppress(OSError):
                file.unlink(missing_ok=True)
        with suppress(OSError):
            self.checkpoint.rmdir()


def _exists(path: Path) -> bool:
    """Also for a link that leads nowhere."""
    return path.exists() or path.is_symlink()
