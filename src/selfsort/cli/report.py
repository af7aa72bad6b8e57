"""`selfsort report`: a finished run to one HTML page."""

import json
from pathlib import Path

import click

from selfsort.cli.console import callbacks, echo, print_written
from selfsort.cli.options import images_option, tell_of_edits, threads_option


@click.command("report")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--points",
    type=click.IntRange(2, 20_000),
    help="Images on the map, drawn by the run's seed; 20,000 take a minute.  [default: "
    "those of the last report, or 5,000]",
)
@click.option("--no-map", is_flag=True, help="Leave the map out.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write.  [default: DIR/report.html]",
)
@click.option("--original", is_flag=True, help="The clusters as `fit` found them, without edits.")
@images_option
@threads_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    folder: Path,
    points: int | None,
    no_map: bool,
    original: bool,
    images: Path | None,
    out: Path | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Write one self-contained HTML page about the run in DIR: its clusters, a map, training,
    warnings.

    The page needs no network and no server. The map is computed once and kept in DIR as map.npz.
    """
    from selfsort.workflow.report import write_report

    if not original:
        tell_of_edits(folder)
    with callbacks() as told:
        files = write_report(
            folder,
            out=out,
            points=points,
            with_map=not no_map,
            edited=not original,
            images=images,
            threads=threads,
            callbacks=told,
        )
    written = list(map(str, files))
    if as_json:
        echo(json.dumps({"written": written}))
    else:
        print_written(written)
