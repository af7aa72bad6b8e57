"""What a fit has found, as the files of a run: record, table, model and picture."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfsort.clustering.judge import WITHIN
from selfsort.data.image_set import ImageSet, Numbers
from selfsort.data.oddities import Oddities
from selfsort.data.pictures import render_clusters
from selfsort.files import save_bytes
from selfsort.metrics import Scores, score
from selfsort.runs.folder import RunFolder
from selfsort.runs.job import FitJob
from selfsort.runs.journal import set_aside
from selfsort.runs.record import Run, current_versions
from selfsort.runs.results import save_run
from selfsort.runs.table import Assignments, save_metadata
from selfsort.runs.versions import set_versions_aside
from selfsort.sorting.estimator import SelfSort
from selfsort.workflow.images import Callbacks, assignments_of, stamp_of


def record_of(
    job: FitJob,
    images: ImageSet,
    sorter: SelfSort,
    *,
    scores: dict[str, Scores],
    seconds: float,
    warnings: list[str],
    alignment: dict[str, Any],
    oddities: Oddities,
) -> Run:
    """The record of a fit."""
    is_from_files = not isinstance(images.names, Numbers)
    fusion = sorter.model_.fusion
    shown = fusion or sorter.agreement_
    count = shown.cluster_count if shown else None
    return Run(
        source=images.source,
        recipe=sorter.recipe,
        config=sorter.config_.to_dict(),
        seed=sorter.seed_,
        n_clusters=sorter.n_clusters_,
        n_samples=len(images),
        image_shape=list(images.pixels.shape[1:]),
        history=[asdict(record) for record in sorter.history_],
        scores={name: asdict(table) for name, table in scores.items()},
        label_free=asdict(sorter.label_free_scores_),
        seconds=seconds,
        training_flops=sorter.training_flops_,
        eigenvalues=shown.eigenvalues if shown else [],
        cluster_count=count._asdict() if count else {},
        count_curve=[list(point) for point in fusion.count_curve] if fusion else [],
        estimate={"accuracy": fusion.accuracy, "within": WITHIN}
        if fusion and fusion.selections and not fusion.taught
        else {},
        skipped=dict(images.skipped),
        dropped=dict(images.dropped),
        oddities=oddities.to_dict(),
        notes=list(images.notes),
        warnings=warnings,
        versions=current_versions(),
        reading=asdict(job.reading())
        | {"size": max(images.pixels.shape[2:]) if is_from_files else job.size},
        alignment=alignment,
        sources=fusion.shares if fusion else {},
        names=list(sorter.names_),
        given=given_of(images, sorter),
        stamp=stamp_of(job.source, images.names),
    )


def write_results(
    folder: RunFolder, images: ImageSet, sorter: SelfSort, run: Run, callbacks: Callbacks
) -> list[Path]:
    """Everything but the report; `run.json` is last but for the removal of the job."""
    callbacks.on_stage("writing the results", 0, 1)
    sorter.save(folder.path)
    picture = render_clusters(images, sorter.labels_, sorter.confidence_, sorter.n_clusters_)
    save_bytes(folder.picture, picture)
    for outdated in (folder.report, folder.map, folder.vectors, folder.metadata):
        outdated.unlink(missing_ok=True)
    if aside := set_aside(folder.path):
        callbacks.tell(f"edits of the earlier run are now in {aside}")
    set_versions_aside(folder.path)
    beside = [folder.model, folder.picture]
    if images.columns:
        save_metadata(folder.metadata, images.names, images.columns)
        beside.append(folder.metadata)
    if folder.given.exists():
        beside.append(folder.given)
    assignments = name_clusters(
        assignments_of(images, sorter.labels_, sorter.confidence_), sorter.names_
    )
    save_run(folder.path, run, assignments, beside=[file.name for file in beside])
    folder.remove_state()
    callbacks.on_stage("writing the results", 1, 1)
    return [folder.model, folder.record, folder.table, *beside[1:]]


def score_all(sorter: SelfSort, images: ImageSet, test: ImageSet | None) -> dict[str, Scores]:
    """A table per protocol, where truth is known."""
    scores: dict[str, Scores] = {}
    if images.truth is not None:
        rest = unseen_rows(images)
        name = f"{images.source}, clusters fitted on these images"
        if len(rest) < len(images):
            name += ", those without a label"
        scores[name] = score(images.truth[rest], sorter.labels_[rest])
    if test is not None and test.truth is not None:
        name = f"{test.source}, predicted from {images.source}"
        scores[name] = score(test.truth, sorter.predict(test))
        if len(test) >= sorter.n_clusters_:
            name = f"{test.source}, clusters fitted on these images"
            scores[name] = score(test.truth, sorter.cluster_anew(test))
    return scores


def unseen_rows(images: ImageSet) -> NDArray[np.intp]:
    """The images whose class was not given: only these are scored."""
    if images.taught is None:
        return np.arange(len(images))
    return np.flatnonzero(images.taught.classes < 0)


def given_of(images: ImageSet, sorter: SelfSort) -> dict[str, Any]:
    """What the record says of what was known."""
    taught = images.taught
    if taught is None:
        return {}
    fusion = sorter.model_.fusion
    doubted = fusion.taught.doubted if fusion and fusion.taught else ()
    return {
        "labels": len(taught.anchors),
        "classes": list(taught.names),
        "parents": list(taught.parent_names),
        "doubted": [images.names[row] for row in doubted],
    }


def name_clusters(assignments: Assignments, names: Sequence[str]) -> Assignments:
    """The table with what the clusters are called, if any has a name."""
    if not any(names):
        return assignments
    return replace(assignments, cluster_names=[names[label] for label in assignments.labels])
