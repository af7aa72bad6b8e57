"""`selfsort fit`: images in; model, record, assignments and picture out."""

import json
import shlex
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from selfsort.commands.common import assignments_of, load_source_images, source_options
from selfsort.console import print_scores, progress_bars, say, stop_signal
from selfsort.errors import SelfsortError, TrainingStopped

if TYPE_CHECKING:
    from selfsort.images import ImageSet
    from selfsort.metrics import Scores

CHECKPOINT, JOB, MODEL, PICTURE = "checkpoint", "job.json", "model.safetensors", "clusters.png"


@click.command()
@click.argument("source", required=False)
@click.option("-k", "--clusters", default="10", show_default=True, help="How many clusters; auto: as many as the images show.")
@click.option("--recipe", default=None, help="A named configuration; see `selfsort config`.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="TOML file with changes to the recipe.")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Change one setting, e.g. network.n_duplicates=10.")
@click.option("--epochs", type=click.IntRange(1), help="Replaces the recipe's number of epochs.")
@click.option("--transforms", help="Replaces the recipe's transformations: dihedral, T1,T3, scaling, …")
@click.option("--size", type=click.IntRange(8, 1024), help="Side to which images are resized.  [default: as the recipe says]")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**31 - 1), help="Same seed, same result.")
@click.option("--test", "test_source", help="Images to score as well.  [default: the test split of a named data set]")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder for the results.  [default: NAME-sorted]")
@click.option("--overwrite", is_flag=True, help="Replace the results of an earlier run in --out.")
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
    """Learn clusters from the images in SOURCE and write model, run.json, assignments.csv and clusters.png."""
    from selfsort.files import save_json
    from selfsort.machine import prepare_process

    if resume is not None:
        given = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
        if stray := sorted(given - {"resume", "as_json"}):
            raise click.UsageError(f"--resume takes no {stray[0]}: the folder knows how the run was started.")
        out, job = resume, _load_job(resume)
    elif source is None:
        raise click.UsageError("Missing argument 'SOURCE': a folder of images, a file, or one of digits, mnist, usps, svhn.")
    else:
        out = out or Path(f"{Path(source).resolve().name if Path(source).exists() else source.replace(':', '-')}-sorted")
        if not overwrite:
            _refuse_used_folder(out)
        options["data_dir"] = str(options["data_dir"].resolve()) if options["data_dir"] else None
        options["config_file"] = str(options["config_file"].resolve()) if options["config_file"] else None
        options["test_source"] = _absolute(options["test_source"]) if options["test_source"] else None
        options["clusters"] = _cluster_number(options["clusters"])
        job = {"source": _absolute(source), **options}
    threads = prepare_process(job["threads"])
    settings = _settings(job)
    size = _image_size(job, settings)
    images = load_source_images(job["source"], job, size)
    test = _load_test(images, job, size or max(8, *images.pixels.shape[2:]))
    if resume is None:
        _remove_state(out)
        save_json(out / JOB, job)
    try:
        _fit(images, test, settings, job, out, threads, as_json)
    except SelfsortError:
        if not _has_state(out):  # nothing to resume
            _remove_state(out)
            with suppress(OSError):  # unless something else is in it
                out.rmdir()
        raise


def _fit(
    images: "ImageSet",
    test: "ImageSet | None",
    settings: dict[str, Any],
    job: dict[str, Any],
    out: Path,
    threads: int,
    as_json: bool,
) -> None:
    from dataclasses import asdict

    from selfsort.diagnosis import diagnose
    from selfsort.estimator import SelfSort
    from selfsort.files import save_bytes
    from selfsort.journal import set_aside
    from selfsort.metrics import score
    from selfsort.picture import render_clusters
    from selfsort.recipes import DEFAULT_RECIPE
    from selfsort.run import Run, current_versions, save_run

    begin = time.monotonic()
    sorter = SelfSort(
        job["clusters"],
        recipe=job["recipe"] or DEFAULT_RECIPE,
        epochs=job["epochs"],
        settings=settings,
        transforms=job["transforms"],
        random_state=job["seed"],
        checkpoint=out / CHECKPOINT,
    )
    say(f"{images.source}: {len(images):,} images of {'×'.join(map(str, images.pixels.shape[1:]))}, {threads} threads")
    try:
        with progress_bars() as bars, stop_signal() as stopped:
            sorter.on_progress, sorter.on_stage = partial(bars.training, stopped), partial(bars.stage, stopped=stopped)
            sorter.fit(images)
    except TrainingStopped as error:
        raise SelfsortError(f"{error} Go on with: selfsort fit --resume {shlex.quote(str(out))}") from error

    sorter.save(out)
    save_bytes(out / PICTURE, render_clusters(images, sorter.labels_, sorter.confidence_, sorter.n_clusters_))
    scores: dict[str, Scores] = {}
    if images.truth is not None:
        scores[f"{images.source}, clusters fitted on these images"] = score(images.truth, sorter.labels_)
    if test is not None and test.truth is not None:
        scores[f"{test.source}, predicted from {images.source}"] = score(test.truth, sorter.predict(test))
        if len(test) >= sorter.n_clusters_:
            scores[f"{test.source}, clusters fitted on these images"] = score(test.truth, sorter.cluster_anew(test))
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
        warnings=diagnose(sorter),
        versions=current_versions(),
        reading={name: job[name] for name in ("source", "data_dir", "size", "folder_truth", "skip_broken")},
    )
    if aside := set_aside(out):
        say(f"edits of the earlier run are now in {aside}")
    save_run(out, run, assignments_of(images, sorter.labels_, sorter.confidence_))
    _remove_state(out)
    written = [str(out / file) for file in (MODEL, "run.json", "assignments.csv", PICTURE)]
    if as_json:
        result = {"scores": run.scores, "n_clusters": run.n_clusters, "label_free": run.label_free, "warnings": run.warnings}
        click.echo(json.dumps({**result, "written": written}))
    else:
        print_scores(scores, run.label_free)
        for warning in run.warnings:
            click.echo(f"warning: {warning}")
        click.echo("wrote " + "\n      ".join(written))


def _cluster_number(text: str) -> int | str:
    if text == "auto" or (text.isdecimal() and int(text) >= 1):
        return text if text == "auto" else int(text)
    raise click.UsageError(f"--clusters {text!r} should be a whole number >= 1, or auto.")


def _settings(job: dict[str, Any]) -> dict[str, Any]:
    """All changes to the recipe: the TOML file, then --set, then --size."""
    from selfsort.config import load_toml, parse_value

    settings = load_toml(Path(job["config_file"])) if job["config_file"] else {}
    for change in job["changes"]:
        name, equals, value = change.partition("=")
        if not equals:
            raise click.UsageError(f"--set {change!r} should look like training.batch_size=200.")
        settings[name.strip()] = parse_value(value.strip())
    return settings | ({"images.size": job["size"]} if job["size"] else {})


def _image_size(job: dict[str, Any], settings: dict[str, Any]) -> int | None:
    """Check the whole configuration before any image is read; answers the size that it asks for."""
    from selfsort.recipes import DEFAULT_RECIPE, get_recipe
    from selfsort.transforms import get_transforms

    changes = {"training.epochs": job["epochs"], "transforms": job["transforms"]}
    given = {name: value for name, value in changes.items() if value is not None}
    config = get_recipe(job["recipe"] or DEFAULT_RECIPE).replace(settings | given)
    get_transforms(config.transforms)
    if job["clusters"] == "auto" and config.clustering.method == "k-means":
        raise SelfsortError("-k auto works with --recipe standard; give a number here.")
    return config.images.size and max(config.images.size, config.refinement.max_size if config.refinement.rounds else 0)


def _load_job(folder: Path) -> dict[str, Any]:
    try:
        job: dict[str, Any] = json.loads((folder / JOB).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        finished = (folder / "run.json").exists()
        reason = "its run is finished" if finished else f"it has no readable {JOB}"
        raise SelfsortError(f"{folder}: nothing to resume, {reason}.") from error
    names = {"source", *(option.name for option in fit.params)} - {"resume", "out", "overwrite", "as_json"}
    if not isinstance(job, dict) or set(job) != names:
        raise SelfsortError(f"{folder / JOB}: damaged or of another version; start anew with --overwrite.")
    return job


def _refuse_used_folder(out: Path) -> None:
    if _has_state(out):
        raise SelfsortError(f"{out}: holds an interrupted run; go on with --resume {out}, or start anew with --overwrite.")
    if (out / "run.json").exists():
        raise SelfsortError(f"{out}: holds the results of an earlier run; choose another --out, or --overwrite.")


def _has_state(out: Path) -> bool:
    return any((out / CHECKPOINT).glob("*.safetensors"))


def _remove_state(out: Path) -> None:
    """Remove what an interrupted run would go on from, and nothing else."""
    for file in (*(out / CHECKPOINT).glob("*.safetensors"), out / JOB):
        file.unlink(missing_ok=True)
    with suppress(OSError):
        (out / CHECKPOINT).rmdir()


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
