"""`selfsort ask`: the images whose class would teach most, and the answers."""

import json
from pathlib import Path

import click

from selfsort.cli.console import callbacks, echo, print_written
from selfsort.cli.options import images_option
from selfsort.errors import SelfsortError


@click.command("ask")
@click.argument("run", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "-n",
    "--number",
    default=20,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="How many images.",
)
@click.option(
    "--answers",
    type=click.Path(path_type=Path),
    help="CSV file with answers: file (or index), name or number of its cluster; a new name makes "
    "a new cluster.",
)
@images_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    run: Path, number: int, answers: Path | None, images: Path | None, as_json: bool
) -> None:
    """List the images of the run in DIR whose class would teach most, the first one most.

    They are unsure, and each stands for other images than those before it. With `--answers` the
    answers are kept beside the run, as `explore` keeps them; `selfsort learn DIR` learns them.
    """
    from selfsort.cli.explore import open_gallery
    from selfsort.explore.asking import answer, choose_questions
    from selfsort.runs.arrays import load_vectors, save_vectors
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.journal import Journal
    from selfsort.runs.results import load_edits, load_run, start_of
    from selfsort.workflow.images import with_images

    folder = RunFolder(run)
    found = load_run(run, edited=False)
    if answers is not None:
        from contextlib import closing

        from selfsort.data.teaching import read_labels

        said = read_labels(answers)
        with closing(Journal(run, start_of(folder, found))) as journal:
            done = answer(journal, found.assignments.names, said)
        if as_json:
            echo(json.dumps({"answers": done, "written": [str(folder.journal)]}))
            return
        echo(f"{done:,} answers; `selfsort learn {run}` learns them")
        print_written([str(folder.journal)])
        return
    state = load_edits(folder, found).state
    points = load_vectors(run, found.assignments)
    if points is None:
        from selfsort.explore.modelled import describe

        record = with_images(found.run, images, found.assignments.names)
        with callbacks() as told:
            gallery = open_gallery(record, found.assignments)
            vectors = describe(run, gallery, len(found.assignments.names), told.on_stage)
        _, points = save_vectors(run, vectors, found.assignments)
    rows = choose_questions(points, state, found.assignments.confidence, number)
    questions = [
        {
            "row": row,
            "name": found.assignments.names[row],
            "cluster": int(state.labels[row]),
            "cluster_name": state.names.get(int(state.labels[row]), ""),
            "confidence": round(float(found.assignments.confidence[row]), 4),
        }
        for row in rows
    ]
    if as_json:
        echo(json.dumps({"questions": questions}))
        return
    if not rows:
        raise SelfsortError(f"{run}: somebody has decided on all images; there is nothing to ask.")
    for one in questions:
        title = state.title(int(str(one["cluster"])))
        echo(f"{one['name']}: {title}? (confidence {one['confidence']})")
