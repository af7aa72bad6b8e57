"""`selfsort fit`: images in; model, record, assignments, picture and report out."""

import json
import shlex
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from selfsort.commands.alignment import alignment_of, load_reference
from selfsort.commands.common import MAX_SEED, assignments_of, load_source_images, parse_changes, source_options
from selfsort.commands.report import REPORT, write_report
from selfsort.commands.state import CHECKPOINT, JOB, has_checkpoint, load_job, refuse_used_folder, remove_state, seconds_before
from selfsort.console import print_scores, progress_bars, say, stop_signal
from selfsort.errors import SelfsortError, TrainingError, TrainingStopped

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from selfsort.config import Config
    from selfsort.estimator import SelfSort
    from selfsort.images import ImageSet
    from selfsort.metrics import Scores

MODEL, PICTURE = "model.safetensors", "clusters.png"


@click.command()
@click.argument("source", required=False)
@click.option("-k", "--clusters", default="10", show_default=True, help="How many clusters; auto: as many as the images show.")
@click.option("--recipe", default=None, help="A named configuration; see `selfsort config`.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="TOML file with changes to the recipe.")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Change one setting, e.g. network.n_duplicates=10.")
@click.option("--epochs", type=click.IntRange(1), help="Replaces the recipe's number of epochs.")
@click.option("--transforms", help="Replaces the recipe's transformations: dihedral, T1,T3, scaling, …")
@click.option("--size", type=click.IntRange(8, 1024), help="Side to which images are resized.  [default: as the recipe says]")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, MAX_SEED), help="Same seed, same result.")
@click.option("--test", "test_source", help="Images to score as well.  [default: the test split of a named data set]")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for the results.  [default: NAME-sorted]")
@click.option(
    "--align-to", type=click.Path(path_type=Path), help="Earlier run or its CSV file whose cluster numbers to take over."
)
@click.option("--overwrite", is_flag=True, help="Replace the results of an earlier run in --out.")
@click.option("--no-report", is_flag=True, help="Do not write report.html (`selfsort report` can do it later).")
@click.option("--resume", type=click.Path(path_type=Path, file_okay=False), help="Go on with the interrupted run in this folder.")
@source_options
@click.pass_context
def fit(
    context: click.Context,
    /,
    source: str | None,
    resume: Path | None,
    out: Path | None,
    overwrite: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Learn clusters from the images in SOURCE and write model, run.json, assignments.csv, clusters.png and report.html."""
    from selfsort.files import locked

    if resume is not None:
        given = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
        if stray := sorted(given - {"resume", "as_json", "changes"}):
            raise click.UsageError(f"--resume takes no {stray[0]}: the folder knows how the run was started.")
        if not resume.is_dir():
            raise SelfsortError(f"{resume}: nothing to resume, no such folder.")
        with locked(resume):
            job = load_job(resume, fit.params)
            job["changes"] = [*job["changes"], *_rate_changes(options["changes"])]
            _start(resume, job, as_json, is_new=False)
        return
    if source is None:
        raise click.UsageError("Missing argument 'SOURCE': a folder of images, a file, or one of digits, mnist, usps, svhn.")
    out = out or Path(f"{Path(source).resolve().name if Path(source).exists() else source.replace(':', '-')}-sorted")
    for name in ("data_dir", "config_file", "align_to"):
        options[name] = str(options[name].resolve()) if options[name] else None
    options["test_source"] = _absolute(options["test_source"]) if options["test_source"] else None
    options["clusters"] = _cluster_number(options["clusters"])
    with locked(out):
        if not overwrite:
            refuse_used_folder(out)
        _start(out, {"source": _absolute(source), **options}, as_json, is_new=True)


def _start(out: Path, job: dict[str, Any], as_json: bool, *, is_new: bool) -> None:
    """Check and read everything that is given, then fit; what cannot be resumed leaves nothing behind."""
    from selfsort.files import save_json
    from selfsort.machine import choose_device, prepare_process

    threads, device = prepare_process(job["threads"]), choose_device(job["device"])
    job["device"] = str(device)  # `auto` may mean another one when the run is resumed
    settings = _settings(job)
    config = _check_config(job, settings)
    size = config.images.size and max(config.images.size, config.refinement.max_size if config.refinement.rounds else 0)
    images = load_source_images(job["source"], job, size)
    test = _load_test(images, job, size or max(8, *images.pixels.shape[2:]))
    reference = load_reference(images, job["align_to"]) if job["align_to"] else None
    if is_new:
        remove_state(out)
    save_json(out / JOB, job)
    try:
        shape = "×".join(map(str, images.pixels.shape[1:]))
        say(f"{images.source}: {len(images):,} images of {shape}, {device}, {threads} threads")
        _fit(images, test, reference, config, settings, job, out, as_json)
    except SelfsortError as error:
        if not has_checkpoint(out):  # nothing to resume
            remove_state(out)
        elif isinstance(error, TrainingError):
            go_on = f"selfsort fit --resume {shlex.quote(str(out))} --set training.learning_rate=…"
            raise TrainingError(f"{error} Its last good state is kept; go on from there with: {go_on}") from error
        raise


def _fit(
    images: "ImageSet",
    test: "ImageSet | None",
    reference: "NDArray[np.int64] | None",
    config: "Config",
    settings: dict[str, Any],
    job: dict[str, Any],
    out: Path,
    as_json: bool,
) -> None:
    from dataclasses import asdict

    from selfsort.diagnosis import Watch, diagnose
    from selfsort.estimator import SelfSort
    from selfsort.files import save_bytes
    from selfsort.journal import set_aside
    from selfsort.metrics import score
    from selfsort.picture import render_clusters
    from selfsort.projection import MAP_FILE
    from selfsort.recipes import DEFAULT_RECIPE
    from selfsort.run import Run, current_versions, save_run

    begin = time.monotonic() - seconds_before(out)
    sorter = SelfSort(
        job["clusters"],
        recipe=job["recipe"] or DEFAULT_RECIPE,
        epochs=job["epochs"],
        settings=settings,
        transforms=job["transforms"],
        device=job["device"],
        random_state=job["seed"],
        checkpoint=out / CHECKPOINT,
    )
    watch = Watch(config, say)
    try:
        with progress_bars() as bars, stop_signal() as stopped:
            sorter.on_progress = lambda progress: watch(progress) or bars.training(stopped, progress)
            sorter.on_stage = partial(bars.stage, stopped=stopped)
            sorter.fit(images)
    except TrainingStopped as error:
        raise SelfsortError(f"{error} Go on with: selfsort fit --resume {shlex.quote(str(out))}") from error

    if reference is not None:
        sorter.align(reference)
    scores: dict[str, Scores] = {}
    if images.truth is not None:
        scores[f"{images.source}, clusters fitted on these images"] = score(images.truth, sorter.labels_)
    if test is not None and test.truth is not None:
        scores[f"{test.source}, predicted from {images.source}"] = score(test.truth, sorter.predict(test))
        if len(test) >= sorter.n_clusters_:
            scores[f"{test.source}, clusters fitted on these images"] = score(test.truth, sorter.cluster_anew(test))
    found = diagnose(sorter)
    run = Run(
        source=images.source,
        recipe=sorter.recipe,
        config=sorter.config_.to_dict(),
        seed=sorter.seed_,
        n_clusters=sorter.n_clusters_,
        n_samples=len(images),
        image_shape=list(images.pixels.shape[1:]),
        history=[asdict(record) for record in sorter.history_],
        scores={protocol: asdict(table) for protocol, table in scores.items()},
        label_free=asdict(sorter.label_free_scores_),
        seconds=round(time.monotonic() - begin, 1),
        training_flops=sorter.training_flops_,
        eigenvalues=sorter.agreement_.eigenvalues if sorter.agreement_ else [],
        cluster_count=sorter.agreement_.cluster_count._asdict() if sorter.agreement_ else {},
        skipped=list(images.skipped),
        warnings=list((watch.found(sorter.history_) | found).values()),
        versions=current_versions(),
        reading={name: job[name] for name in ("source", "data_dir", "size", "folder_truth", "skip_broken")},
        alignment=alignment_of(sorter.labels_, reference, job["align_to"]) if reference is not None else {},
    )
    sorter.save(out)
    save_bytes(out / PICTURE, render_clusters(images, sorter.labels_, sorter.confidence_, sorter.n_clusters_))
    for outdated in (REPORT, MAP_FILE):
        (out / outdated).unlink(missing_ok=True)
    if aside := set_aside(out):
        say(f"edits of the earlier run are now in {aside}")
    save_run(out, run, assignments_of(images, sorter.labels_, sorter.confidence_), beside=(MODEL, PICTURE))
    remove_state(out)
    written = [str(out / file) for file in (MODEL, "run.json", "assignments.csv", PICTURE)]
    if not job["no_report"]:
        written += _report(out, images, sorter)
    if as_json:
        result = {"scores": run.scores, "n_clusters": run.n_clusters, "label_free": run.label_free, "warnings": run.warnings}
        click.echo(json.dumps({**result, "alignment": run.alignment, "written": written}))
    else:
        print_scores(scores, run.label_free)
        if reference is not None:
            click.echo("{same:.1%} of the {common:,} images in common have the number of {to}".format(**run.alignment))
        for warning in (found[kind] for kind in found if kind not in watch.told):  # the others have been said
            click.echo(f"warning: {warning}")
        click.echo("wrote " + "\n      ".join(written))


def _report(out: Path, images: "ImageSet", sorter: "SelfSort") -> list[str]:
    """The report of what was just written, so that it is the one that `selfsort report` writes; its failure loses nothing."""
    from selfsort.run import load_run

    def represent(chosen: "ImageSet", on_stage: Any) -> Any:
        sorter.on_stage = on_stage
        return sorter.transform(chosen)

    try:
        return write_report(out, *load_run(out), images, represent)
    except (SelfsortError, KeyboardInterrupt, MemoryError) as error:
        again = f"selfsort report {shlex.quote(str(out))}"
        say(f"no report: {str(error) or 'stopped.'} Everything else is written; try again with: {again}")
        return []


def _cluster_number(text: str) -> int | str:
    if text == "auto" or (text.isdecimal() and int(text) >= 1):
        return text if text == "auto" else int(text)
    raise click.UsageError(f"--clusters {text!r} should be a whole number >= 1, or auto.")


def _settings(job: dict[str, Any]) -> dict[str, Any]:
    """All changes to the recipe: the TOML file, then --set, then --size."""
    from selfsort.config import load_toml

    settings = (load_toml(Path(job["config_file"])) if job["config_file"] else {}) | parse_changes(job["changes"])
    return settings | ({"images.size": job["size"]} if job["size"] else {})


def _rate_changes(changes: tuple[str, ...]) -> tuple[str, ...]:
    """The only settings that may be changed when a run goes on: those that can save it from a loss that is no number."""
    for change in changes:
        if not change.partition("=")[0].strip().endswith(".learning_rate"):
            raise click.UsageError(f"--resume takes no --set {change}: only a learning_rate may change, the rest is as it was.")
    return changes


def _check_config(job: dict[str, Any], settings: dict[str, Any]) -> "Config":
    """Check the whole configuration before any image is read."""
    from selfsort.recipes import DEFAULT_RECIPE, get_recipe
    from selfsort.transforms import get_transforms

    changes = {"training.epochs": job["epochs"], "transforms": job["transforms"]}
    given = {name: value for name, value in changes.items() if value is not None}
    config = get_recipe(job["recipe"] or DEFAULT_RECIPE).replace(settings | given)
    get_transforms(config.transforms)
    if job["clusters"] == "auto" and config.clustering.method == "k-means":
        raise SelfsortError("-k auto works with --recipe standard; give a number here.")
    return config


def _absolute(source: str) -> str:
    return str(Path(source).resolve()) if Path(source).exists() else source


def _load_test(images: "ImageSet", job: dict[str, Any], size: int) -> "ImageSet | None":
    """The images of --test, else the test split of a named data set if its files can be had."""
    from selfsort.datasets import DATASETS
    from selfsort.errors import DataError

    if job["test_source"]:
        test = load_source_images(job["test_source"], job, size)
        if test.truth is None:
            raise DataError(f"{test.source}: has no truth to score with; --folder-truth takes it from sub-folders.")
        return test
    name, _, split = images.source.partition(":")
    if name not in DATASETS or split != "train":
        return None
    try:
        return load_source_images(f"{name}:test", job, size)
    except DataError as error:
        say(f"not scored on {name}:test: {error}")
        return None
