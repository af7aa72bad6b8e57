"""`selfsort predict`: new images to the clusters of a run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from selfsort.cli.console import callbacks, echo, print_scores, print_written
from selfsort.cli.options import base_name, load_model_and_images, new_file, source_options
from selfsort.errors import SelfsortError

if TYPE_CHECKING:
    from selfsort.data.image_set import ImageSet


@click.command("predict")
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("source")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="CSV file to write.  [default: NAME-assignments.csv]",
)
@click.option(
    "--copy-to",
    type=click.Path(path_type=Path, file_okay=False),
    help="Copy the files into one sub-folder per cluster.",
)
@source_options
def command(
    run: Path, source: str, out: Path | None, copy_to: Path | None, as_json: bool, **options: Any
) -> None:
    """Assign the images in SOURCE to the clusters that `fit` wrote to RUN.

    Names, merges and splits that were made with `selfsort explore RUN` count. The column `unlike`
    marks images that look like none of those that were sorted.
    """
    from dataclasses import asdict, replace

    from selfsort.metrics import score
    from selfsort.runs.copies import copy_files, folder_names
    from selfsort.runs.table import save_assignments
    from selfsort.text import things
    from selfsort.workflow.images import assignments_of

    if copy_to:
        if not Path(source).is_dir():
            raise click.UsageError("--copy-to needs a SOURCE that is a folder of image files.")
        if copy_to.exists() and any(copy_to.iterdir()):
            raise SelfsortError(
                f"{copy_to}: is not empty; choose a new folder, so that nothing is overwritten."
            )
        if copy_to.resolve().is_relative_to(Path(source).resolve()):
            raise SelfsortError(
                f"{copy_to}: is inside {source}, so the copies would be sorted next time; choose "
                "a folder outside of it."
            )
    out = out or new_file(f"{base_name(source)}-assignments.csv")
    with callbacks() as told:
        sorter, images = load_model_and_images(run, source, options, told)
        labels, confidence = sorter.assign(images)
        unlike = sorter.unlike(images)
        labels, names = _edited(run, sorter, images, labels)
    cluster_names = [names.get(int(label), "") for label in labels] if names else None
    assignments = assignments_of(images, labels, confidence)
    save_assignments(out, replace(assignments, cluster_names=cluster_names, unlike=unlike))
    written = [str(out)]
    if copy_to:
        assert images.root is not None
        folders = folder_names(names, sorted({*names, *labels.tolist()}))
        copy_files(images.root, images.names, [folders[int(label)] for label in labels], copy_to)
        written.append(str(copy_to))
    scores = (
        {f"{images.source}, predicted": score(images.truth, labels)}
        if images.truth is not None
        else {}
    )
    if as_json:
        report = {
            "scores": {name: asdict(table) for name, table in scores.items()},
            "written": written,
            "clusters": labels.tolist(),
            "unlike": unlike.tolist() if unlike is not None else None,
            "skipped": dict(images.skipped),
        }
        echo(json.dumps(report))
        return
    if scores:
        print_scores(scores, {})
    echo(f"{things(len(images), images.modality)} assigned")
    if unlike is not None and (n_unlike := int(unlike.sum())):
        echo(
            f"{n_unlike:,} of them ({n_unlike / len(images):.0%}) look unlike all that were sorted "
            "(column unlike); 5% is what images of the same kind have"
        )
    print_written(written)


def _edited(
    run: Path, sorter: Any, images: "ImageSet", labels: Any
) -> tuple[Any, Mapping[int, str]]:
    """The clusters after the merges and splits that `explore` has kept beside the run, and the
    names given there.
    """
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.results import load_edits, load_run

    folder = RunFolder(run if run.is_dir() else run.parent)
    if not folder.journal.exists():
        return labels, {number: name for number, name in enumerate(sorter.names_) if name}
    history = load_edits(folder, load_run(folder.path, edited=False))
    labels = history.relabel(labels, lambda rows: sorter.transform(images.take(rows)))
    return labels, history.state.names
