"""`selfsort score`: assignments against truth."""

import json
from pathlib import Path

import click

from selfsort.cli.console import echo, print_scores
from selfsort.cli.options import tell_of_edits
from selfsort.errors import SelfsortError


@click.command("score")
@click.argument("assignments", type=click.Path(path_type=Path))
@click.argument("truth", required=False)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the files of named data sets are.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(assignments: Path, truth: str | None, data_dir: Path | None, as_json: bool) -> None:
    """Compare ASSIGNMENTS (a run's folder or a CSV file) with TRUTH.

    TRUTH is a CSV file with the columns name and truth, a named data set, or a folder whose
    sub-folders are the classes; without it the column `truth` of the assignments is taken. Edits of
    the run count, and outliers are left out; give its assignments.csv to score what `fit` found.
    """
    from dataclasses import asdict

    import numpy as np

    from selfsort.metrics import score
    from selfsort.runs.results import load_labels

    tell_of_edits(assignments)
    found = load_labels(assignments)
    known = (
        _load_truth(truth, data_dir)
        if truth
        else dict(zip(found.names, found.truth or (), strict=False))
    )
    rows = [row for row, name in enumerate(found.names) if name in known]
    if not rows:
        raise SelfsortError(
            f"{truth or assignments}: has truth for none of the {len(found.names)} names in "
            f"{assignments}."
        )
    scores = score(np.array([known[found.names[row]] for row in rows]), found.labels[rows])
    if as_json:
        echo(
            json.dumps(
                {
                    **asdict(scores),
                    "n_samples": len(rows),
                    "without_truth": len(found.names) - len(rows),
                }
            )
        )
    else:
        print_scores({f"{len(rows):,} of {len(found.names):,} images with truth": scores}, {})


def _load_truth(truth: str, data_dir: Path | None) -> dict[str, str]:
    from selfsort.data.kinds import load_source
    from selfsort.runs.table import load_table

    if truth.endswith(".csv"):
        return {
            row["name"]: row["truth"]
            for row in load_table(Path(truth), "name", "truth")
            if row["truth"]
        }
    images = load_source(
        truth, data_dir=data_dir, size=8, truth_from_folders=True, skip_broken=True
    )
    if images.truth is None:
        raise SelfsortError(f"{truth}: has no truth.")
    return {
        name: images.truth_names[label]
        for name, label in zip(images.names, images.truth, strict=True)
    }
