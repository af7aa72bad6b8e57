"""t-SNE of F as training goes on, with the accuracy of k-means."""

from typing import TYPE_CHECKING, Any

import numpy as np

from selfsort.report.map import project
from selfsort.reproduce.paper import EPOCHS
from selfsort.reproduce.result import Result
from selfsort.reproduce.style import COLOURS, as_grid, draw_map, panels
from selfsort.reproduce.training import Lab, LoadImages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "F while training goes on"
PAPER = (
    "Figure 3: in t-SNE of F of 2000 untransformed MNIST test images the digits separate between "
    "epoch 1 and epoch 400, while "
    "accuracy rises; most of both has happened after 50 epochs."
)
N_SAMPLES, N_MAPS, SOON = 2000, 6, 50


def measure(lab: Lab) -> dict[str, Any]:
    """Maps at six of the milestones and the curve at all of them, for the first seed."""
    trained, rows = lab.first(), lab.sample(N_SAMPLES)
    shown = sorted(
        {
            trained.epochs[place]
            for place in np.linspace(0, len(trained.epochs) - 1, N_MAPS).round().astype(int)
        }
    )
    maps = []
    for epoch in shown:
        points = project(
            trained.represent(epoch).latent[rows],
            seed=lab.spec.seeds[0],
            on_step=lab.stage(f"map {epoch}"),
        )
        maps.append({"epoch": epoch, "points": as_grid(points)})
    curve = trained.curve()
    return {
        "truth": lab.truth[rows].tolist(),
        "names": list(lab.scored.truth_names),
        "maps": maps,
        "curve": curve,
    }


def draw(result: Result, images: LoadImages) -> "Figure":
    """The maps in two rows, the curve below."""
    found = result.findings
    figure, axes = panels(3, 3, height=2.35)
    accuracy = {point["epoch"]: point["accuracy"] for point in found["curve"]}
    for place, entry in zip(axes, found["maps"], strict=False):
        title = f"epoch {entry['epoch']}, ACC {100 * accuracy[entry['epoch']]:.1f} %"
        draw_map(place, entry["points"], found["truth"], found["names"], title)
    for place in axes[len(found["maps"]) :]:
        place.remove()
    below = figure.add_subplot(axes[6].get_gridspec()[2, :])  # type: ignore[index]
    epochs = [point["epoch"] for point in found["curve"]]
    for name, colour, dashes in (("accuracy", COLOURS[0], "o-"), ("purity", COLOURS[1], "s:")):
        below.plot(
            epochs,
            [100 * point[name] for point in found["curve"]],
            dashes,
            color=colour,
            label=name,
        )
    below.set(
        xlabel="epoch",
        ylabel="per cent",
        title=f"k-means on F of all {result.images['n_scored']:,} scored images",
    )
    below.legend(loc="lower right")
    return figure


def describe(result: Result) -> str:
    """When how much of the accuracy was there."""
    curve = result.findings["curve"]
    first, last = curve[0], curve[-1]
    gain = last["accuracy"] - first["accuracy"]
    steps = ", ".join(
        f"{100 * point['accuracy']:.1f} after {point['epoch']}"
        for point in curve
        if point["epoch"] in (1, 10, 50, 100, 200)
    )
    text = f"Accuracy at epochs on the way (%): {steps}; {100 * last['accuracy']:.1f} at the end. "
    if gain <= 0.05:
        return text + "It does not agree: accuracy hardly rises."
    nearly = next(
        point["epoch"] for point in curve if point["accuracy"] >= first["accuracy"] + 0.9 * gain
    )
    verdict = "as in the paper" if nearly <= SOON else "later than in the paper"
    if result.epochs < EPOCHS:
        verdict = "of fewer epochs than the paper's"
    return text + (
        "Accuracy rises as the classes separate; nine tenths of the rise are reached "
        f"by epoch {nearly}, {verdict}."
    )
