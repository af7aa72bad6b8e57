"""The command line: arguments in, one-line errors out; torch is imported only inside the commands that need it."""

import errno
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from click.exceptions import NoArgsIsHelpError

from selfsort import __version__
from selfsort.console import print_scores, progress_bars, say, stop_signal
from selfsort.errors import SelfsortError, TrainingStopped

if TYPE_CHECKING:
    from selfsort.images import ImageSet
    from selfsort.metrics import Scores

CHECKPOINT, JOB, MODEL, PICTURE = "checkpoint", "job.json", "model.safetensors", "clusters.png"


class _Group(click.Group):
    """Turns every error that a user can meet into one line and a non-zero exit."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        for stream in (sys.stdout, sys.stderr):  # a file name that the terminal cannot show is no reason to fail
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        with _one_line_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with _one_line_errors():
            return super().invoke(ctx)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except SelfsortError as error:
        raise click.ClickException(_line(error)) from error
    except NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        hint = f" See: {error.ctx.command_path} --help" if error.ctx else ""
        raise click.UsageError(_line(error.format_message() + hint)) from error
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "allocate memory" not in str(error):  # torch's way to say it
            raise
        raise click.ClickException("not enough memory; use fewer or smaller images, or a smaller network.") from error
    except OSError as error:
        if error.errno == errno.EPIPE:  # click ends quietly when nobody reads on
            raise
        raise click.ClickException(_line(f"{error.filename or 'system'}: {error.strerror or error}.")) from error


def _line(message: object) -> str:
    return " ".join(str(message).split())


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__)
def main() -> None:
    """Sort unlabelled images into their natural classes.

    SOURCE is a folder of images, an image, an .npy or .npz file, or a named data set: digits, mnist, usps, svhn
    (a split is named as in mnist:test).
    """


def _source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that reads images."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
        click.option("--threads", type=click.IntRange(1), help="CPU threads.  [default: the CPUs this process may use]"),
        click.option("--skip-broken", is_flag=True, help="Leave out image files that cannot be read, and list them."),
        click.option("--folder-truth", is_flag=True, help="Take the names of sub-folders as truth (used to print scores only)."),
        click.option(
            "--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Where the files of named data sets are."
        ),
    ):
        command = option(command)
    return command


@main.command()
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
@_source_options
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
    images = _load(job["source"], job, size)
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
    )
    save_run(out, run, _assignments(images, sorter.labels_, sorter.confidence_))
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


@main.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("source")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="CSV file to write.  [default: NAME-assignments.csv]"
)
@click.option(
    "--copy-to", type=click.Path(path_type=Path, file_okay=False), help="Copy the files into one sub-folder per cluster."
)
@_source_options
def predict(run: Path, source: str, out: Path | None, copy_to: Path | None, as_json: bool, **options: Any) -> None:
    """Assign the images in SOURCE to the clusters that `fit` wrote to RUN."""
    from dataclasses import asdict

    from selfsort.machine import prepare_process
    from selfsort.metrics import score
    from selfsort.run import save_assignments

    if copy_to:
        if not Path(source).is_dir():
            raise click.UsageError("--copy-to needs a SOURCE that is a folder of image files.")
        if copy_to.exists() and any(copy_to.iterdir()):
            raise SelfsortError(f"{copy_to}: is not empty; choose a new folder, so that nothing is overwritten.")
    out = out or _new_file(f"{_base_name(source)}-assignments.csv")
    prepare_process(options["threads"])
    sorter, images = _model_and_images(run, source, options)
    with progress_bars() as bars:
        sorter.on_stage = bars.stage
        labels, confidence = sorter.assign(images)
    save_assignments(out, _assignments(images, labels, confidence))
    written = [str(out)]
    if copy_to:
        _copy_files(images, labels, copy_to)
        written.append(str(copy_to))
    scores = {f"{images.source}, predicted": score(images.truth, labels)} if images.truth is not None else {}
    if as_json:
        report = {"scores": {name: asdict(table) for name, table in scores.items()}, "written": written}
        click.echo(json.dumps({**report, "clusters": labels.tolist(), "skipped": list(images.skipped)}))
    else:
        if scores:
            print_scores(scores, {})
        click.echo(f"{len(images):,} images assigned\nwrote " + "\n      ".join(written))


@main.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("source")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write.  [default: NAME-embedding.npy]")
@_source_options
def embed(run: Path, source: str, out: Path | None, as_json: bool, **options: Any) -> None:
    """Write the latent representation F of the images in SOURCE as an .npy file."""
    import io

    import numpy as np

    from selfsort.files import save_bytes
    from selfsort.machine import prepare_process

    out = out or _new_file(f"{_base_name(source)}-embedding.npy")
    prepare_process(options["threads"])
    sorter, images = _model_and_images(run, source, options)
    with progress_bars() as bars:
        sorter.on_stage = bars.stage
        latent = sorter.transform(images)
    buffer = io.BytesIO()
    np.save(buffer, latent)
    save_bytes(out, buffer.getvalue())
    shape = list(latent.shape)
    click.echo(
        json.dumps({"shape": shape, "written": [str(out)]}) if as_json else f"{shape[0]:,} × {shape[1]} numbers\nwrote {out}"
    )


@main.command("score")
@click.argument("assignments", type=click.Path(path_type=Path))
@click.argument("truth", required=False)
@click.option("--data-dir", type=click.Path(path_type=Path, file_okay=False), help="Where the files of named data sets are.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def score_command(assignments: Path, truth: str | None, data_dir: Path | None, as_json: bool) -> None:
    """Compare ASSIGNMENTS (a run's folder or a CSV file) with TRUTH.

    TRUTH is a CSV file with the columns name and truth, a named data set, or a folder whose sub-folders are the classes;
    without it the column `truth` of the assignments is taken.
    """
    from dataclasses import asdict

    import numpy as np

    from selfsort.metrics import score
    from selfsort.run import load_assignments

    found = load_assignments(assignments / "assignments.csv" if assignments.is_dir() else assignments)
    known = _load_truth(truth, data_dir) if truth else dict(zip(found.names, found.truth or (), strict=False))
    rows = [row for row, name in enumerate(found.names) if name in known]
    if not rows:
        raise SelfsortError(f"{truth or assignments}: has truth for none of the {len(found.names)} names in {assignments}.")
    scores = score(np.array([known[found.names[row]] for row in rows]), found.labels[rows])
    if as_json:
        click.echo(json.dumps({**asdict(scores), "n_samples": len(rows), "without_truth": len(found.names) - len(rows)}))
    else:
        print_scores({f"{len(rows):,} of {len(found.names):,} images with truth": scores}, {})


@main.command("config")
@click.argument("recipe", required=False)
def config_command(recipe: str | None) -> None:
    """Print the settings of a RECIPE as TOML; `fit --config FILE` reads such a file, or any part of it."""
    from selfsort.recipes import DEFAULT_RECIPE, RECIPES, get_recipe

    config, part = get_recipe(recipe or DEFAULT_RECIPE), ""
    click.echo(f"# recipe {recipe or DEFAULT_RECIPE}; all recipes: {', '.join(RECIPES)}")
    for name, value, explanation in config.settings():
        prefix, _, option = name.rpartition(".")
        if prefix != part:
            click.echo(f"\n[{prefix}]")
            part = prefix
        text = f"{option} = {json.dumps(value)}" if value is not None else f"# {option} ="
        click.echo(f"{text:32} # {explanation}")


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
        test = _load(job["test_source"], job, size)
        if test.truth is None:
            raise DataError(f"{test.source}: has no truth to score with; --folder-truth takes it from sub-folders.")
        return test
    name, _, split = images.source.partition(":")
    if name not in DATASETS or split != "train":
        return None
    try:
        return _load(f"{name}:test", job, size)
    except DataError as error:
        say(f"not scored on {name}:test: {error}")
        return None


def _load(source: str, options: dict[str, Any], size: int | None) -> "ImageSet":
    """Images of a source; files are read at a size that can be looked at, also where the network works on a smaller one."""
    from selfsort.datasets import load_source
    from selfsort.images import FOLDER_SIZE

    with progress_bars() as bars:
        images = load_source(
            source,
            data_dir=Path(options["data_dir"]) if options["data_dir"] else None,
            size=max(size or 0, FOLDER_SIZE),
            truth_from_folders=options["folder_truth"],
            skip_broken=options["skip_broken"],
            on_file=lambda done, total: bars.stage("reading images", done, total),
        )
    if images.skipped:
        say(f"left out {len(images.skipped)} files that cannot be read:\n  " + "\n  ".join(map(repr, images.skipped)))
    return images


def _model_and_images(run: Path, source: str, options: dict[str, Any]) -> tuple[Any, "ImageSet"]:
    from selfsort.estimator import SelfSort

    sorter = SelfSort.load(run)
    return sorter, _load(source, options, sorter.refinement_preparation_.size)


def _load_truth(truth: str, data_dir: Path | None) -> dict[str, str]:
    from selfsort.datasets import load_source
    from selfsort.run import load_table

    if truth.endswith(".csv"):
        return {row["name"]: row["truth"] for row in load_table(Path(truth), "name", "truth") if row["truth"]}
    images = load_source(truth, data_dir=data_dir, size=8, truth_from_folders=True, skip_broken=True)
    if images.truth is None:
        raise SelfsortError(f"{truth}: has no truth.")
    return {name: images.truth_names[label] for name, label in zip(images.names, images.truth, strict=True)}


def _assignments(images: "ImageSet", labels: Any, confidence: Any) -> Any:
    from selfsort.run import Assignments

    truth = [images.truth_names[label] for label in images.truth] if images.truth is not None else None
    return Assignments(images.names, labels, confidence, truth)


def _copy_files(images: "ImageSet", labels: Any, target: Path) -> None:
    """Copy each file to TARGET/cluster-N/, the folders of its name joined with `__`."""
    import shutil

    assert images.root is not None
    for name, label in zip(images.names, labels, strict=True):
        place = target / f"cluster-{label}" / name.replace(os.sep, "__")
        while place.exists():
            place = place.with_name(f"_{place.name}")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(images.root / name, place)
        except OSError as error:
            raise SelfsortError(f"cannot copy {images.root / name} to {place}: {error.strerror or error}.") from error


def _base_name(source: str) -> str:
    path = Path(source).resolve()
    return path.name if path.is_dir() else path.stem if path.exists() else source.replace(":", "-")


def _new_file(name: str) -> Path:
    if Path(name).exists():
        raise SelfsortError(f"{name}: exists already; choose another file with --out.")
    return Path(name)
