"""Which dimensions of F, Z and softmax(Z) are active for untransformed images, and the norm of the
weights behind each.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from selfsort.reproduce.result import Result, markdown_table
from selfsort.reproduce.style import COLOURS, panels
from selfsort.reproduce.training import SPACES, Lab, LoadImages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Activity of the dimensions"
PAPER = (
    "Figure 4: F does not use all of its 2048 dimensions, but the weights of the unused ones do "
    "not decay; softmax(Z) uses the "
    "20 dimensions of the first parent and leaves the 140 others inactive; Z itself is "
    "distributed over all dimensions."
)
USED, ONE_HOT = 0.01, 0.98
"""A dimension is in use if the size of its mean activity is at least this share of the largest one;
the others are inactive if the first parent has so much of all activity."""


def measure(lab: Lab) -> dict[str, Any]:
    """Mean activity of each dimension over the scored images and the norm of its incoming weights,
    for the first seed.
    """
    trained = lab.first()
    last = trained.epochs[-1]
    representation, network = trained.represent(last), trained.network(last)
    before = [layer for layer in network.encoder.modules() if isinstance(layer, nn.Linear)][-1]
    norms = {"latent": before.weight.norm(dim=1), "logits": network.head.linear.weight.norm(dim=1)}
    norms["softmax"] = norms["logits"]
    spaces = {
        name: {
            "mean": _brief(representation.space(name).mean(axis=0, dtype=np.float64)),
            "norm": _brief(norms[name].numpy(force=True)),
        }
        for name in SPACES
    }
    return {"n_duplicates": network.head.nodes[1], "spaces": spaces}


def _brief(values: Any) -> list[float]:
    return [float(f"{value:.3g}") for value in values]


def draw(result: Result, images: LoadImages) -> "Figure":
    """A row per space: F's dimensions by activity, those of Z and softmax(Z) in their order, parent
    by parent.
    """
    figure, axes = panels(3, 1, height=1.75)
    for place, (name, text) in zip(axes, SPACES.items(), strict=True):
        mean, norm = (np.array(result.findings["spaces"][name][key]) for key in ("mean", "norm"))
        order = np.argsort(-mean, kind="stable") if name == "latent" else np.arange(len(mean))
        place.bar(
            np.arange(len(mean)),
            mean[order],
            width=1.0,
            color=COLOURS[0],
            label=f"mean activity of {text}",
        )
        beside = place.twinx()
        beside.plot(
            norm[order],
            ".",
            color=COLOURS[8],
            markersize=1.5 if len(mean) > 500 else 3,
            label="norm of its weights",
        )
        beside.set(ylim=(0, None), ylabel="norm")
        beside.grid(visible=False)
        beside.spines["right"].set_visible(True)
        title = f"{text}, {len(mean)} dimensions, " + (
            "by activity" if name == "latent" else "parent by parent"
        )
        place.set(title=title, ylabel="mean activity", xlim=(-0.5, len(mean) - 0.5))
        if name != "latent":
            n_duplicates = result.findings["n_duplicates"]
            place.set_xticks(
                np.arange(0, len(mean), n_duplicates) - 0.5,
                labels=[""] * (len(mean) // n_duplicates),
            )
            middles = np.arange(0, len(mean), n_duplicates) + n_duplicates / 2
            place.set_xticks(
                middles, labels=[f"T{parent + 1}" for parent in range(len(middles))], minor=True
            )
            place.tick_params(axis="x", which="minor", length=0)
    figure.legend(
        [axes[0].patches[0], beside.lines[0]],
        ["mean activity (left axis)", "norm of the weights behind it (right axis)"],
        loc="outside upper right", ncols=2, markerscale=2, fontsize=7,
    )  # fmt: skip
    return figure


def describe(result: Result) -> str:
    """How many dimensions are in use, and what became of the weights of the others."""
    rows, used_by = [], {}
    for name, text in SPACES.items():
        mean, norm = (np.array(result.findings["spaces"][name][key]) for key in ("mean", "norm"))
        used = used_by[name] = np.abs(mean) >= USED * np.abs(mean).max()
        rest = f"{np.median(norm[~used]):.2f}" if (~used).any() else "–"
        rows.append((text, len(mean), int(used.sum()), f"{np.median(norm[used]):.2f}", rest))
    head = (
        "space",
        "dimensions",
        f"in use (mean at least {USED:.0%} of the largest)",
        "median norm, in use",
        "median norm, not in use",
    )
    n_duplicates = result.findings["n_duplicates"]
    softmax = np.array(result.findings["spaces"]["softmax"]["mean"])
    inside = softmax[:n_duplicates].sum() / softmax.sum()
    n_latent, n_used = used_by["latent"].size, int(used_by["latent"].sum())
    norms = np.array(result.findings["spaces"]["latent"]["norm"])
    unused = ~used_by["latent"]
    if unused.any():
        ratio = np.median(norms[unused]) / np.median(norms[~unused])
        first = (
            (
                f"F uses {n_used} of {n_latent} dimensions, and the weights of the others have "
                f"{ratio:.0%} of the norm of those in "
            )
            + "use: "
            + (
                "as in the paper they do not decay"
                if ratio >= 0.5
                else "unlike in the paper they decay"
            )
        )
    else:
        first = f"Unlike in the paper, F uses all of its {n_latent} dimensions"
    as_there = (
        "as in the paper, the others are inactive" if inside >= ONE_HOT else "in the paper all"
    )
    return markdown_table(head, rows) + (
        f"\n\n{first}. softmax(Z) has {inside:.1%} of its activity in the {n_duplicates} "
        f"dimensions of the first parent ({as_there}); Z uses "
        f"{int(used_by['logits'].sum())} of {used_by['logits'].size}."
    )
