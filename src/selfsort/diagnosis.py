"""Says when a run went wrong, without truth, and what to do about it."""

from selfsort.estimator import SelfSort

CLEAR_GAP = 1.2
"""A spectrum whose largest step is less than so many times the next one does not show how many clusters there are."""


def diagnose(sorter: SelfSort) -> list[str]:
    """One line for each thing that is suspicious about a fitted `sorter`, with a remedy; none for a good run."""
    found = []
    n_parents = sorter.network_.head.nodes[0]
    trained = [record.terms for record in sorter.history_ if record.stage == "training"]
    if (reached := trained[-1]["pseudo_accuracy"]) < 1 / n_parents + 0.15 * (1 - 1 / n_parents):
        found.append(
            f"the network names the right transformation for only {reached:.0%} of the images (chance: {1 / n_parents:.0%}), "
            "so it has learned little; train longer (--epochs), or use --transforms that change how these images look."
        )
    active = sorter.label_free_scores_.active_duplicates
    if active is not None and active < min(2, sorter.network_.head.nodes[1]):
        found.append(
            "all images share one duplicate (collapse); raise objective.balance_weight or lower objective.affinity_weight."
        )
    sizes = sorter.label_free_scores_.cluster_sizes
    share = sum(sizes) / len(sizes)
    small = [cluster for cluster, size in enumerate(sizes) if size < 0.05 * share]
    if small:
        found.append(
            f"{len(small)} of {len(sizes)} clusters are nearly empty (cluster {small[0]}: {sizes[small[0]]} images); "
            "ask for fewer with -k, or use -k auto with recipe standard."
        )
    if len(sizes) > 2 and sizes[0] > 0.8 * sum(sizes):
        found.append(
            f"one cluster holds {sizes[0] / sum(sizes):.0%} of the images; train longer (--epochs), or try another --seed."
        )
    if sorter.agreement_ is not None:
        count = sorter.agreement_.cluster_count
        is_confirmed = count.n_clusters == sorter.n_clusters  # the number asked for is also the one that the graph shows
        if count.clarity < CLEAR_GAP and not is_confirmed:
            found.append(
                f"the views' graph has no clear gap (the largest step is {count.clarity:.2f} times the next), so the number of "
                "clusters is uncertain; look at clusters.png and choose -k yourself, or train longer (--epochs)."
            )
        elif count.n_clusters != sorter.n_clusters_:
            found.append(f"the views' graph shows {count.n_clusters} clusters, not {sorter.n_clusters_}; compare with -k auto.")
    return found
