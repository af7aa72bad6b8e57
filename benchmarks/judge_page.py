"""What `judge.py` has measured, as judge.md."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from selfsort.reproduce.result import markdown_table

FOREIGN = 40
"""Images of each other set that are shown to a model as foreign ones."""


def estimates(fits: Sequence[dict[str, Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The estimated accuracy of each fit by a line that has not seen its set; and that of all."""
    sets = np.array([fit["name"] for fit in fits])
    truth = np.clip([fit["accuracy"] for fit in fits], 0.02, 0.98)
    known = np.array([[fit["tightness"], fit["score"], 1.0] for fit in fits])
    found = np.zeros(len(fits))
    for name in [*dict.fromkeys(sets), ""]:
        own = sets != name
        weights = np.array([1 / (sets[own] == one).sum() for one in sets[own]])
        scaled = known[own] * weights[:, None]
        ridge = 1e-3 * np.eye(3)
        logit = np.log(truth[own] / (1 - truth[own]))
        line = np.linalg.solve(scaled.T @ known[own] + ridge, scaled.T @ logit)
        found[~own] = np.clip(1 / (1 + np.exp(-known[~own] @ line)), 0.05, 0.99)
    return found, line


class Fits:
    """All fits that were measured, with means over sets and over seeds."""

    def __init__(self, fits: list[dict[str, Any]]) -> None:
        self.all = fits
        self.names = list(dict.fromkeys(fit["name"] for fit in fits))
        self.seeds = sorted({fit["seed"] for fit in fits})
        self.left_out, self.line = estimates(fits)
        self.strangers = [fit["strangers"] for fit in fits if "strangers" in fit]

    def of_set(self, name: str, values: Iterable[float]) -> list[float]:
        """Those of the values, one for each fit, that belong to this set."""
        pairs = zip(self.all, values, strict=True)
        return [value for fit, value in pairs if fit["name"] == name]

    def over_sets(self, values: Iterable[float]) -> list[float]:
        """The mean of each set."""
        listed = list(values)
        return [mean(self.of_set(name, listed)) for name in self.names]

    def with_spread(self, values: Iterable[float]) -> str:
        """The mean over sets in per cent, with its standard deviation over seeds."""
        pairs = list(zip(self.all, values, strict=True))
        per_seed = [mean(v for fit, v in pairs if fit["seed"] == seed) for seed in self.seeds]
        spread = f" ± {100 * stdev(per_seed):.1f}" if len(per_seed) > 1 else ""
        return f"{100 * mean(per_seed):.1f}{spread}"

    def column(self, key: str) -> list[float]:
        """A figure of each fit."""
        return [fit[key] for fit in self.all]

    def less(self, first: str, second: str) -> list[float]:
        """The difference of two figures of each fit."""
        return [fit[first] - fit[second] for fit in self.all]

    def errors(self) -> list[float]:
        """How far the estimate is from the accuracy, by a line that has not seen the set."""
        pairs = zip(self.left_out, self.column("accuracy"), strict=True)
        return [float(abs(estimated - accuracy)) for estimated, accuracy in pairs]


def summary(fits: Fits) -> list[list[str]]:
    """The figures that were asked for."""
    near = [abs(f["counted"] - f["n_clusters"]) <= f["n_clusters"] / 4 for f in fits.all]
    spearman = median(fits.over_sets(fits.column("spearman")))
    return [
        [
            "regret: best candidate less the judge's first",
            fits.with_spread(fits.less("best", "first")),
            *("9.6", "3", "1"),
        ],
        [
            "regret of the final clusters",
            fits.with_spread(fits.less("best", "accuracy")),
            *("–", "–", "–"),
        ],
        ["Spearman of judge and accuracy, median over sets", f"{spearman:.2f}", "–", "0.7", "0.9"],
        [
            "`-k auto` within a quarter of the true k",
            f"{sum(near)} of {len(near)} fits",
            *("2 of 4 digit sets", "half", "80 %"),
        ],
        [
            "AUROC of confidence for wrong images",
            f"{mean(fits.over_sets(fits.column('auroc'))):.3f}",
            *("0.55", "0.75", "0.85"),
        ],
        [
            "estimated less true accuracy, mean absolute, each set left out in turn",
            f"{100 * mean(fits.over_sets(fits.errors())):.1f}",
            *("41", "10", "5"),
        ],
        [
            "foreign images marked",
            f"{mean(one['marked'] for one in fits.strangers):.1%}",
            *("0 %", "80 %", "95 %"),
        ],
        [
            "unseen images of the same set marked",
            f"{mean(one['false'] for one in fits.strangers):.1%}",
            *("–", "5 %", "5 %"),
        ],
    ]


HEAD = (
    "set", "seeds", "best candidate", "judge's first", "final", "Spearman", "estimated, left out",
    "AUROC", "k", "`-k auto`", "foreign marked, %", "own marked, %",
)  # fmt: skip


def row_of(fits: Fits, name: str) -> list[object]:
    """The figures of a set."""
    own = [fit for fit in fits.all if fit["name"] == name]
    strangers = [fit["strangers"] for fit in own if "strangers" in fit]
    estimated = mean(fits.of_set(name, map(float, fits.left_out)))
    return [
        name,
        len(own),
        *(f"{100 * mean(fit[key] for fit in own):.1f}" for key in ("best", "first", "accuracy")),
        f"{mean(fit['spearman'] for fit in own):.2f}",
        f"{100 * estimated:.0f}",
        f"{mean(fit['auroc'] for fit in own):.2f}",
        own[0]["n_clusters"],
        ", ".join(str(fit["counted"]) for fit in own),
        *(f"{100 * mean(one[key] for one in strangers):.0f}" for key in ("marked", "false")),
    ]


def write_page(fits: Fits, out: Path) -> None:
    """The tables."""
    errors = sorted(fits.over_sets(fits.errors()))
    within = errors[round(0.8 * (len(errors) - 1))]
    tightness, learned, always = fits.line
    asked = markdown_table(["what", "measured", "before", "at least", "the aim"], summary(fits))
    text = f"""# The judge

Written by `python benchmarks/judge.py` from what `python benchmarks/judge_store.py` has kept:
{len(fits.all)} fits of {len(fits.names)} sets (the zoo, digits, 3000 of USPS, 5000 of MNIST train),
seeds {", ".join(map(str, fits.seeds))}, no encoder. Truth is used for scores only. The judge's
equation and the rest were chosen with these sets in view, so nothing here is a test of them.

{asked}

Regret and accuracy are points of ACC. The estimate is
1 / (1 + exp(−({tightness:.1f} · tightness + {learned:.1f} · learnability {always:+.1f}))), but for
each set by a line fitted to the others; on four of five sets it is within
{100 * within:.0f} points.

Foreign images are {FOREIGN} of each other set, brought to the same size and colours. There the
model has seen 80 % of its own set, and the other 20 % are the unseen ones (seed 0).

{markdown_table(HEAD, [row_of(fits, name) for name in fits.names])}
"""
    (out / "judge.md").write_text(text)
