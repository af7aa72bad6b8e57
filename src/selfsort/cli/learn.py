"""`selfsort learn`: a run learns from what a person has changed in it."""

import json
from pathlib import Path

import click

from selfsort.cli.console import callbacks, echo, print_written
from selfsort.cli.options import images_option, threads_option
from selfsort.errors import SelfsortError

SHOWN = 5


@click.command("learn")
@click.argument("run", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--accept", "action", flag_value="accept", help="Use what was learned.")
@click.option("--reject", "action", flag_value="reject", help="Remove what was learned.")
@click.option("--rollback", "action", flag_value="rollback", help="Go back to the version before.")
@click.option("--list", "action", flag_value="list", help="List the versions of the run.")
@click.option(
    "--device", default="auto", show_default=True, help="Where to compute: auto, cpu, cuda, mps."
)
@images_option
@threads_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    run: Path,
    action: str | None,
    device: str,
    images: Path | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Learn from the changes made to the run in DIR with `explore` or `ask`.

    Images that were moved or accepted are labels, merged clusters are one, split ones are several,
    outliers stay out. The network is not trained again. The result is a new version in
    DIR/versions; `--accept` lets it take the place of the run, which is kept. `predict` uses the
    version that is in place.
    """
    if action is not None:
        _act(run, action, as_json)
        return
    from selfsort.runs.changes import changes_of, save_changes
    from selfsort.runs.results import load_run
    from selfsort.workflow.learn import learn_folder

    load_run(run)
    with callbacks() as told:
        learned = learn_folder(run, images=images, device=device, threads=threads, callbacks=told)
    changes = changes_of(run, learned.version)
    table = save_changes(learned.folder, changes)
    if as_json:
        report = {
            "version": learned.version,
            "moved": [change._asdict() for change in changes],
            "written": [str(learned.folder), str(table)],
        }
        echo(json.dumps(report))
        return
    echo(f"version {learned.version}: {len(changes):,} images go elsewhere")
    for change in changes[:SHOWN]:
        echo(f"  {change.name}: {change.old} → {change.new}")
    print_written([str(learned.folder), str(table)])
    echo(f"look at it with `selfsort explore {run}`; `selfsort learn {run} --accept` uses it")


def _act(run: Path, action: str, as_json: bool) -> None:
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.results import load_run
    from selfsort.runs.versions import accept, learned_from, list_versions, reject, switch, waiting

    record = load_run(run).run
    number = record.version
    if action != "list":
        with RunFolder(run).locked():
            target = record.learned_from if action == "rollback" else waiting(run)
            if not target:
                raise SelfsortError(
                    f"{run}: version {number} is the first one; there is none to go back to."
                    if action == "rollback"
                    else f"{run}: no version is waiting; `selfsort learn {run}` makes one."
                )
            if action == "reject":
                reject(run, target)
            else:
                (accept if action == "accept" else switch)(run, target)
                number = target
    kept = list_versions(run)
    if as_json:
        echo(json.dumps({"version": number, "versions": kept}))
        return
    if action == "list":
        for one in kept:
            before = learned_from(run, one)
            words = f"learned from version {before}" if before else "as `fit` wrote it"
            echo(f"version {one}: {words}")
    echo(f"{run} is version {number} now")
