"""The results of `zoo.py` as a page with tables and a picture."""

import io
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from selfsort.files import save_bytes, save_text

KINDS = {
    "arabic": "handwriting",
    "omniglot60": "handwriting, 5 scripts",
    "notmnist": "printed letters",
    "quickdraw6": "drawings",
    "gtsrb43": "traffic signs, photos",
    "yaleb": "faces, 64 lightings",
    "coil20": "objects turning",
    "caltech20": "objects, photos",
    "kthtips": "textures",
    "neusteel6": "steel defects",
    "brainmri4": "medical",
    "flowers5": "plants, photos",
    "seedlings12": "plants, photos",
    "rsscn7": "aerial",
    "weather4": "scenes",
}
NAMED = {
    "discs": "coloured discs, drawn",
    "digits": "handwriting",
    "usps": "handwriting",
    "mnist": "handwriting",
    "svhn": "house numbers, photos",
}
"""Sets that need no file in the zoo; they do not count in its means."""

YARDSTICK = "HOG + spectral"
PRETRAINED = "lite0 + spectral"
MARGIN = 0.03
"""A set that is further below another method is called worse."""


@dataclass(frozen=True)
class Baselines:
    """What cheap methods reach on a set: accuracy and seconds of each."""

    name: str
    n_images: int
    n_clusters: int
    scores: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Measured:
    """What one fit of selfsort reaches; `estimated` is its mean confidence, `auroc` how well a low
    confidence tells the wrong images (None: all are right, or all wrong).
    """

    name: str
    encoder: str
    seed: int
    n_images: int
    n_clusters: int
    accuracy: float
    estimated: float
    auroc: float | None
    seconds: float
    protocols: dict[str, float]


class Results(NamedTuple):
    """All results, and what they depend on."""

    baselines: dict[str, Baselines]
    fits: dict[tuple[str, str], list[Measured]]
    notes: list[str]

    @property
    def names(self) -> list[str]:
        """The sets that there is a result of, in the order of the tables."""
        found = {*self.baselines, *(name for name, _ in self.fits)}
        known = [name for name in KINDS | NAMED if name in found]
        return known + sorted(found - {*known})

    def accuracy(self, name: str, encoder: str) -> float | None:
        """The mean over seeds, if there is one."""
        fits = self.fits.get((name, encoder))
        return statistics.mean(fit.accuracy for fit in fits) if fits else None

    def baseline(self, name: str, method: str) -> float | None:
        """The accuracy of a baseline, if it was run."""
        found = self.baselines.get(name)
        return found.scores[method]["accuracy"] if found and method in found.scores else None

    def best_cheap(self, name: str) -> float | None:
        """The best of those that nothing was trained for beforehand; truth chooses it."""
        found = self.baselines.get(name)
        cheap = found.scores.items() if found else []
        scores = [score["accuracy"] for method, score in cheap if not method.startswith("lite0")]
        return max(scores, default=None)


def load_results(folder: Path) -> Results:
    """Everything that `zoo.py` has found so far."""
    baselines: dict[str, Baselines] = {}
    fits: dict[tuple[str, str], list[Measured]] = {}
    origins: dict[tuple[str, str], list[Measured]] = {}
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text())
        if "encoder" not in content:
            baselines[content["name"]] = _build(Baselines, content)
            continue
        fit: Measured = _build(Measured, content)
        fits.setdefault((fit.name, fit.encoder), []).append(fit)
        settings = content["settings"]
        changed = "".join(f" --set {change}" for change in settings["set"])
        versions = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
        origin = (f"--threads {settings['threads']}{changed}", f"{settings['code']}, {versions}")
        origins.setdefault(origin, []).append(fit)
    return Results(baselines, fits, [_note(*key, origins[key]) for key in sorted(origins)])


def _note(options: str, versions: str, fits: Sequence[Measured]) -> str:
    """The command that repeats these fits, and with which code they were found."""
    seeds = " ".join(map(str, sorted({fit.seed for fit in fits})))
    encoders = " ".join(sorted({fit.encoder for fit in fits}))
    command = f"python benchmarks/zoo.py --seeds {seeds} --encoders {encoders} {options}"
    return f"`{command}`: {len(fits)} fits; code {versions}"


def _build(kind: type[Any], content: dict[str, Any]) -> Any:
    return kind(**{field.name: content[field.name] for field in fields(kind)})


def percent(value: float | None) -> str:
    """A share as a table has it."""
    return "–" if value is None else f"{100 * value:.1f}"


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation, in per cent."""
    if not values:
        return "–"
    mean = percent(statistics.mean(values))
    return f"{mean} ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else mean


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def scratch_table(results: Results) -> str:
    """Without any network that was trained elsewhere."""
    rows = []
    for name in results.names:
        fits = results.fits.get((name, "none"), [])
        found = fits[0] if fits else results.baselines.get(name)
        if not found:
            continue
        kind = (KINDS | NAMED).get(name, "–")
        cheap = [percent(results.baseline(name, YARDSTICK)), percent(results.best_cheap(name))]
        own = [_accuracy(fits), _seconds(fits)]
        rows.append([name, kind, found.n_images, found.n_clusters, *cheap, *own])
    head = ["ACC, %", "kind", "n", "k", YARDSTICK, "best cheap method (chosen by truth)"]
    return table([*head, "selfsort", "seconds"], rows)


def encoder_table(results: Results) -> str:
    """With a network that was trained with ImageNet's labels."""
    rows = []
    encoders = sorted({encoder for _, encoder in results.fits} - {"none"})
    for name in results.names:
        fits = [results.fits.get((name, encoder), []) for encoder in encoders]
        pretrained = results.baseline(name, PRETRAINED)
        if pretrained is None and not any(fits):
            continue
        cells = [cell for found in fits for cell in (_accuracy(found), _seconds(found))]
        rows.append([name, percent(pretrained), *cells])
    columns = [cell for encoder in encoders for cell in (f"selfsort, {encoder}", "seconds")]
    return table(["ACC, %", PRETRAINED, *columns], rows) if rows else "Not measured."


def _accuracy(fits: Sequence[Measured]) -> str:
    return spread([fit.accuracy for fit in fits])


def _seconds(fits: Sequence[Measured]) -> str:
    return f"{statistics.median(fit.seconds for fit in fits):.0f}" if fits else "–"


def confidence_table(results: Results) -> str:
    """What the confidence says of the accuracy, without truth."""
    rows = []
    order = results.names
    for name, encoder in sorted(results.fits, key=lambda key: (key[1], order.index(key[0]))):
        fits = results.fits[name, encoder]
        accuracy = statistics.mean(fit.accuracy for fit in fits)
        estimated = statistics.mean(fit.estimated for fit in fits)
        known = [fit.auroc for fit in fits if fit.auroc is not None]
        auroc = f"{statistics.mean(known):.3f}" if known else "–"
        off = f"{100 * (estimated - accuracy):+.1f}"
        rows.append([name, encoder, percent(accuracy), percent(estimated), off, auroc])
    head = ["set", "encoder", "ACC, %", "estimated: mean confidence, %", "too high by"]
    return table([*head, "AUROC for wrong images"], rows)


def summary_table(results: Results) -> str:
    """The whole zoo in a few figures, beside what is asked of it."""
    rows = []
    for encoder, title, asked, below, rivals, most in (
        ("none", "from scratch", (57, 65), YARDSTICK, (YARDSTICK,), (1, 0)),
        ("auto", "encoder by the default", (66, 75), f"the better of from scratch and {PRETRAINED}",
         ("none", PRETRAINED), (2, 0)),
    ):  # fmt: skip
        sets = {name: results.accuracy(name, encoder) for name in KINDS}
        found = {name: value for name, value in sets.items() if value is not None}
        fits = [results.fits[name, encoder] for name in found]
        if not found:
            continue
        worse = [name for name in found if _is_worse(results, name, found[name], rivals)]
        stds = [statistics.stdev(fit.accuracy for fit in some) for some in fits if len(some) > 1]
        std = f"{100 * statistics.mean(stds):.1f}" if stds else "–"
        seconds = statistics.median(fit.seconds for some in fits for fit in some)
        mean = percent(statistics.mean(found.values()))
        worse_cell = f"{len(worse)} ({', '.join(worse)})" if worse else "0"
        rows += [
            [f"{title}: mean of {len(found)} of {len(KINDS)} sets", mean, *asked],
            [f"{title}: sets more than 3 points below {below}", worse_cell, *most],
            [f"{title}: mean of the sets' standard deviations over seeds", std, 2, 1],
            [f"{title}: median seconds of a set", f"{seconds:.0f}", 60, 20],
        ]
    discs = results.fits.get(("discs", "none"), [])
    rows.append(["coloured discs, from scratch", _accuracy(discs), 99, 100])
    return table(["what", "measured", "asked for", "the aim"], rows)


def _is_worse(results: Results, name: str, own: float, rivals: Sequence[str]) -> bool:
    asked = [results.accuracy(name, rival) for rival in rivals]
    asked += [results.baseline(name, rival) for rival in rivals]
    return own < max((value for value in asked if value is not None), default=0.0) - MARGIN


def picture(results: Results) -> Figure:
    """A line per set with a dot per method."""
    names = results.names
    figure = Figure(figsize=(7, 1.2 + 0.3 * len(names)), layout="constrained")
    axes = figure.subplots()
    series: dict[str, tuple[str, str, Callable[[str], float | None]]] = {
        YARDSTICK: ("#777777", "s", lambda name: results.baseline(name, YARDSTICK)),
        "selfsort from scratch": ("#304cdc", "o", lambda name: results.accuracy(name, "none")),
        "selfsort with encoder": ("#f1155a", "D", lambda name: results.accuracy(name, "auto")),
    }
    for label, (colour, marker, value_of) in series.items():
        found = [(value_of(name), row) for row, name in enumerate(names)]
        dots = [(100 * value, row) for value, row in found if value is not None]
        across, down = zip(*dots, strict=True) if dots else ((), ())
        axes.scatter(across, down, c=colour, marker=marker, label=label, zorder=2)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0, 101)
    axes.set_xlabel("accuracy, %")
    axes.grid(color="#dddddd", zorder=0)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    return figure


def write_page(folder: Path, out: Path) -> None:
    """Write `zoo.md` and `zoo.png` into `out` from the results in `folder`."""
    results = load_results(folder)
    parts = [
        "# The zoo: images of many kinds",
        "Written by `python benchmarks/zoo.py`. Mean ± standard deviation over seeds; seconds of "
        "the whole `selfsort fit`, median over seeds. Truth is used for scores only; no fit sees "
        "it.",
        summary_table(results),
        "![Accuracy on each set](zoo.png)",
        "## From scratch",
        scratch_table(results),
        "## With a network that was trained with ImageNet's labels",
        encoder_table(results),
        "## What the confidence is worth",
        confidence_table(results),
        "## Commands and versions",
        "\n".join(f"- {note}" for note in results.notes) or "Nothing was measured yet.",
    ]
    save_text(out / "zoo.md", "\n\n".join(parts) + "\n")
    image = io.BytesIO()
    picture(results).savefig(image, dpi=120)
    save_bytes(out / "zoo.png", image.getvalue())
