"""The paper's table: accuracy of k-means on F, over seeds, with its curve and the readings that the
paper leaves open.
"""

from dataclasses import asdict
from statistics import mean as mean_of
from typing import TYPE_CHECKING, Any

from selfsort.metrics import score
from selfsort.reproduce.paper import ACCURACY, EPOCHS
from selfsort.reproduce.result import Result, mean_accuracy, scores_table
from selfsort.reproduce.style import COLOURS, MARKERS, panels
from selfsort.reproduce.trained import Trained
from selfsort.reproduce.training import SPACES, Lab, LoadImages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Accuracy"
PAPER = (
    "Table 3: one-to-one accuracy of k-means (k = 10) on F of the untransformed test images "
    "(USPS: all images), 400 epochs, 10 "
    "runs; the text adds that accuracy is high after 50 epochs already."
)
READINGS = {
    "latent": "k-means on F",
    "logits": "k-means on Z",
    "softmax": "k-means on softmax(Z)",
    "predicted": "k-means on F of the training images, test images predicted",
}


def measure(lab: Lab) -> dict[str, Any]:
    """For each seed the curve on F and, at the end, the scores of every reading."""
    runs = []
    for trained in lab.by_seed():
        last = trained.epochs[-1]
        curve = trained.curve()
        final = {space: asdict(trained.score(last, space)) for space in SPACES}
        if lab.scored is not lab.images:
            final["predicted"] = _predicted(trained, lab)
        runs.append({"seed": trained.trained.seed, "curve": curve, "final": final})
    return {"runs": runs}


def _predicted(trained: Trained, lab: Lab) -> dict[str, float]:
    """As a user has it: clusters from the images that were trained on, the others assigned to
    them.
    """
    last = trained.epochs[-1]
    trained.network(last)
    centres = trained.fit_clusters(
        trained.trained.represent(lab.images, trained.hooks).latent, len(lab.scored.truth_names)
    )
    return asdict(score(lab.truth, centres.assign(trained.represent(last).latent).labels))


def draw(result: Result, images: LoadImages) -> "Figure":
    """Accuracy (and purity) of each seed over the epochs, with the paper's figure."""
    figure, (axes,) = panels(1, 1, height=2.6)
    for number, run in enumerate(result.findings["runs"]):
        epochs = [point["epoch"] for point in run["curve"]]
        for name, dashes in (("accuracy", "-"), ("purity", ":")):
            values = [100 * point[name] for point in run["curve"]]
            text = f"{name}, seed {run['seed']}: {values[-1]:.2f}"
            axes.plot(
                epochs,
                values,
                dashes,
                color=COLOURS[number % 10],
                marker=MARKERS[number % 6],
                label=text,
            )
    if paper := ACCURACY.get(result.dataset):
        axes.axhline(
            paper.mean,
            color="black",
            linewidth=0.8,
            linestyle="--",
            label=f"the paper, {EPOCHS} epochs: {paper}",
        )
        axes.axhspan(
            paper.mean - paper.std, paper.mean + paper.std, color="black", alpha=0.12, linewidth=0
        )
    axes.set(
        xscale="log",
        xlabel="epoch",
        ylabel="per cent",
        title=f"{TITLE} on {result.images['scored']}",
    )
    axes.set_xticks(
        epochs[:: max(1, len(epochs) // 8)],
        labels=[str(epoch) for epoch in epochs[:: max(1, len(epochs) // 8)]],
    )
    axes.minorticks_off()
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=7)
    return figure


def describe(result: Result) -> str:
    """The readings side by side, and how the first compares."""
    return scores_table("reading", _readings(result)) + "\n\n" + compare(result)


def _readings(result: Result) -> dict[str, list[dict[str, float]]]:
    """The scores of all seeds for each reading."""
    finals = [run["final"] for run in result.findings["runs"]]
    return {
        text: [final[key] for final in finals] for key, text in READINGS.items() if key in finals[0]
    }


def compare(result: Result) -> str:
    """One sentence on the distance from the paper's figure."""
    readings = _readings(result)
    ours = readings[READINGS["latent"]]
    mean, seeds = mean_accuracy(ours), f"{len(ours)} seed{'s' if len(ours) > 1 else ''}"
    paper = ACCURACY.get(result.dataset)
    if paper is None:
        return f"The paper has no figure for {result.dataset}; ours is {mean:.2f} ({seeds})."
    gap = mean - paper.mean
    if result.epochs < EPOCHS or result.recipe != "paper":
        length = f"{result.epochs} epochs instead of {EPOCHS}"
        return (
            f"A waypoint and not a comparison ({length}): {gap:+.2f} points from the "
            f"paper's {paper}."
        )
    if abs(gap) <= 2 * paper.std:
        return (
            f"It agrees: {mean:.2f} ({seeds}) lies within two standard deviations of the "
            f"paper's {paper}."
        )
    means = {f"{text}, ACC": mean_accuracy(scores) for text, scores in readings.items()}
    means |= {
        f"{text}, purity": 100 * mean_of(entry["purity"] for entry in scores)
        for text, scores in readings.items()
    }
    closest = min(means, key=lambda reading: abs(means[reading] - paper.mean))
    return (
        f"It does not agree within two standard deviations: {mean:.2f} ({seeds}) is {gap:+.2f} "
        f"points from the paper's {paper}; "
        f"the reading that comes closest is {closest}: {means[closest]:.2f}."
    )
