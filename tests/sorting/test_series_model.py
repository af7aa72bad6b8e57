"""Time series sorted, kept, loaded and predicted, as a user of the library and of the commands."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from selfsort import DataError, SelfSort, load_run, score
from selfsort.cli.main import main
from selfsort.data.series import as_series_set

QUICK = {"training.min_steps": 5, "training.min_images": 0, "network.width": 4}


def shapes(n_each: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Steps, ramps and waves, anywhere in time, under noise."""
    draw = np.random.default_rng(seed)
    time = np.arange(72)
    found = []
    for kind in range(3):
        start = draw.uniform(10, 30, (n_each, 1))
        inside = (time > start) & (time < start + 30)
        curve = (inside, inside * (time - start) / 30, np.sin((time - start) / 2))[kind]
        found.append(curve + 0.1 * draw.normal(size=(n_each, 72)))
    return np.concatenate(found).astype(np.float32), np.repeat(np.arange(3), n_each)


@pytest.fixture(scope="module")
def fitted() -> SelfSort:
    values, _ = shapes(30)
    return SelfSort(3, kind="series", settings=QUICK).fit(values)


def test_three_shapes_are_told_apart(fitted: SelfSort) -> None:
    _, truth = shapes(30)
    assert score(truth, fitted.labels_).accuracy > 0.95
    assert fitted.transform(shapes(30)[0]).shape[0] == 90


def test_new_series_find_their_cluster_and_a_copy_of_the_model_agrees(
    fitted: SelfSort, tmp_path: Path
) -> None:
    new, truth = shapes(10, seed=1)
    predicted = fitted.predict(new)
    assert score(truth, predicted).accuracy > 0.9
    loaded = SelfSort.load(fitted.save(tmp_path))
    assert loaded.kind == "series"
    assert np.array_equal(loaded.predict(new), predicted)
    assert np.allclose(loaded.score_samples(new), fitted.score_samples(new), atol=1e-6)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict(new), predicted)
    alone = [int(fitted.predict(one[None])[0]) for one in new[:5]]
    assert alone == predicted[:5].tolist()


def test_the_same_seed_gives_the_same_clusters(fitted: SelfSort) -> None:
    again = SelfSort(3, kind="series", settings=QUICK).fit(shapes(30)[0])
    assert np.array_equal(again.labels_, fitted.labels_)


def test_more_series_than_are_joined_are_assigned_by_the_votes() -> None:
    values, truth = shapes(60)
    found = SelfSort(3, kind="series", settings=QUICK | {"clustering.max_samples": 100}).fit(values)
    assert score(truth, found.labels_).accuracy > 0.9


def test_series_of_several_channels_and_auto() -> None:
    values, truth = shapes(25)
    noise = np.random.default_rng(3).normal(size=values.shape).astype(np.float32)
    both = as_series_set(np.stack([values, values + 0.1 * noise], axis=1))
    found = SelfSort("auto", settings=QUICK).fit(both)
    assert 2 <= found.n_clusters_ <= 10
    assert score(truth, found.labels_).nmi > 0.5


def test_other_channels_are_refused(fitted: SelfSort) -> None:
    with pytest.raises(DataError, match="should be series with 1, as those"):
        fitted.predict(np.zeros((2, 3, 72)) + np.arange(72))


def test_commands_from_fit_to_report(tmp_path: Path) -> None:
    values, truth = shapes(20)
    rows = zip(truth, values, strict=True)
    lines = [f"{label}\t" + "\t".join(map(str, row)) for label, row in rows]
    source = tmp_path / "shapes.tsv"
    source.write_text("\n".join(lines))
    out = tmp_path / "out"

    def run(*arguments: object) -> str:
        result = CliRunner().invoke(main, [str(one) for one in arguments])
        assert result.exit_code == 0, result.output
        return result.output

    quick = [part for name, value in QUICK.items() for part in ("--set", f"{name}={value}")]
    run("fit", source, "--kind", "series", "-k", 3, "--out", out, *quick)
    record, assignments = load_run(out)
    assert record.image_shape == [1, 72]
    assert score(truth, assignments.labels).accuracy > 0.95
    page = (out / "report.html").read_text()
    assert page.count('class="together"') == 3
    run("predict", out, source, "--out", tmp_path / "new.csv")
    run("report", out)
