"""Accuracy against the width of F."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from selfsort.reproduce.result import Result, mean_accuracy, scores_table
from selfsort.reproduce.style import COLOURS, panels
from selfsort.reproduce.training import Lab, LoadImages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Width of F"
PAPER = (
    "Figure 4, last plot: down to a width of about 1024 accuracy hardly changes; below, it "
    "falls dramatically."
)
WIDTHS, QUICK_WIDTHS, ENOUGH = (128, 256, 512, 1024, 2048, 4096), (128, 2048), 1024


def measure(lab: Lab) -> dict[str, Any]:
    """Scores of k-means on F at the end, for each width and seed."""
    widths = QUICK_WIDTHS if lab.spec.quick else WIDTHS
    jobs = [(seed, {"network.latent_width": width}) for width in widths for seed in lab.spec.seeds]
    found: dict[str, list[dict[str, float]]] = {str(width): [] for width in widths}
    for (_, changes), trained in zip(jobs, lab.trainings(jobs), strict=True):
        found[str(changes["network.latent_width"])].append(
            asdict(trained.score(trained.epochs[-1]))
        )
    return {"widths": found}


def draw(result: Result, images: LoadImages) -> "Figure":
    """Every run a point, a line through the means."""
    figure, (axes,) = panels(1, 1, height=2.3)
    widths = [int(width) for width in result.findings["widths"]]
    for name, colour, dashes in (("accuracy", COLOURS[0], "o-"), ("purity", COLOURS[1], "s:")):
        runs = [
            [100 * entry[name] for entry in scores] for scores in result.findings["widths"].values()
        ]
        axes.plot(
            widths, [sum(values) / len(values) for values in runs], dashes, color=colour, label=name
        )
        for width, values in zip(widths, runs, strict=True):
            axes.plot([width] * len(values), values, dashes[0], color=colour, alpha=0.5)
    axes.set(xscale="log", xlabel="width of F", ylabel="per cent", title="k-means on F")
    axes.set_xticks(widths, labels=[str(width) for width in widths])
    axes.minorticks_off()
    axes.axvline(ENOUGH, color="black", linewidth=0.8, linestyle="--")
    axes.annotate(
        " the paper: no loss from here on", (ENOUGH, axes.get_ylim()[0]), va="bottom", fontsize=7
    )
    axes.legend()
    return figure


def describe(result: Result) -> str:
    """Accuracy by width, and whether it falls where the paper says."""
    found = result.findings["widths"]
    means = {int(width): mean_accuracy(scores) for width, scores in found.items()}
    above, below = (
        [mean for width, mean in means.items() if (width >= ENOUGH) is side]
        for side in (True, False)
    )
    loss = min(above) - max(below)
    text = (
        f"From {ENOUGH} on accuracy varies by {max(above) - min(above):.1f} points; the "
        "best narrower network is "
    )
    text += (
        f"{abs(loss):.1f} points {'below' if loss > 0 else 'above'} the least of these, "
        "the narrowest "
    )
    fall = max(above) - means[min(means)]
    text += f"{abs(fall):.1f} points {'below' if fall > 0 else 'above'} the best: "
    verdict = (
        "the paper's dramatic fall is there"
        if fall >= 10
        else "the paper's dramatic fall is not there"
    )
    return scores_table("width of F", found) + f"\n\n{text}{verdict}."
