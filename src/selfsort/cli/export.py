"""`selfsort export`: a run with its edits for other programs."""

import json
from pathlib import Path

import click

from selfsort.cli.console import callbacks, echo, print_written
from selfsort.cli.explore import open_gallery
from selfsort.cli.options import images_option, tell_of_edits

FORMS = ("assignments", "labels", "folders", "links", "xmp", "coco", "label-studio")
"""The keys of `selfsort.runs.export.EXPORTS`, which `--help` must not load."""


@click.command("export")
@click.argument("run", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.argument("form", type=click.Choice(FORMS))
@click.option(
    "--to",
    "place",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder to write into.  [default: DIR/export]",
)
@images_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(run: Path, form: str, place: Path | None, images: Path | None, as_json: bool) -> None:
    """Write the clusters in DIR, with the edits made in `explore`, for other programs.

    \b
    assignments   a table with one row per image
    labels        labels.csv, labels.npy and classes.txt for training
    folders       a copy of each image in the folder of its cluster
    links         the same with links instead of copies
    xmp           a sidecar for each image, for photo programs: its cluster as keyword
    coco          annotations.json: clusters as categories
    label-studio  tasks.json and labels.xml

    Nothing is overwritten: what is there already gets company under a new name.
    """
    from selfsort.runs.export import export
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.results import load_edits, load_run
    from selfsort.workflow.images import refuse_inside, with_images

    found = load_run(run, edited=False)
    record = with_images(found.run, images, found.assignments.names)
    if place:
        refuse_inside(place, record.reading.get("source", ""))
    tell_of_edits(run)
    state = load_edits(RunFolder(run), found).state
    with callbacks() as told:
        gallery = open_gallery(record, found.assignments)
        written = export(form, run, found.assignments, state, gallery, told.on_stage, place)
    if as_json:
        echo(json.dumps({"written": [str(written)]}))
    else:
        print_written([str(written)])
