"""Says when a run goes or went wrong, without truth, and what to do about it."""

from collections.abc import Callable, Mapping, Sequence

from selfsort.config import Config
from selfsort.estimator import SelfSort
from selfsort.loop import EpochRecord, Progress
from selfsort.transforms import get_transforms

CLEAR_GAP = 1.2
"""A spectrum whose largest step is less than so many times the next one does not show how many clusters there are."""

ENOUGH = 500
"""Images of each cluster that a graph needs to show how many there are: with 900 it did, with 180 it showed 2 to 8 of 10."""

ASK_MORE = " Runs on so few images differ; --set recluster.opinions=5 asks five networks, for five times the work."

WATCH_FROM = 0.5
"""Share of the training after which it is judged while it goes on."""

LITTLE, SOME, CLEAR = 0.05, 0.15, 0.3
"""Shares of the way from chance to certainty: nothing learned, during training and after it; and enough to judge parents."""


class Watch:
    """Sees every epoch of the training and says each thing that goes wrong once, as soon as half of the training is done."""

    def __init__(self, config: Config, say: Callable[[str], None]) -> None:
        self.n_parents, self.n_duplicates = len(get_transforms(config.transforms)), config.network.n_duplicates
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
        """All that was to be seen in a run, by its kind; the same whether or not it was interrupted."""
        epochs = [record for record in history if record.stage == "training"]
        found: dict[str, str] = {}
        for record in epochs:
            found = self._judge(record, len(epochs)) | found
        return found

    def _judge(self, record: EpochRecord, n_epochs: int) -> dict[str, str]:
        done = record.epoch / n_epochs
        if record.stage != "training" or done < WATCH_FROM:
            return {}
        faults = _faults(record.terms, self.n_parents, self.n_duplicates, LITTLE)
        return {kind: f"after {done:.0%} of the training {message}" for kind, message in faults.items()}


def _faults(terms: Mapping[str, float], n_parents: int, n_duplicates: int, share: float) -> dict[str, str]:
    """What the means over an epoch of pseudo-supervised training show, by its kind."""
    found, chance = {}, 1 / n_parents
    if (reached := terms["pseudo_accuracy"]) < chance + share * (1 - chance):
        found["chance"] = (
            f"the network names the right transformation for only {reached:.0%} of the images (chance: {chance:.0%}), "
            "so it has learned little; train longer (--epochs), or use --transforms that change how these images look."
        )
    elif reached > chance + CLEAR * (1 - chance) and terms.get("worst_parent", 1) < 0.01:
        found["dead parent"] = (
            f"one of the {n_parents} transformations is never recognised (a dead parent); try another --seed, or leave out "
            "those that hardly change these images (--transforms)."
        )
    if n_duplicates > 1 and terms.get("balance", 1) < 0.02:
        found["collapse"] = (
            "all images share one duplicate (collapse); raise objective.balance_weight or lower objective.affinity_weight."
        )
    return found


def diagnose(sorter: SelfSort) -> dict[str, str]:
    """One line for each thing that is suspicious about a fitted `sorter`, with a remedy, by its kind; none for a good run."""
    n_parents, n_duplicates = sorter.network_.head.nodes
    trained = [record.terms for record in sorter.history_ if record.stage == "training"]
    found = _faults(trained[-1], n_parents, n_duplicates, SOME)
    active = sorter.label_free_scores_.active_duplicates
    if active is not None and active < min(2, n_duplicates):
        found["collapse"] = (
            "all images share one duplicate (collapse); raise objective.balance_weight or lower objective.affinity_weight."
        )
    sizes = sorter.label_free_scores_.cluster_sizes
    share = sum(sizes) / len(sizes)
    small = [cluster for cluster, size in enumerate(sizes) if size < 0.05 * share]
    if small:
        found["empty clusters"] = (
            f"{len(small)} of {len(sizes)} clusters are nearly empty (cluster {small[0]}: {sizes[small[0]]} images); "
            "ask for fewer with -k, or use -k auto with recipe standard."
        )
    if len(sizes) > 2 and max(sizes) > 0.8 * sum(sizes):
        found["one cluster"] = (
            f"one cluster holds {max(sizes) / sum(sizes):.0%} of the images; train longer (--epochs), or try another --seed."
        )
    if sorter.agreement_ is not None:
        count = sorter.agreement_.cluster_count
        is_confirmed = count.n_clusters == sorter.n_clusters  # the number asked for is also the one that the graph shows
        n_images = int((sorter.agreement_.labels >= 0).sum())
        if sorter.n_clusters_ not in (1, count.n_clusters) and n_images < ENOUGH * sorter.n_clusters_:
            found["cluster count"] = (
                f"the views' graph shows {count.n_clusters} clusters, not {sorter.n_clusters_}, but {n_images} images are too "
                f"few to count so many (it takes about {ENOUGH} of each); keep -k if you know the number, else see clusters.png."
                + (ASK_MORE if sorter.agreement_.is_over and sorter.config_.recluster.opinions == 1 else "")
            )
        elif count.clarity < CLEAR_GAP and not is_confirmed:
            found["cluster count"] = (
                f"the views' graph has no clear gap (the largest step is {count.clarity:.2f} times the next), so the number of "
                "clusters is uncertain; look at clusters.png and choose -k yourself, or train longer (--epochs)."
            )
        elif count.n_clusters != sorter.n_clusters_:
            found["cluster count"] = (
                f"the views' graph shows {count.n_clusters} clusters, not {sorter.n_clusters_}; compare with -k auto."
            )
    return found
