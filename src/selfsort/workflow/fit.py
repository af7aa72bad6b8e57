"""Fits a source of images and leaves a run folder: model, record, table, picture and report."""

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from selfsort.config import Config
from selfsort.data.image_set import ImageSet
from selfsort.data.kinds import IMAGES, get_kind
from selfsort.data.oddities import find_oddities, warn_of
from selfsort.data.pictures import data_uri
from selfsort.data.teaching import settle_count
from selfsort.errors import ConfigError, SelfsortError, SelfsortWarning
from selfsort.method.devices import choose_device, choose_precision, prepare_process
from selfsort.method.encoders import check_encoder, settle_encoder
from selfsort.method.modality import MODALITIES
from selfsort.recipes import DEFAULT_RECIPE, resolve_config
from selfsort.runs.folder import RunFolder
from selfsort.runs.given import save_given
from selfsort.runs.job import FitJob, load_job, save_job
from selfsort.runs.record import Run
from selfsort.sorting.detail import source_size
from selfsort.sorting.diagnosis import Watch, takes_part
from selfsort.sorting.estimator import SelfSort
from selfsort.sorting.methods import check_request
from selfsort.text import things
from selfsort.workflow.alignment import alignment_of, load_reference
from selfsort.workflow.given import teach_job
from selfsort.workflow.images import Callbacks, read_source, read_test, refuse_inside
from selfsort.workflow.report import write_report
from selfsort.workflow.results import record_of, score_all, write_results


class Sorted(NamedTuple):
    """A run folder that was just written; `unsaid` are warnings that no hook was told of."""

    folder: Path
    run: Run
    sorter: SelfSort
    written: list[Path]
    unsaid: list[str]

    def __repr__(self) -> str:
        return (
            f"<{self.run.n_samples:,} images of {self.run.source} in {self.run.n_clusters} "
            f"clusters, in {self.folder}>"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows: the facts, the warnings and the pictures of the clusters."""
        picture = Image.open(RunFolder(self.folder).picture)
        warnings = "".join(f"<li>{escape(text)}</li>" for text in self.run.warnings)
        return (
            f"<p>{escape(repr(self)[1:-1])}</p><ul>{warnings}</ul>"
            f'<img src="{data_uri(picture)}" alt="typical images of each cluster">'
        )


def sort_folder(
    source: str | Path,
    *,
    out: str | Path,
    kind: str | None = None,
    image_shape: Sequence[int] | None = None,
    images: str | Path | None = None,
    n_clusters: int | str | None = None,
    labels: str | Path | None = None,
    parents: str | Path | None = None,
    folder_parents: bool = False,
    recipe: str = DEFAULT_RECIPE,
    settings: Mapping[str, Any] | None = None,
    epochs: int | None = None,
    transforms: str | None = None,
    encoder: str | None = None,
    size: int | None = None,
    seed: int = 0,
    test_source: str | Path | None = None,
    align_to: str | Path | None = None,
    overwrite: bool = False,
    report: bool = True,
    data_dir: str | Path | None = None,
    folder_truth: bool = False,
    skip_broken: bool = False,
    drop_duplicates: bool = False,
    device: str = "auto",
    threads: int | None = None,
    callbacks: Callbacks | None = None,
) -> Sorted:
    """Learn clusters from a source (a folder, a file or a named data set) and write everything
    about them to the folder `out`.

    Parameters are those of `SelfSort`, and: `labels` and `parents`, tables with the class of some
    images and the coarse class of all (`folder_parents`: their sub-folders); `images`, those that
    rows of features stand for; `size` to which images are resized; `test_source`, images to score
    as well; `align_to`, an earlier run or its table whose cluster numbers to take over (a run's
    edits count); `overwrite`, replace the run in `out`; `report`, write the page too;
    `folder_truth`, take the names of sub-folders as truth; `skip_broken`, leave out files that
    cannot be read; `drop_duplicates`, keep one of images that are the same or nearly. A fit that
    was stopped is continued by `resume_folder`.
    """
    job = FitJob(
        source=_absolute(source),
        kind=kind,
        image_shape=list(image_shape) if image_shape else None,
        images=_absolute(images) if images else None,
        n_clusters=n_clusters,
        recipe=recipe,
        settings=dict(settings or {}),
        epochs=epochs,
        transforms=transforms,
        encoder=encoder,
        size=size,
        seed=seed,
        test_source=_absolute(test_source) if test_source else None,
        align_to=str(Path(align_to).resolve()) if align_to else None,
        report=report,
        data_dir=str(Path(data_dir).resolve()) if data_dir else None,
        folder_truth=folder_truth,
        skip_broken=skip_broken,
        drop_duplicates=drop_duplicates,
        labels=_absolute(labels) if labels else None,
        parents=_absolute(parents) if parents else None,
        folder_parents=folder_parents,
        device=device,
        threads=threads,
    )
    folder = RunFolder(Path(out))
    refuse_inside(folder.path, job.source)
    with folder.locked():
        folder.claim(overwrite=overwrite)
        return _start(folder, job, callbacks or Callbacks(), is_new=True)


def resume_folder(
    folder: str | Path,
    *,
    settings: Mapping[str, Any] | None = None,
    callbacks: Callbacks | None = None,
) -> Sorted:
    """Continue the interrupted fit in a folder; of its settings only a `learning_rate` may change,
    which can save a fit from a loss that is no number.
    """
    path = Path(folder)
    for name in settings or {}:
        if not name.endswith(".learning_rate"):
            raise ConfigError(f"{name}: only a learning_rate may change when a run is resumed.")
    if not path.is_dir():
        raise SelfsortError(f"{path}: nothing to resume, no such folder.")
    paths = RunFolder(path)
    with paths.locked():
        job = load_job(paths)
        job = replace(job, settings=job.settings | dict(settings or {}))
        return _start(paths, job, callbacks or Callbacks(), is_new=False)


def _start(folder: RunFolder, job: FitJob, callbacks: Callbacks, *, is_new: bool) -> Sorted:
    """Check and read everything that is given, then fit; what cannot be resumed leaves nothing
    behind.
    """
    threads = prepare_process(job.threads)
    device = choose_device(job.device)
    config = _check_config(job)
    precision = choose_precision(config.precision, device)
    # `auto` may mean something else when it is resumed; another number of threads rounds otherwise
    settings = job.settings | {"precision": precision}
    job = replace(job, device=str(device), threads=threads, settings=settings)
    size = source_size(config, job.reading())
    images = read_source(job.reading(), size, callbacks)
    images = teach_job(images, job, folder, callbacks, is_new=is_new)
    images, n_clusters = settle_count(images, job.n_clusters)
    test_size = size or max(8, *images.pixels.shape[2:])
    test = read_test(images, job.test_source, job.reading(), test_size, callbacks)
    reference = load_reference(images, job.align_to, callbacks) if job.align_to else None
    check_request(n_clusters, len(images), config)
    config, encoder = settle_encoder(config, images)
    if config.sources.max_images:
        # `auto` may mean another one when it is resumed
        job = replace(job, encoder=encoder.name)
    if is_new:  # only now: everything that can be checked has been
        folder.remove_state()
        folder.given.unlink(missing_ok=True)
        if images.taught is not None:
            save_given(folder.given, images.names, images.taught)
    save_job(folder, job)
    shape = "×".join(map(str, images.pixels.shape[1:]))
    machine = f"{device}, {threads} threads, {precision} bits"
    count = things(len(images), images.modality)
    callbacks.tell(f"{images.source}: {count} of {shape}, {machine}")
    if config.sources.max_images:
        callbacks.tell(encoder.reason)
    try:
        return _fit(folder, job, config, images, n_clusters, test, reference, callbacks)
    except SelfsortError:
        if not folder.has_checkpoint():  # nothing to resume
            folder.remove_state()
        raise


def _fit(
    folder: RunFolder,
    job: FitJob,
    config: Config,
    images: ImageSet,
    n_clusters: int | str,
    test: ImageSet | None,
    reference: NDArray[np.int64] | None,
    callbacks: Callbacks,
) -> Sorted:
    callbacks.on_stage("looking for oddities", 0, 1)
    oddities = find_oddities(images)
    callbacks.on_stage("looking for oddities", 1, 1)
    if lines := oddities.describe():
        callbacks.tell(f"{images.source}: {', '.join(lines)}; run.json lists them")
    begin = time.monotonic() - folder.seconds_before()
    watch = Watch(config, len(images), callbacks.tell, MODALITIES[images.modality])
    sorter = SelfSort(
        n_clusters,
        kind=job.kind,
        image_shape=tuple(job.image_shape) if job.image_shape else None,
        recipe=job.recipe,
        epochs=job.epochs,
        settings=job.changes(),
        device=job.device,
        random_state=job.seed,
        checkpoint=folder.checkpoint,
        on_progress=lambda progress: watch(progress) or callbacks.on_progress(progress),
        on_stage=callbacks.on_stage,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelfsortWarning)  # they go into the record
        sorter.fit(images)
    alignment: dict[str, Any] = {}
    if reference is not None and job.align_to:
        sorter.align(reference)
        alignment = alignment_of(sorter.labels_, reference, job.align_to)
    asked = set(config.transforms.split(","))
    if left_out := sorted(asked - set(sorter.config_.transforms.split(","))):
        callbacks.tell(f"left out, as these data look alike under it: {', '.join(left_out)}")
    seen = watch.found(sorter.history_) if takes_part(sorter.model_) else {}
    found = sorter.warnings_ | warn_of(oddities, len(images))
    run = record_of(
        job,
        images,
        sorter,
        scores=score_all(sorter, images, test),
        seconds=round(time.monotonic() - begin, 1),
        warnings=list((seen | found).values()),
        alignment=alignment,
        oddities=oddities,
    )
    written = write_results(folder, images, sorter, run, callbacks)
    if job.report:
        written += _report(folder, images, sorter, callbacks)
    unsaid = [warning for kind, warning in found.items() if kind not in watch.told]
    return Sorted(folder.path, run, sorter, written, unsaid)


def _report(
    folder: RunFolder, images: ImageSet, sorter: SelfSort, callbacks: Callbacks
) -> list[Path]:
    """The page that `write_report` would write from disk; its failure loses nothing."""
    try:
        return write_report(folder.path, images=images, sorter=sorter, callbacks=callbacks)
    except (SelfsortError, KeyboardInterrupt, MemoryError) as error:
        callbacks.tell(
            f"no report: {str(error) or 'stopped.'} Everything else is written; `write_report` "
            "can try again."
        )
        return []


def _check_config(job: FitJob) -> Config:
    """Check the whole configuration before any image is read."""
    get_kind(job.kind)
    kind = job.kind or IMAGES
    config = resolve_config(job.recipe, job.changes(), epochs=job.epochs, kind=kind)
    MODALITIES[kind].get_transforms(config.transforms)
    check_encoder(config.sources)
    if job.align_to and not Path(job.align_to).exists():
        raise SelfsortError(f"{job.align_to}: no such file or run to align to.")
    if job.n_clusters == "auto" and config.clustering.method == "k-means":
        raise ConfigError("`n_clusters='auto'` works with `recipe='standard'`; give a number here.")
    return config


def _absolute(source: str | Path) -> str:
    return str(Path(source).resolve()) if Path(source).exists() else str(source)
