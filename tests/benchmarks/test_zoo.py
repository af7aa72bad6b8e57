"""`benchmarks/zoo.py`: from sets to a page."""

import json
from pathlib import Path

import numpy as np
import pytest

import zoo
from zoo_page import Baselines, Measured, Results, summary_table

TINY = (
    "training.epochs=1",
    "training.min_steps=2",
    "training.min_images=0",
    "training.batch_size=20",
    "recluster.opinions=1",
    "recluster.factor=1",
    "refinement.rounds=1",
    "refinement.steps=2",
    "refinement.batch_size=20",
)


@pytest.mark.slow
def test_a_set_is_measured_once_and_again_when_a_setting_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels, truth = zoo.draw_discs(0, n_images=40, side=12)
    np.savez(tmp_path / "tiny.npz", x=pixels, y=truth)
    asked = ["--data", str(tmp_path), "--out", str(tmp_path), "--threads", "1"]
    asked += ["--sets", "tiny", "absent", "--seeds", "3", "--encoders", "none"]
    tiny = [part for change in TINY for part in ("--set", change)]
    assert zoo.main(asked + tiny) == 0
    assert "left out, not in" in capsys.readouterr().err
    found = json.loads((tmp_path / "results" / "zoo" / "tiny_none_seed-3.json").read_text())
    assert (found["name"], found["n_images"], found["n_clusters"]) == ("tiny", 40, 3)
    assert 1 / 3 <= found["accuracy"] <= 1
    assert 0 <= found["estimated"] <= 1
    assert list(found["protocols"]) == ["tiny, clusters fitted on these images"]
    page = (tmp_path / "zoo.md").read_text()
    accuracy = f"{100 * found['accuracy']:.1f}"
    assert f"| tiny | – | 40 | 3 | {_hog(tmp_path)} | 100.0 | {accuracy} |" in page
    assert f"| tiny | none | {accuracy} |" in page
    assert "`python benchmarks/zoo.py --seeds 3 --encoders none --threads 1 --set " in page
    assert (tmp_path / "zoo.png").read_bytes().startswith(b"\x89PNG")

    computed: list[zoo.Task] = []
    monkeypatch.setattr(zoo.Zoo, "run", lambda self, task: computed.append(task))
    zoo.main(asked + tiny)
    assert computed == []
    zoo.main([*asked, *tiny, "--set", "refinement.steps=3"])
    assert computed == [zoo.Task("tiny", 3, "none")]
    zoo.main([*asked, *tiny, "--again"])
    assert computed[1:] == [zoo.Task("tiny"), zoo.Task("tiny", 3, "none")]


def _hog(folder: Path) -> str:
    scores = json.loads((folder / "results" / "zoo" / "tiny_baselines.json").read_text())["scores"]
    return f"{100 * scores['HOG + spectral']['accuracy']:.1f}"


def test_a_fit_that_fails_says_why_and_the_page_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--sets", "digits", "--seeds", "0", "--encoders", "none", "--set", "no.such=1"]
    (tmp_path / "results" / "zoo").mkdir(parents=True)
    settings = zoo.Zoo(tmp_path, tmp_path, 1, []).baselines
    done = {"name": "digits", "n_images": 9, "n_clusters": 3, "scores": {}, "settings": settings}
    (tmp_path / "results" / "zoo" / "digits_baselines.json").write_text(json.dumps(done))
    assert zoo.main([*asked, "--out", str(tmp_path), "--threads", "1"]) == 1
    assert "no.such" in capsys.readouterr().err
    assert "| digits | handwriting | 9 | 3 |" in (tmp_path / "zoo.md").read_text()


def test_wrong_images_are_those_outside_the_best_mapping() -> None:
    truth = ["a", "a", "b", "b", "b"]
    assert zoo.wrong_images(truth, np.array([7, 7, 7, 3, 3])).tolist() == [0, 0, 1, 0, 0]
    assert zoo.wrong_images(truth, np.zeros(5, np.int64)).tolist() == [1, 1, 0, 0, 0]


def test_discs_differ_by_colour_only_and_by_seed() -> None:
    pixels, truth = zoo.draw_discs(0)
    assert pixels.shape == (300, 48, 48, 3)
    brightest = pixels.reshape(300, -1, 3).sum(axis=1).argmax(axis=1)
    assert (brightest == truth).all()
    assert np.bincount(truth).tolist() == [100, 100, 100]
    assert not (zoo.draw_discs(1)[0] == pixels).all()


def test_the_summary_counts_sets_that_are_more_than_three_points_below() -> None:
    def fits(name: str, *accuracies: float) -> dict[tuple[str, str], list[Measured]]:
        found = [
            Measured(name, "none", seed, 90, 3, accuracy, 0.9, None, 10.0 + seed, {})
            for seed, accuracy in enumerate(accuracies)
        ]
        return {(name, "none"): found}

    hog = {"HOG + spectral": {"accuracy": 0.54, "seconds": 1.0}}
    baselines = {name: Baselines(name, 90, 3, hog) for name in ("yaleb", "coil20", "digits")}
    measured = fits("yaleb", 0.4, 0.6) | fits("coil20", 0.52, 0.52) | fits("digits", 0.1)
    lines = summary_table(Results(baselines, measured, [])).splitlines()
    assert "| from scratch: mean of 2 of 15 sets | 51.0 | 57 | 65 |" in lines
    below = "| from scratch: sets more than 3 points below HOG + spectral | 1 (yaleb) | 1 | 0 |"
    assert below in lines
    assert any(line.endswith("over seeds | 7.1 | 2 | 1 |") for line in lines)
    assert any(line.endswith("median seconds of a set | 10 | 60 | 20 |") for line in lines)
