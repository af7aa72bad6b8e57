"""`selfsort inspect`: what is in a run's folder or a model file, without building a network."""

import json
import math
import shlex
from pathlib import Path
from typing import Any

import click

from selfsort.cli.console import echo, table_console
from selfsort.errors import ModelFileError
from selfsort.text import printable


@click.command("inspect")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(path: Path, as_json: bool) -> None:
    """Show what is in PATH (a run's folder, a model or a checkpoint) and whether it is whole; loads
    no network.
    """
    files = _files(path)
    report: dict[str, Any] = {"path": str(path), "files": [_inspect_file(file) for file in files]}
    if path.is_dir():
        report |= _inspect_run(path)
    if as_json:
        echo(json.dumps(report))
    else:
        for file in report["files"]:
            _print_file(file)
        _print_run(report)
    broken = [entry["error"] for entry in report["files"] if "error" in entry] + report.get(
        "problems", []
    )
    if broken:
        raise ModelFileError(broken[0])


def _files(path: Path) -> list[Path]:
    from selfsort.runs.folder import RunFolder

    if not path.is_dir():
        return [path]
    folder = RunFolder(path)
    files = [folder.model] if folder.model.exists() else []
    files += sorted(folder.checkpoint.glob("*.safetensors"))
    if not files and not folder.record.exists() and not folder.job.exists():
        raise ModelFileError(
            f"{path}: holds neither a model nor a checkpoint; is this the folder that `selfsort "
            "fit` wrote?"
        )
    return files


def _inspect_file(path: Path) -> dict[str, Any]:
    """Everything about one file; an `error` if it is not whole."""
    from selfsort.container import load_container, load_header

    report: dict[str, Any] = {"file": str(path)}
    try:
        header = load_header(path)
        shapes = {
            name: {"dtype": place.dtype, "shape": list(place.shape)}
            for name, place in header.places.items()
        }
        report |= {
            "values": header.values,
            "bytes": header.n_bytes,
            "sha256": header.sha256,
            "tensors": shapes,
        }
        load_container(path)
    except ModelFileError as error:
        report["error"] = str(error)
    return report


def _inspect_run(path: Path) -> dict[str, Any]:
    """What `run.json` says, and whether the files beside it are those it was written with."""
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.results import file_hash, load_run

    folder = RunFolder(path)
    report: dict[str, Any] = {"interrupted": folder.job.exists()}
    if not folder.record.exists():
        return report
    try:
        run, assignments = load_run(path, edited=False)
        changed = [
            name for name, expected in run.files.items() if file_hash(path / name) != expected
        ]
    except ModelFileError as error:
        return report | {"problems": [str(error)]}
    problems = [
        f"{path / name}: not the file that {folder.record.name} was written with; restore it or "
        "train again."
        for name in changed
    ]
    if len(assignments.names) != run.n_samples:
        problems.append(
            f"{path}: {folder.table.name} has {len(assignments.names)} images and "
            f"{folder.record.name} {run.n_samples}."
        )
    facts = {"source": run.source, "n_samples": run.n_samples, "warnings": run.warnings}
    return report | {"run": facts, "problems": problems}


def _print_file(report: dict[str, Any]) -> None:
    from rich.table import Table

    echo(report["file"])
    if "values" not in report:
        echo(f"  {report['error']}")
        return
    values = report["values"]
    echo(f"  selfsort {values['kind']}, format {values['format']}, {report['bytes']:,} bytes")
    echo(f"  sha256 {report['sha256']}, {'NOT WHOLE' if 'error' in report else 'checked'}")
    for name in ("recipe", "n_clusters", "seed", "preparation", "assigner", "n_parents"):
        if name in values:
            echo(f"  {name}: {_text(values[name])}")
    if isinstance(progress := values.get("progress"), dict) and isinstance(
        progress.get("history"), list
    ):
        echo(f"  epochs done: {len(progress['history'])}, then {progress.get('step')} steps")
    table = Table("tensor", "type", "shape", "numbers")
    for name, entry in report["tensors"].items():
        table.add_row(
            printable(name, longest=200),
            entry["dtype"],
            "×".join(map(str, entry["shape"])) or "1",
            f"{math.prod(entry['shape']):,}",
        )
    table_console().print(table)


def _print_run(report: dict[str, Any]) -> None:
    if "run" in report:
        run = report["run"]
        echo(f"run: {run['n_samples']:,} images of {run['source']}")
        for warning in run["warnings"]:
            echo(f"warning: {warning}")
    if report.get("interrupted"):
        echo(f"interrupted; resume with: selfsort fit --resume {shlex.quote(report['path'])}")


def _text(value: Any) -> str:
    return (
        ", ".join(f"{name} {entry}" for name, entry in value.items())
        if isinstance(value, dict)
        else str(value)
    )
