"""`selfsort fit`: images in; model, record, assignments, picture and report out."""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from selfsort.cli.console import callbacks, echo, print_profile, print_scores, print_written
from selfsort.cli.options import base_name, cluster_number, parse_changes, shape_of, source_options
from selfsort.errors import SelfsortError, TrainingError, TrainingStopped
from selfsort.runs.limits import MAX_SEED

if TYPE_CHECKING:
    from selfsort.workflow.fit import Sorted
    from selfsort.workflow.images import Callbacks
    from selfsort.workflow.profile import Profile


@click.command("fit")
@click.argument("source", required=False)
@click.option(
    "--kind",
    help="What SOURCE holds: images, series (of numbers in time), sounds (clips), or features "
    "(rows of numbers of your own).  [default: images]",
)
@click.option(
    "--images",
    help="The images that rows of features stand for, in the order of their names, to be shown.",
)
@click.option(
    "--image-shape",
    metavar="[Cx]HxW",
    help="Of an array of rows: which image each is, such as 28x28 or 3x32x32.",
)
@click.option(
    "-k",
    "--clusters",
    help="How many clusters; auto: as many as the images show; with parents: of each, or "
    "NAME=3,NAME=5.  [default: 10; with labels: their classes; with parents: auto]",
)
@click.option(
    "--labels",
    type=click.Path(path_type=Path),
    help="CSV file with the class of some images: file (or index), class name.",
)
@click.option(
    "--parents",
    type=click.Path(path_type=Path),
    help="CSV file with a coarse class of every image; clusters are found inside each.",
)
@click.option("--folder-parents", is_flag=True, help="The sub-folders are the coarse classes.")
@click.option("--recipe", default=None, help="A named configuration; see `selfsort config`.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="TOML file with changes to the recipe.",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change one setting, e.g. network.n_duplicates=10.",
)
@click.option(
    "--drop-duplicates",
    is_flag=True,
    help="Keep one of images that are the same, or nearly.",
)
@click.option("--epochs", type=click.IntRange(1), help="Replaces the recipe's number of epochs.")
@click.option(
    "--transforms", help="Replaces the recipe's transformations: dihedral, T1,T3, scaling, …"
)
@click.option(
    "--encoder",
    help="A pretrained network as one more source: auto, none, lite0, NAME.onnx, hf:NAME.",
)
@click.option(
    "--size",
    type=click.IntRange(8, 1024),
    help="Side to which images are resized.  [default: as the recipe says]",
)
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0, MAX_SEED),
    help="Same seed, threads, precision and machine: same result.",
)
@click.option(
    "--precision",
    type=click.Choice(["auto", "16", "32"]),
    help="Bits that layers compute with; auto: 16 where that is faster.  [default: auto]",
)
@click.option(
    "--test",
    "test_source",
    help="Images to score as well.  [default: the test split of a named data set]",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the results.  [default: NAME-sorted, never inside SOURCE]",
)
@click.option(
    "--align-to",
    type=click.Path(path_type=Path),
    help="Earlier run (its edits count) or its CSV file whose cluster numbers to take over.",
)
@click.option("--overwrite", is_flag=True, help="Replace the results of an earlier run in --out.")
@click.option(
    "--no-report",
    is_flag=True,
    help="Do not write report.html (`selfsort report` can do it later).",
)
@click.option(
    "--profile",
    "with_profile",
    is_flag=True,
    help="Print what each stage has taken: seconds and operations.",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path, file_okay=False),
    help="Continue the interrupted run in this folder.",
)
@source_options
@click.pass_context
def command(
    context: click.Context,
    /,
    source: str | None,
    resume: Path | None,
    out: Path | None,
    as_json: bool,
    clusters: str | None,
    recipe: str | None,
    config_file: Path | None,
    changes: tuple[str, ...],
    precision: str | None,
    image_shape: str | None,
    no_report: bool,
    with_profile: bool,
    **options: Any,
) -> None:
    """Learn clusters from the images in SOURCE and write model, run.json, assignments.csv,
    clusters.png and report.html.
    """
    profile = None
    if with_profile:
        from selfsort.workflow.profile import Profile

        profile = Profile()
    settings = parse_changes(changes)
    if resume is not None:
        _refuse_stray(context)
        with _resumable(resume), _told(profile) as told:
            from selfsort.workflow.fit import resume_folder

            result = resume_folder(resume, settings=settings, callbacks=told)
        _print(result, as_json, profile)
        return
    if source is None:
        raise click.UsageError(
            "Missing argument 'SOURCE': a folder of images, a file, or one of digits, mnist, "
            "usps, svhn."
        )
    n_clusters = cluster_number(clusters)
    from selfsort.config import load_toml, parse_value
    from selfsort.recipes import DEFAULT_RECIPE

    in_file = load_toml(config_file) if config_file else {}
    recipe = recipe or in_file.pop("recipe", DEFAULT_RECIPE)
    in_file.pop("recipe", None)
    if precision:
        settings["precision"] = parse_value(precision)
    out = out or _default_out(source)
    with _resumable(out), _told(profile) as told:
        from selfsort.workflow.fit import sort_folder

        result = sort_folder(
            source,
            out=out,
            n_clusters=n_clusters,
            image_shape=shape_of(image_shape),
            recipe=recipe,
            settings=in_file | settings,
            report=not no_report,
            callbacks=told,
            **options,
        )
    _print(result, as_json, profile)


@contextmanager
def _told(profile: "Profile | None") -> "Iterator[Callbacks]":
    """What a person is told, and the profile, if there is to be one."""
    with callbacks() as told:
        if profile is None:
            yield told
        else:
            with profile:
                yield profile.listen(told)


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Within, a fit that stops or fails says how to resume it, if it can be."""
    from selfsort.runs.folder import RunFolder

    try:
        yield
    except (TrainingStopped, TrainingError) as error:
        if not RunFolder(folder).has_checkpoint():
            raise
        again = f"selfsort fit --resume {shlex.quote(str(folder))}"
        if isinstance(error, TrainingStopped):
            raise SelfsortError(f"{error} Resume with: {again}") from error
        raise TrainingError(
            f"{error} Its last good state is kept; resume with: {again} "
            "--set training.learning_rate=…"
        ) from error


def _refuse_stray(context: click.Context) -> None:
    given = {
        name
        for name in context.params
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if stray := sorted(given - {"resume", "as_json", "changes", "with_profile"}):
        raise click.UsageError(
            f"--resume takes no {stray[0]}: the folder knows how the run was started."
        )


def _default_out(source: str) -> Path:
    """Here, or beside the source if this is inside it: results there would be sorted themselves the
    next time.
    """
    name = f"{base_name(source)}-sorted"
    folder = Path(source).resolve()
    if folder.is_dir() and Path.cwd().is_relative_to(folder):
        return folder.with_name(name)
    return Path(name)


def _print(result: "Sorted", as_json: bool, profile: "Profile | None") -> None:
    from selfsort.metrics import Scores
    from selfsort.runs.counts import say_number

    run = result.run
    written = list(map(str, result.written))
    if as_json:
        report = {
            "scores": run.scores,
            "n_clusters": run.n_clusters,
            "label_free": run.label_free,
            "estimate": run.estimate,
            "warnings": run.warnings,
            "alignment": run.alignment,
            "written": written,
        }
        if profile:
            report["profile"] = {name: vars(spent) for name, spent in profile.stages.items()}
        echo(json.dumps(report))
        return
    print_scores({name: Scores(**table) for name, table in run.scores.items()}, run.label_free)
    if run.sources:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in run.sources.items())
        echo(f"sources by their part in the votes: {shares}")
    if run.estimate:
        accuracy, within = run.estimate["accuracy"], 100 * run.estimate["within"]
        echo(
            f"estimated accuracy, without labels: {accuracy:.0%}, give or take {within:.0f} points"
        )
    if run.count_curve:
        echo(f"number of clusters: {say_number(run.count_curve, run.n_clusters)}")
    if run.alignment:
        same = "{same:.1%} of the {common:,} images in common have the number of {to}"
        echo(same.format(**run.alignment))
    echo(*(f"warning: {warning}" for warning in result.unsaid))
    print_written(written)
    if profile:
        print_profile(profile)
