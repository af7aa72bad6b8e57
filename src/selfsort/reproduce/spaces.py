"""F, Z and softmax(Z) side by side: their maps, and k-means on each."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from selfsort.report.map import project
from selfsort.reproduce.paper import ACCURACY, AS_GOOD, ON_LOGITS
from selfsort.reproduce.result import Result, mean_accuracy, scores_table
from selfsort.reproduce.style import as_grid, draw_map, panels
from selfsort.reproduce.training import SPACES, Lab, LoadImages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "F, Z and softmax(Z)"
PAPER = (
    "Figure 5: digits are well separated in F and in Z, but not in softmax(Z), which is one-hot; "
    "k-means on Z is about as good "
    f"as on F ({ON_LOGITS} against {ACCURACY['mnist']} on MNIST)."
)
N_SAMPLES = 2000


def measure(lab: Lab) -> dict[str, Any]:
    """A map of each space for the first seed, scores of k-means for all."""
    scores: dict[str, list[dict[str, float]]] = {space: [] for space in SPACES}
    maps: dict[str, list[int]] = {}
    rows = lab.sample(N_SAMPLES)
    for trained in lab.by_seed():
        last = trained.epochs[-1]
        for space in SPACES:
            scores[space].append(asdict(trained.score(last, space)))
            if space not in maps:
                points = trained.represent(last).space(space)[rows]
                maps[space] = as_grid(
                    project(
                        points, seed=lab.spec.seeds[0], on_step=lab.stage(f"map of {SPACES[space]}")
                    )
                )
    return {
        "truth": lab.truth[rows].tolist(),
        "names": list(lab.scored.truth_names),
        "maps": maps,
        "scores": scores,
    }


def draw(result: Result, images: LoadImages) -> "Figure":
    """Three maps in a row."""
    figure, axes = panels(1, 3, height=2.5)
    found = result.findings
    for place, (space, text) in zip(axes, SPACES.items(), strict=True):
        title = (
            f"{text}, ACC {100 * found['scores'][space][0]['accuracy']:.1f} % (seed "
            f"{result.seeds[0]})"
        )
        draw_map(place, found["maps"][space], found["truth"], found["names"], title)
    return figure


def describe(result: Result) -> str:
    """Scores by space, and whether Z is as good as F and softmax(Z) worse."""
    scores = result.findings["scores"]
    latent, logits, softmax = (mean_accuracy(scores[space]) for space in SPACES)
    first = (
        "Z is about as good as F, as in the paper"
        if abs(logits - latent) <= AS_GOOD
        else "Z and F differ, unlike in the paper"
    )
    second = (
        "softmax(Z) is worse, as the paper's map suggests"
        if softmax < latent - AS_GOOD
        else "softmax(Z) is no worse"
    )
    return scores_table("k-means on", {text: scores[space] for space, text in SPACES.items()}) + (
        f"\n\n{first} ({logits - latent:+.2f} points); {second} ({softmax - latent:+.2f}, both "
        "against F)."
    )
