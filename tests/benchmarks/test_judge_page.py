"""`benchmarks/judge.py`: figures to a page."""

from pathlib import Path

import numpy as np
import pytest

from judge_page import Fits, estimates, write_page


def fit(name: str, seed: int, accuracy: float, tightness: float) -> dict[str, object]:
    return {
        "name": name, "seed": seed, "n_clusters": 10, "best": accuracy + 0.1, "first": accuracy,
        "accuracy": accuracy, "spearman": 0.8, "score": 0.5, "tightness": tightness, "auroc": 0.7,
        "counted": 12 if seed else 20, "strangers": {"marked": 0.9, "false": 0.05},
    }  # fmt: skip


def test_an_estimate_has_not_seen_its_own_set(tmp_path: Path) -> None:
    def accuracy(tightness: float) -> float:
        return float(1 / (1 + np.exp(-(8 * tightness - 5))))

    fits = [
        fit(f"set {place}", seed, accuracy(tight), tight)
        for place, tight in enumerate((0.5, 0.6, 0.7, 0.8, 0.9))
        for seed in (0, 1)
    ]
    found, _ = estimates(fits)
    expected = [accuracy(tight) for tight in (0.5, 0.6, 0.7, 0.8, 0.9) for _ in (0, 1)]
    assert found == pytest.approx(expected, abs=0.03)
    spoiled = [one | {"accuracy": 0.1} if one["name"] == "set 2" else one for one in fits]
    again, _ = estimates(spoiled)
    assert again[4] == pytest.approx(found[4], abs=1e-9)
    assert again[0] != pytest.approx(found[0], abs=1e-3)
    write_page(Fits(fits), tmp_path)
    page = (tmp_path / "judge.md").read_text()
    assert "| regret: best candidate less the judge's first | 10.0 ± 0.0 |" in page
    assert "| 5 of 10 fits |" in page
    assert "| set 4 | 2 |" in page
