"""A model and what somebody has corrected of its clusters to a better model. The network stays as
it is; what assigns images is found anew.
"""

from dataclasses import replace

from selfsort.data.image_set import ImageSet
from selfsort.sorting.by_sources import Compared, compare, settle
from selfsort.sorting.by_teaching import find_taught, keep_known
from selfsort.sorting.described import BySources
from selfsort.sorting.model import Model
from selfsort.sorting.pipeline import SORT_BY_SOURCES, learn_clusters
from selfsort.training.hooks import Hooks

BY_SOURCES = {"sources", "features"}
"""Kinds of assigners of images that were sorted by all sources."""


def relearn(
    model: Model, images: ImageSet, hooks: Hooks, compared: Compared | None = None
) -> Model:
    """Clusters that keep to what somebody has said (`images.taught`, with the clusters that were
    found before as `weak`). `compared` are the images as `compare_again` has them.
    """
    taught = images.taught
    assert taught is not None, "somebody has said something"
    assert taught.weak is not None, "they were sorted before"
    trained = model.trained
    n_clusters = len(taught.names)
    if model.assigner.kind not in BY_SOURCES:
        found = find_taught(trained, images, n_clusters, hooks)
        lesson = learn_clusters(trained, images, found.labels, n_clusters, hooks, found.known)
        return replace(
            model,
            assigner=lesson.assigner,
            assignment=keep_known(lesson.assignment, found.known),
            history=lesson.history,
            training_flops=lesson.training_flops,
            names=taught.names,
        )
    if compared is None:
        sort = SORT_BY_SOURCES[trained.modality.name]
        assigner, fusion, assignment = sort(trained, images, n_clusters, hooks)
    else:
        assigner, fusion, assignment = settle(trained, compared, taught, n_clusters, hooks)
    return replace(
        model, assigner=assigner, fusion=fusion, assignment=assignment, names=taught.names
    )


def compare_again(model: Model, images: ImageSet, hooks: Hooks) -> Compared | None:
    """What takes longest of `relearn`, to be kept while somebody corrects again and again; None
    where nothing can be kept.
    """
    is_whole = len(images) <= model.config.sources.max_images
    if not isinstance(model.assigner, BySources) or images.modality != "images" or not is_whole:
        return None
    return compare(model.trained, images, hooks)
