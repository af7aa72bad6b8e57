"""Which transformations let the classes be found: subsets of the rotations and flips, and other
kinds.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from selfsort.report.map import project
from selfsort.reproduce.paper import TRANSFORMATIONS
from selfsort.reproduce.result import Result, mean_accuracy, scores_table
from selfsort.reproduce.style import as_grid, draw_map, panels
from selfsort.reproduce.training import Lab, LoadImages

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Transformations"
PAPER = (
    "Figure 8 and section 4.6: 180° alone does nearly as well as all eight, 90° alone does not; "
    "with scaling or shearing there "
    "are groups, but not of digits, and with translation or permuted pixels there is nothing."
)
SETS = {
    "{T1..T8}": "dihedral", "{T1..T4}": "T1..T4", "{T1,T3}": "T1,T3", "{T1,T2}": "T1,T2",
    "scaling": "scaling", "shearing": "shearing", "translation": "translation",
    "permutation": "permutation",
}  # fmt: skip
N_SAMPLES = 2000
FAR, NEAR = 10, 1
"""How much ≫ asks for, and what ≥ lets pass."""

ORDER = (
    ("{T1..T8}", "≥", "{T1..T4}"),
    ("{T1..T4}", "≥", "{T1,T3}"),
    ("{T1,T3}", "≫", "{T1,T2}"),
    ("{T1,T2}", "≫", "translation"),
    ("{T1,T2}", "≫", "permutation"),
)


def measure(lab: Lab) -> dict[str, Any]:
    """Scores for each set and seed, and a map of F for the first seed."""
    rows, found = lab.sample(N_SAMPLES), {}
    jobs = [
        (seed, {"transforms": transforms})
        for transforms in SETS.values()
        for seed in lab.spec.seeds
    ]
    trainings = lab.trainings(jobs)
    for name in SETS:
        runs: dict[str, list[Any]] = {"scores": [], "points": []}
        for _ in lab.spec.seeds:
            trained = next(trainings)
            last = trained.epochs[-1]
            runs["scores"].append(asdict(trained.score(last)))
            if not runs["points"]:
                latent = trained.represent(last).latent[rows]
                runs["points"] = as_grid(
                    project(latent, seed=lab.spec.seeds[0], on_step=lab.stage(f"map of {name}"))
                )
        found[name] = runs
    return {"truth": lab.truth[rows].tolist(), "names": list(lab.scored.truth_names), "sets": found}


def draw(result: Result, images: LoadImages) -> "Figure":
    """Eight maps, the rotations above."""
    figure, axes = panels(2, 4, height=2.0)
    for place, (name, entry) in zip(axes, result.findings["sets"].items(), strict=True):
        title = f"{name}\nACC {100 * entry['scores'][0]['accuracy']:.1f} %"
        draw_map(place, entry["points"], result.findings["truth"], result.findings["names"], title)
    return figure


def describe(result: Result) -> str:
    """Accuracy by set, and which parts of the paper's order hold."""
    found = {name: entry["scores"] for name, entry in result.findings["sets"].items()}
    means = {name: mean_accuracy(scores) for name, scores in found.items()}
    held: list[str] = []
    broken: list[str] = []
    for more, sign, less in ORDER:
        holds = means[more] - means[less] >= (FAR if sign == "≫" else -NEAR)
        (held if holds else broken).append(f"{more} {sign} {less}")
    verdict = (
        f"Of the paper's order these hold: {'; '.join(held) or 'none'}. These do not: "
        f"{'; '.join(broken) or 'none'}."
    )
    note = f"(≫: by at least {FAR} points; ≥: at most {NEAR} point below.)"
    return scores_table("transformations", found, TRANSFORMATIONS) + f"\n\n{verdict} {note}"
