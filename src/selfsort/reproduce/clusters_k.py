"""What the clusters are when more or fewer are asked for than there are classes."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from selfsort.data.pictures import thumbnail
from selfsort.reproduce.result import Result
from selfsort.reproduce.style import bare, panels
from selfsort.reproduce.training import Lab, LoadImages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Another number of clusters"
PAPER = (
    "Figure 7: with k = 7 on MNIST similar digits share a cluster (4 and 9, 5 and 8, 0 and 6); "
    "with k = 20 some digits are "
    "divided by style, such as tilt or roundness."
)
NUMBERS, N_EXAMPLES, SIDE = (7, 20), 10, 32
SHARED = 0.2
"""A class has a part in a cluster if it makes up at least this share of it."""


def measure(lab: Lab) -> dict[str, Any]:
    """For each k the clusters of the first seed: size, truth, and images drawn at random."""
    trained = lab.first()
    draw, found = np.random.default_rng(lab.spec.seeds[0]), {}
    for n_clusters in NUMBERS:
        labels = trained.clusters(trained.epochs[-1], n_clusters).labels
        clusters = []
        for number in range(n_clusters):
            members = np.flatnonzero(labels == number)
            counts = np.bincount(lab.truth[members], minlength=len(lab.scored.truth_names)).tolist()
            clusters.append(
                {"counts": counts, "rows": draw.permutation(members)[:N_EXAMPLES].tolist()}
            )
        found[str(n_clusters)] = clusters
    return {"names": list(lab.scored.truth_names), "clusters": found}


def draw(result: Result, images: LoadImages) -> "Figure":
    """A column of clusters for each k, a row of images for each cluster."""
    figure, axes = panels(1, 2, height=4.9)
    scored = images()
    for place, (n_clusters, clusters) in zip(
        axes, result.findings["clusters"].items(), strict=True
    ):
        sheet = np.full(
            (max(NUMBERS) * (SIDE + 2), N_EXAMPLES * (SIDE + 2), 3), 255, dtype=np.uint8
        )
        for number, entry in enumerate(clusters):
            for column, row in enumerate(entry["rows"]):
                top, left = number * (SIDE + 2), column * (SIDE + 2)
                sheet[top : top + SIDE, left : left + SIDE] = np.asarray(
                    thumbnail(scored, row, SIDE)
                )
        bare(place, f"k = {n_clusters}")
        place.imshow(sheet[: int(n_clusters) * (SIDE + 2)], interpolation="nearest")
        texts = [
            f"{_classes(entry['counts'], result.findings['names'])}  ({sum(entry['counts']):,})"
            for entry in clusters
        ]
        place.set_yticks(
            [number * (SIDE + 2) + SIDE / 2 for number in range(len(texts))], labels=texts
        )
        place.tick_params(axis="y", length=0)
        place.grid(visible=False)
        place.spines[:].set_visible(False)
        place.set_anchor("N")
    return figure


def _parts(counts: list[int]) -> list[int]:
    """The classes that make up a good part of a cluster, the largest first."""
    return sorted(
        (value for value, n in enumerate(counts) if n >= SHARED * max(sum(counts), 1) and n),
        key=lambda value: -counts[value],
    )


def _classes(counts: list[int], names: list[str]) -> str:
    return " and ".join(names[value] for value in _parts(counts)) or "–"


def _divided(clusters: list[dict[str, Any]]) -> dict[int, int]:
    """The classes that have several clusters to themselves, with their number."""
    owners = Counter(parts[0] for entry in clusters if len(parts := _parts(entry["counts"])) == 1)
    return {value: count for value, count in sorted(owners.items()) if count > 1}


def describe(result: Result) -> str:
    """Which classes share a cluster, and which are divided."""
    names, lines = result.findings["names"], []
    for n_clusters, clusters in result.findings["clusters"].items():
        shared = [
            _classes(entry["counts"], names)
            for entry in clusters
            if len(_parts(entry["counts"])) > 1
        ]
        divided = [f"{names[value]} ({count})" for value, count in _divided(clusters).items()]
        lines.append(
            f"k = {n_clusters}: classes that share a cluster: {'; '.join(shared) or 'none'}. "
            f"Classes with several clusters of their own: {', '.join(divided) or 'none'}."
        )
    few, many = (result.findings["clusters"][str(number)] for number in NUMBERS)
    is_shared = any(len(_parts(entry["counts"])) > 1 for entry in few)
    verdict = (
        "agrees with the paper" if is_shared and _divided(many) else "does not agree with the paper"
    )
    return "\n".join(f"- {line}" for line in lines) + (
        "\n\nThat similar classes are joined when clusters are few and divided when they are "
        f"many {verdict}; which ones "
        "differs by data set and seed. The images of a row are drawn at random, the digits "
        "beside it are those that "
        "make up a fifth of it or more."
    )
