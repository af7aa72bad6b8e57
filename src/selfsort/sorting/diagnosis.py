"""Says when a run goes or went wrong, without truth, and what to do about it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from selfsort.clustering.fusion import Fusion
from selfsort.clustering.spectral import ClusterCount
from selfsort.clustering.views import Agreement
from selfsort.config import Config
from selfsort.data.image_set import ImageSet, sample_rows
from selfsort.method.modality import IMAGES, Modality
from selfsort.metrics import LabelFreeScores, score_without_truth
from selfsort.runs.counts import say_number
from selfsort.sorting.model import Model
from selfsort.training.hooks import Hooks
from selfsort.training.loop import EpochRecord, Progress

CLEAR_GAP = 1.2
"""A spectrum whose largest step is less than so many times the next one does not show how many
clusters there are.
"""

ENOUGH = 500
"""Images of each cluster that a graph needs to show how many there are: with 900 it did, with 180
it showed 2 to 8 of 10.
"""

ASK_MORE = (
    " Runs on so few images differ; recluster.opinions=5 asks five networks, for "
    "five times the work."
)

COLLAPSE = (
    "the network sees no difference between the images (collapse); try another seed, raise "
    "objective.balance_weight or lower objective.affinity_weight."
)

JUDGED = 5000
"""Images from which the scores without truth are taken, at most."""

JUDGEABLE = 64
"""Of fewer images than this an epoch says nothing: its means are those of a few guesses."""

WATCH_FROM = 0.5
"""Share of the training after which it is judged while it goes on."""

LITTLE = 0.05
SOME = 0.15
CLEAR = 0.3
"""Shares of the way from chance to certainty: nothing learned, during training and after it; and
enough to judge parents.
"""


class Watch:
    """Sees every epoch of the training and says each thing that goes wrong once, as soon as half of
    the training is done.
    """

    def __init__(
        self,
        config: Config,
        n_images: int,
        say: Callable[[str], None],
        modality: Modality = IMAGES,
    ) -> None:
        self.n_images = n_images
        self.n_parents = len(modality.get_transforms(config.transforms))
        self.n_duplicates = config.network.n_duplicates
        self.say = say
        self.told: set[str] = set()

    def __call__(self, progress: Progress) -> bool:
        """One step is done; answers whether to stop, as hooks do: never."""
        if progress.step == progress.n_steps:
            for kind, message in self._judge(progress.record, progress.n_epochs).items():
                if kind not in self.told:
                    self.told.add(kind)
                    self.say(f"warning: {message}")
        return False

    def found(self, history: Sequence[EpochRecord]) -> dict[str, str]:
        """All that was to be seen in a run, by its kind; the same whether or not it was
        interrupted.
        """
        epochs = [record for record in history if record.stage == "training"]
        found: dict[str, str] = {}
        for record in epochs:
            found = self._judge(record, len(epochs)) | found
        return found

    def _judge(self, record: EpochRecord, n_epochs: int) -> dict[str, str]:
        done = record.epoch / n_epochs
        if record.stage != "training" or done < WATCH_FROM or self.n_images < JUDGEABLE:
            return {}
        faults = _faults(record.terms, self.n_parents, self.n_duplicates, LITTLE)
        return {
            kind: f"after {done:.0%} of the training {message}" for kind, message in faults.items()
        }


def _faults(
    terms: Mapping[str, float], n_parents: int, n_duplicates: int, share: float
) -> dict[str, str]:
    """What the means over an epoch of pseudo-supervised training show, by its kind."""
    found = {}
    chance = 1 / n_parents
    if (reached := terms["pseudo_accuracy"]) < chance + share * (1 - chance):
        found["chance"] = (
            f"the network names the right transformation for only {reached:.0%} of the images "
            f"(chance: {chance:.0%}), "
            "so it has learned little; train longer (epochs), or use transforms that change "
            "how these images look."
        )
    elif reached > chance + CLEAR * (1 - chance) and terms.get("worst_parent", 1) < 0.01:
        found["dead parent"] = (
            f"one of the {n_parents} transformations is never recognised (a dead parent); try "
            "another seed, or leave out "
            "those that hardly change these images (transforms)."
        )
    if n_duplicates > 1 and terms.get("balance", 1) < 0.02:
        found["collapse"] = COLLAPSE
    return found


def judge(
    model: Model, images: ImageSet, labels: NDArray[np.int64], hooks: Hooks
) -> LabelFreeScores:
    """Scores without truth of the clusters of the images that a model was fitted on."""
    rows = sample_rows(len(images), JUDGED, model.trained.seed)
    representation = model.trained.represent(images.take(rows), hooks)
    points = representation.space(model.config.clustering.space)
    hooks.tell("judging", 0, 1)
    logits = representation.logits if model.trained.has_task else None
    scores = score_without_truth(points, labels[rows], model.n_clusters, logits=logits)
    hooks.tell("judging", 1, 1)
    sizes = np.bincount(labels, minlength=model.n_clusters).tolist()
    return replace(scores, cluster_sizes=sizes)


def takes_part(model: Model) -> bool:
    """Whether the network has a say: that one which gave up has learned little is no fault."""
    return model.trained.learned >= model.trained.config.training.give_up


def diagnose(model: Model, scores: LabelFreeScores) -> dict[str, str]:
    """One line for each thing that is suspicious about a fitted model, with a remedy, by its kind;
    none for a good run.
    """
    n_parents, n_duplicates = model.trained.network.head.nodes
    trained = [record.terms for record in model.history if record.stage == "training"]
    is_judged = sum(scores.cluster_sizes) >= JUDGEABLE
    is_judged &= takes_part(model)
    found = _faults(trained[-1], n_parents, n_duplicates, SOME) if trained and is_judged else {}
    active = scores.active_duplicates
    if is_judged and active is not None and active < min(2, n_duplicates):
        found["collapse"] = COLLAPSE
    sizes = scores.cluster_sizes
    share = sum(sizes) / len(sizes)
    small = [cluster for cluster, size in enumerate(sizes) if size < 0.05 * share]
    if small:
        found["empty clusters"] = (
            f"{len(small)} of {len(sizes)} clusters are nearly empty (cluster {small[0]}: "
            f"{sizes[small[0]]} images); "
            "ask for fewer clusters, or for auto with recipe standard."
        )
    if len(sizes) > 2 and max(sizes) > 0.8 * sum(sizes):
        found["one cluster"] = (
            f"one cluster holds {max(sizes) / sum(sizes):.0%} of the images; train longer "
            "(epochs), or try another seed."
        )
    if model.fusion is not None and model.asked is None:
        doubt = _doubt_curve(model.fusion)
    else:
        doubt = _doubt(model, model.agreement) if model.agreement is not None else None
    if doubt:
        found["cluster count"] = doubt
    return found


def _unclear(graph: str, count: ClusterCount) -> str:
    return (
        "the images fall into no clear number of groups (the largest step between the eigenvalues "
        f"of the {graph} is {count.clarity:.2f} times the next); look at the clusters and choose "
        "the number yourself, or train longer (epochs)."
    )


def _doubt_curve(fusion: Fusion) -> str | None:
    """What speaks against the number of clusters that the sources have found."""
    count = fusion.cluster_count
    if count is None or count.clarity >= CLEAR_GAP:
        return None
    if not fusion.count_curve:
        return _unclear("sum of all sources", count)
    shown = say_number(fusion.count_curve, count.n_clusters)
    return (
        f"the images fall into no clear number of groups (take {shown}); look at the clusters and "
        "choose the number yourself."
    )


def _doubt(model: Model, agreement: Agreement) -> str | None:
    """What speaks against the number of clusters."""
    count = agreement.cluster_count
    n_images = int((agreement.labels >= 0).sum())
    clear = "clear " if count.clarity >= CLEAR_GAP else ""
    shown = f"the images fall into {count.n_clusters} {clear}groups, not {model.n_clusters}"
    if model.n_clusters not in (1, count.n_clusters) and n_images < ENOUGH * model.n_clusters:
        is_alone = agreement.is_over and model.config.recluster.opinions == 1
        return (
            f"{shown}, but {n_images} images are too few to tell for sure (it takes about "
            f"{ENOUGH} of each); keep the number if you know it, else look at the clusters."
            + (ASK_MORE if is_alone else "")
        )
    # a number that was asked for and that the graph shows needs no clear gap
    if count.clarity < CLEAR_GAP and count.n_clusters != model.asked:
        return _unclear("views' graph", count)
    if count.n_clusters != model.n_clusters:
        return f"{shown}; compare with the clusters of `n_clusters='auto'`."
    return None
