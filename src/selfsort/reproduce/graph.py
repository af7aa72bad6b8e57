"""The graphs of the paper: G_Y joins images of one parent, G_M those that the same duplicates
answer to.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from selfsort.method.seeds import derive_generator
from selfsort.reproduce.result import Result, markdown_table
from selfsort.reproduce.style import COLOURS, as_grid, bare, panels, scatter
from selfsort.reproduce.training import Lab, LoadImages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Graphs"
PAPER = (
    "Figure 6: for 500 MNIST test images under the first two parents, G_Y (edges Y Yᵀ) falls "
    "into one part per parent as "
    "training goes on, and G_M (edges B Bᵀ, a subgraph of G_Y) into δ parts with n_p ≤ δ ≤ "
    "n_p·k_s (2 ≤ δ ≤ 40 here), each "
    "a cluster."
)
N_SAMPLES, N_PARENTS, N_EPOCHS, N_DRAWN = 500, 2, 4, 1500
GRAPHS = {"Y": "G_Y", "M": "G_M"}
THRESHOLDS, DRAWN_AT = (0.25, 0.5, 0.75, 0.9, 0.95), 0.9
"""Least cosine of two rows of Y (or B) for an edge. No weight is exactly zero in a softmax, so a
limit has to be named; low ones let single images that are torn between two parents join all others.
0.5 was taken first and changed when it had shown one part after 40 epochs of USPS, so the limit is
no independent evidence; the parts at all five are on the page."""

LARGE = 0.01
"""A part with fewer than this share of the images is a stray one."""


def measure(lab: Lab) -> dict[str, Any]:
    """Edges and connected components at four milestones for the first seed, and the first graph's
    layout.
    """
    trained, rows = lab.first(), lab.sample(N_SAMPLES)
    places = np.linspace(0, len(trained.epochs) - 1, N_EPOCHS).round().astype(int)
    generator = derive_generator("graph", lab.spec.seeds[0])
    parents = torch.randint(N_PARENTS, (len(rows),), generator=generator)
    truth = lab.truth[rows]
    epochs = []
    for number, epoch in enumerate(sorted({trained.epochs[place] for place in places}), start=1):
        _, logits, parent_log_probs = trained.transformed(epoch, lab.scored.take(rows), parents)
        same = {"Y": parents.numpy()[:, None] == parents.numpy(), "M": truth[:, None] == truth}
        weights = {
            "Y": _cosines(parent_log_probs.exp().numpy()),
            "M": _cosines(logits.relu().flatten(1).numpy()),
        }
        inside = (weights["M"] >= DRAWN_AT) & ~np.eye(len(rows), dtype=bool)
        found: dict[str, Any] = {"epoch": epoch, "inside": _share(weights["Y"] >= DRAWN_AT, inside)}
        for name in GRAPHS:
            found[name] = _graph(weights[name], same[name], lab.spec.seeds[0])
        epochs.append(found)
        lab.stage("graphs")(number, len(places))
    return {
        "truth": truth.tolist(),
        "parents": parents.tolist(),
        "names": list(lab.scored.truth_names),
        "epochs": epochs,
    }


def _cosines(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    cosines: NDArray[np.float32] = unit @ unit.T
    return cosines


def _share(part: NDArray[np.bool_], whole: NDArray[np.bool_]) -> float:
    return float((part & whole).sum() / max(int(whole.sum()), 1))


def _graph(weights: NDArray[np.float32], same: NDArray[np.bool_], seed: int) -> dict[str, Any]:
    """Components at each threshold (all, and the large ones), edges and a drawing at one of
    them.
    """
    counts = {}
    for threshold in THRESHOLDS:
        _, labels = connected_components(weights >= threshold, directed=False)
        sizes = np.bincount(labels)
        counts[str(threshold)] = [len(sizes), int((sizes >= LARGE * len(weights)).sum())]
    edges = np.triu(weights >= DRAWN_AT, k=1)
    pairs = np.argwhere(edges)
    drawn = np.random.default_rng(seed).permutation(len(pairs))[:N_DRAWN]
    return {
        "edges": len(pairs),
        "same": _share(same, edges),
        "components": counts,
        "places": _layout(edges, seed),
        "drawn": pairs[np.sort(drawn)].ravel().tolist(),
    }


def _layout(edges: NDArray[np.bool_], seed: int) -> list[int]:
    """Places by forces: edges pull, all vertices push."""
    import networkx

    places = networkx.spring_layout(
        networkx.from_numpy_array(edges), seed=seed, iterations=100, method="energy", gravity=2.0
    )
    return as_grid(np.array([places[vertex] for vertex in range(len(edges))]))


def draw(result: Result, images: LoadImages) -> "Figure":
    """G_Y above, coloured by parent, G_M below, coloured by truth, an epoch per column."""
    from matplotlib.collections import LineCollection

    found = result.findings
    figure, axes = panels(2, len(found["epochs"]), height=2.15)
    for row, (name, text) in enumerate(GRAPHS.items()):
        for column, entry in enumerate(found["epochs"]):
            place, graph = axes[row * len(found["epochs"]) + column], entry[name]
            points = np.array(graph["places"]).reshape(-1, 2)
            lines = points[np.array(graph["drawn"]).reshape(-1, 2)]
            place.add_collection(LineCollection(list(lines), colors="#999999", linewidths=0.2))
            values = found["parents"] if name == "Y" else found["truth"]
            scatter(place, points, values, size=5)
            _, large = graph["components"][str(DRAWN_AT)]
            bare(place, f"${text}$, epoch {entry['epoch']}\n{graph['edges']:,} edges, δ = {large}")
    handles = [axes[0].scatter([], [], c=colour, s=14) for colour in COLOURS]
    style: dict[str, Any] = {
        "fontsize": 7,
        "handletextpad": 0,
        "columnspacing": 1,
        "ncols": len(COLOURS),
    }
    texts = [f"parent {parent + 1}" for parent in range(N_PARENTS)]
    figure.legend(
        handles[:N_PARENTS], texts, loc="outside upper left", title="$G_Y$, upper row", **style
    )
    figure.legend(
        handles, found["names"], loc="outside upper right", title="$G_M$, lower row: truth", **style
    )
    return figure


def describe(result: Result) -> str:
    """Edges and parts by epoch, parts by threshold, and what of the paper's picture holds."""
    epochs = result.findings["epochs"]
    rows = []
    for entry in epochs:
        for name, text in GRAPHS.items():
            graph = entry[name]
            counts = ", ".join(
                f"{large} ({whole})" for whole, large in graph["components"].values()
            )
            rows.append(
                (entry["epoch"], text, f"{graph['edges']:,}", f"{graph['same']:.1%}", counts)
            )
    head = (
        "epoch",
        "graph",
        "edges",
        "edges inside one parent (G_Y) or class (G_M)",
        f"δ for thresholds {', '.join(map(str, THRESHOLDS))}",
    )
    last = epochs[-1]
    parts = {name: last[name]["components"][str(DRAWN_AT)][1] for name in GRAPHS}
    n_duplicates = result.config["network"]["n_duplicates"]
    first = "as in the paper" if parts["Y"] == N_PARENTS else f"where the paper has {N_PARENTS}"
    is_inside = N_PARENTS <= parts["M"] <= N_PARENTS * n_duplicates
    range_text = (
        f"{'inside' if is_inside else 'outside'} the paper's {N_PARENTS} ≤ δ ≤ "
        f"{N_PARENTS * n_duplicates}"
    )
    return markdown_table(head, rows) + (
        "\n\nAn edge joins two images if the cosine of their rows of Y (or B) is at least the "
        f"threshold, {DRAWN_AT} "
        f"in the picture, which shows at most {N_DRAWN:,} edges of each graph. δ counts parts "
        f"with at least {LARGE:.0%} of the "
        "images, in brackets all parts. The picture's threshold was chosen after a first result "
        "had been seen (at 0.5 strays "
        f"join the parts), so read the whole row. At the end G_Y has δ = {parts['Y']}, {first}; "
        "G_M has δ = "
        f"{parts['M']}, {range_text}; {last['inside']:.1%} of the edges of G_M are edges of G_Y."
    )
