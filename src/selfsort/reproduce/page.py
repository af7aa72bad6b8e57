"""All results to one page: for each experiment what the paper says, what we found, and whether it
agrees.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol, cast

from selfsort.reproduce import EXPERIMENTS
from selfsort.reproduce.paper import ACCURACY, AS_GOOD, EPOCHS, SYSTEMS
from selfsort.reproduce.result import Result, markdown_table, mean_accuracy, spread
from selfsort.reproduce.training import Lab, LoadImages, slug

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEAD = """\
# The paper, reproduced

Written by `selfsort reproduce` from `results/`; do not edit. Each section has the paper's claim \
(Kilinc & Uysal, ICLR 2018) and
our result with its command; truth is used for scores and colours only. ACC is one-to-one, \
purity is majority vote, in per cent,
mean ± standard deviation over seeds. Quick runs show that an experiment works and prove nothing.
`docs/design/0002-readings-of-the-paper.md` has the readings of the paper that recipe \
`paper` takes, `benchmarks/RESULTS.md` what
recipe `standard` reaches.
"""


class Experiment(Protocol):
    """What the module of an experiment has."""

    TITLE: str
    PAPER: str

    def measure(self, lab: Lab) -> dict[str, Any]:
        """Train what is missing and return the findings."""

    def draw(self, result: Result, images: LoadImages) -> "Figure":
        """The picture of a result; `images` reads the scored ones."""

    def describe(self, result: Result) -> str:
        """Tables and a sentence on what agrees, as Markdown."""


def get_experiment(name: str) -> Experiment:
    """The module of an experiment."""
    return cast(Experiment, import_module(f"selfsort.reproduce.{name.replace('-', '_')}"))


def render_page(results: Sequence[Result], pictures: PurePosixPath) -> str:
    """The page as Markdown; `pictures` leads from it to the folder of results."""
    sections = [HEAD]
    for name in EXPERIMENTS:
        module = get_experiment(name)
        shown = longest([result for result in results if result.experiment == name])
        sections.append(f"## {module.TITLE}: `{name}`\n\n**The paper.** {module.PAPER}\n")
        if name == "table":
            sections.append(systems_table(shown) + "\n")
            if readings := readings_table(shown):
                sections.append(readings + "\n")
        if not shown:
            sections.append("Not run yet.\n")
        for result in shown:
            mark, note = "", ""
            if result.quick:
                mark, note = (
                    " (quick run)",
                    "A quick run: it shows that the experiment works, and its sentences prove "
                    "nothing.\n\n",
                )
            elif result.epochs < EPOCHS:
                note = f"Trained for {result.epochs} epochs; the paper's networks for {EPOCHS}.\n\n"
            changes = [f"{setting}={value}" for setting, value in result.settings.items()]
            sections.append(
                f"### {', '.join([result.images['scored'], *changes])}, {result.epochs} "
                f"epochs{mark}\n\n"
                f"![{module.TITLE}: {result.caption}]({pictures / name / result.stem}.png)\n\n"
                f"*{result.caption}.*\n\n{note}{module.describe(result)}\n\n`{result.command}`\n"
            )
    return "\n".join(sections)


def longest(results: Sequence[Result]) -> list[Result]:
    """Of each data set, recipe and change of settings the result with the most epochs; a quick one
    only if there is no other.
    """
    best: dict[tuple[str, str, str], Result] = {}
    for result in sorted(results, key=lambda result: (not result.quick, result.epochs)):
        best[result.dataset, result.recipe, slug(result.settings)] = result
    return [best[key] for key in sorted(best)]


def systems_table(results: Sequence[Result]) -> str:
    """The paper's table with a row of ours for each recipe and length."""
    rows: list[Sequence[object]] = [
        (row.name, row.n_clusters, row.mnist or "–", row.usps or "–", row.svhn or "–")
        for row in SYSTEMS
    ]
    ours: dict[str, dict[str, str]] = {}
    for result in results:
        if not result.quick and not result.settings:
            scores = [run["final"]["latent"] for run in result.findings["runs"]]
            text = f"{spread(scores)} ({len(scores)} seed{'s' if len(scores) > 1 else ''})"
            ours.setdefault(f"**selfsort, recipe `{result.recipe}`, {result.epochs} epochs**", {})[
                result.dataset
            ] = text
    rows += [
        (name, 10, *(found.get(data, "–") for data in ("mnist", "usps", "svhn")))
        for name, found in ours.items()
    ]
    return markdown_table(("ACC, k-means on F", "k", "MNIST test", "USPS full", "SVHN test"), rows)


def readings_table(results: Sequence[Result]) -> str:
    """Runs of the paper's recipe with one thing read otherwise, beside the recipe as it is after as
    many epochs.
    """
    of_the_paper = [result for result in results if result.recipe == "paper" and not result.quick]
    as_it_is = {result.dataset: result for result in of_the_paper if not result.settings}
    rows: list[Sequence[object]] = []
    verdicts, changed = [], set()
    for result in of_the_paper:
        if result.settings and result.dataset in as_it_is:
            base = as_it_is[result.dataset].findings["runs"]
            runs = result.findings["runs"]
            points = [
                point for run in base for point in run["curve"] if point["epoch"] == result.epochs
            ]
            changes = _changes(result)
            spaces = [[run["final"][space] for run in runs] for space in ("latent", "logits")]
            same = f"{spread(points)} ({len(points)})" if points else "–"
            rows.append(
                (
                    result.images["scored"],
                    changes,
                    result.epochs,
                    len(runs),
                    *map(spread, spaces),
                    same,
                )
            )
            changed.add(result.dataset)
            verdicts.append(f"{result.dataset} with {changes}: {_compare_spaces(result)}.")
    if not rows:
        return ""
    for dataset in sorted(changed):
        verdicts.append(f"{dataset} as it is: {_compare_spaces(as_it_is[dataset])}.")
        if dataset in ACCURACY:
            verdicts.append(
                _closest([result for result in of_the_paper if result.dataset == dataset])
            )
    head = (
        "images",
        "read otherwise",
        "epochs",
        "seeds",
        "ACC on F",
        "ACC on Z",
        "as it is, on F (seeds)",
    )
    title = (
        "**Read otherwise**, where the paper is silent or its authors' code differs, "
        "beside the recipe as it is:"
    )
    return "\n\n".join([title, markdown_table(head, rows), " ".join(verdicts)])


def _changes(result: Result) -> str:
    """What was read otherwise."""
    return ", ".join(f"`{name}={value}`" for name, value in result.settings.items())


def _closest(results: Sequence[Result]) -> str:
    """Which reading of one data set comes closest to the paper's figure."""
    paper = ACCURACY[results[0].dataset]
    means = [
        mean_accuracy([run["final"]["latent"] for run in result.findings["runs"]])
        for result in results
    ]
    mean, result = min(
        zip(means, results, strict=True), key=lambda found: abs(found[0] - paper.mean)
    )
    return (
        f"**The reading that comes closest** to the paper's {paper} on {result.images['scored']}: "
        f"{_changes(result) or 'the recipe as it is'}, {mean:.2f} after {result.epochs} epochs "
        f"(seeds: {len(result.seeds)})."
    )


def _compare_spaces(result: Result) -> str:
    """Whether k-means on Z does as well as on F, as the paper reports."""
    runs = result.findings["runs"]
    latent, logits = (
        mean_accuracy([run["final"][space] for run in runs]) for space in ("latent", "logits")
    )
    verdict = (
        "as in the paper Z is as good as F"
        if abs(logits - latent) <= AS_GOOD
        else "unlike in the paper Z and F differ"
    )
    return f"{verdict} ({logits:.2f} against {latent:.2f} after {result.epochs} epochs)"
