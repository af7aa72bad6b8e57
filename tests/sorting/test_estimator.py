"""`SelfSort` keeps scikit-learn's contract, learns, repeats, and survives saving and loading."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from conftest import SMALL
from selfsort import (
    RECIPES,
    ConfigError,
    DataError,
    ModelFileError,
    SelfSort,
    TrainingStopped,
    score,
)
from selfsort.data.image_set import ImageSet, as_image_set
from selfsort.data.kinds import KINDS


def small(n_clusters: int = 10, **parameters: Any) -> SelfSort:
    return SelfSort(n_clusters, **{"epochs": 2, "settings": SMALL, "recipe": "paper", **parameters})


TINY_STANDARD = {
    **SMALL,
    "refinement.steps": 2,
    "refinement.width": 4,
    "refinement.latent_width": 32,
    "recluster.min_steps": 1,
    "recluster.opinions": 1,
}
NETWORK_ALONE = {**TINY_STANDARD, "sources.max_images": 0}


@pytest.fixture(autouse=True)
def _squares(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind from outside: scikit-learn's checks give rows of any length, here folded to images."""

    def fold(rows: np.ndarray, image_shape: Any) -> ImageSet:
        side = math.ceil(math.sqrt(rows.shape[1]))
        filled = np.pad(rows, ((0, 0), (0, side * side - rows.shape[1])))
        return as_image_set(filled, image_shape=(side, side))

    monkeypatch.setitem(KINDS, "squares", KINDS["images"]._replace(from_array=fold))


def exempt(estimator: SelfSort) -> dict[str, str]:
    """The one exemption: fifty points in the plane are too few, and no images, for a classifier to
    learn from.
    """
    return (
        {"check_clustering": "three blobs of two numbers each"}
        if estimator.recipe == "standard"
        else {}
    )


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        small(3, epochs=1, kind="squares"),
        small(3, epochs=1, kind="squares", recipe="standard", settings=NETWORK_ALONE),
    ],
    expected_failed_checks=exempt,
)
def test_scikit_learn_contract(estimator: SelfSort, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [small(3, epochs=1, kind="squares", recipe="standard", settings=TINY_STANDARD)],
    expected_failed_checks=exempt,
)
def test_scikit_learn_contract_of_all_sources(estimator: SelfSort, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def fitted(digits: np.ndarray) -> SelfSort:
    return small().fit(digits[:400])


def test_predict_agrees_with_fit(fitted: SelfSort, digits: np.ndarray) -> None:
    assert (fitted.predict(digits[:400]) == fitted.labels_).all()
    assert (fitted.score_samples(digits[:400]) == fitted.confidence_).all()
    assert fitted.transform(digits[:5]).shape == (5, 32)
    assert len(fitted.history_) == 2
    assert (
        fitted.label_free_scores_.cluster_sizes
        == np.bincount(fitted.labels_, minlength=10).tolist()
    )


def test_same_seed_same_labels(fitted: SelfSort, digits: np.ndarray) -> None:
    again = clone(fitted).fit(digits[:400])
    assert (again.labels_ == fitted.labels_).all()
    assert (again.confidence_ == fitted.confidence_).all()


@pytest.mark.parametrize("name", ["model.safetensors", "folder"])
def test_save_and_load(fitted: SelfSort, digits: np.ndarray, tmp_path: Path, name: str) -> None:
    file = fitted.save(tmp_path / name)
    loaded = SelfSort.load(tmp_path / name)
    assert file.exists()
    assert (loaded.predict(digits) == fitted.predict(digits)).all()
    assert (loaded.transform(digits) == fitted.transform(digits)).all()


def test_damaged_models_are_refused(fitted: SelfSort, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no such file"):
        SelfSort.load(tmp_path)
    file = fitted.save(tmp_path)
    content = file.read_bytes()
    for damaged in (
        content[:100],
        content[:-10],
        b"",
        b"\xff" * 16 + content[16:],
        content.replace(b"n_parents", b"m_parents"),
    ):
        file.write_bytes(damaged)
        with pytest.raises(ModelFileError, match="damaged"):
            SelfSort.load(tmp_path)


@pytest.mark.parametrize("space", ["latent", "logits", "softmax"])
def test_every_space_can_be_clustered(digits: np.ndarray, space: str) -> None:
    sorter = small(7, epochs=1, settings={**SMALL, "clustering.space": space}).fit(digits[:200])
    assert sorter.represent(digits[:3]).space(space).shape == (
        3,
        {"latent": 32, "logits": 40, "softmax": 40}[space],
    )
    assert len(np.unique(sorter.labels_)) == 7


@pytest.mark.parametrize(
    "transforms", ["T1,T3", "scaling", {"as it is": lambda x: x, "negative": lambda x: 1 - x}]
)
def test_other_transformations(digits: np.ndarray, transforms: Any) -> None:
    sorter = small(epochs=1, transforms=transforms).fit(digits[:200])
    assert sorter.network_.head.nodes[0] == (8 if transforms == "scaling" else 2)


def test_layouts_and_types_give_the_same(digits: np.ndarray) -> None:
    bytes_ = (digits[:200] * 255).round().astype(np.uint8)
    expected = small(epochs=1).fit_predict(bytes_)
    rows = small(epochs=1, image_shape=(8, 8))
    assert (rows.fit_predict(bytes_.reshape(200, 64)) == expected).all()
    assert (small(epochs=1).fit_predict(torch.from_numpy(bytes_)[:, None]) == expected).all()
    assert (small(epochs=1).fit_predict(bytes_[..., None]) == expected).all()


def test_both_protocols(fitted: SelfSort, digits: np.ndarray) -> None:
    anew = fitted.cluster_anew(digits[400:700])
    predicted = fitted.predict(digits[400:700])
    assert len(np.unique(anew)) == 10
    assert score(predicted, anew).nmi > 0.3


def test_what_cannot_be_done_is_said(digits: np.ndarray) -> None:
    with pytest.raises(DataError, match="5 images cannot fall into 10 clusters; ask for fewer"):
        small().fit(digits[:5])
    with pytest.raises(ConfigError, match="n_clusters=0"):
        small(0).fit(digits)
    with pytest.raises(ConfigError, match="recipe='x' should be one of"):
        small(recipe="x").fit(digits)
    with pytest.raises(ConfigError, match="not a setting"):
        small(settings={"network.depth": 3}).fit(digits)
    rows = digits.reshape(-1, 64)
    with pytest.raises(DataError, match=r"image_shape` 3x3 should be .* of 64 values"):
        small(image_shape=(3, 3)).fit(rows)
    with pytest.raises(DataError, match=r"1,797 rows of 64 numbers .* `image_shape` \(such as 8x8"):
        small().fit(rows)
    with pytest.raises(DataError, match="kind='songs' should be one of: images"):
        small(kind="songs").fit(digits)


def test_a_fit_that_was_stopped_leaves_no_model_of_an_earlier_one(
    digits: np.ndarray, tmp_path: Path
) -> None:
    sorter = small().fit(digits[:200])
    sorter.on_progress = lambda progress: True
    with pytest.raises(TrainingStopped):
        sorter.fit(digits[:200])
    for use in (
        sorter.predict,
        sorter.transform,
        sorter.score_samples,
        lambda images: sorter.save(tmp_path),
    ):
        with pytest.raises(NotFittedError):
            use(digits[:5])


def test_bytes_and_floats_of_the_same_images_get_the_same_cluster(
    digits: np.ndarray, fitted: SelfSort
) -> None:
    as_bytes = (digits[:400] * 255).round().astype(np.uint8)
    assert np.mean(fitted.predict(as_bytes) == fitted.labels_) > 0.99
    assert (
        np.mean(small().fit(as_bytes).predict(digits[:400]) == small().fit_predict(as_bytes)) > 0.99
    )


def test_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits: np.ndarray
) -> None:
    """The Python example of the README, word by word, on a folder of real images and with a short
    recipe.
    """
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    (tmp_path / "my-photos").mkdir()
    for number, pixels in enumerate(digits[:40]):
        Image.fromarray((pixels * 255).astype(np.uint8)).save(
            tmp_path / "my-photos" / f"{number}.png"
        )
    monkeypatch.chdir(tmp_path)
    short = RECIPES["standard"].replace(
        {**TINY_STANDARD, "training.min_steps": 1, "training.min_images": 0}
    )
    monkeypatch.setitem(RECIPES, "standard", short)
    monkeypatch.setattr("builtins.print", lambda *values: None)
    exec(code, {})
    assert SelfSort.load("sorter.safetensors").n_clusters_ == 10


def test_a_loaded_model_can_cluster_anew(
    fitted: SelfSort, digits: np.ndarray, tmp_path: Path
) -> None:
    loaded = SelfSort.load(fitted.save(tmp_path))
    assert (loaded.cluster_anew(digits[400:500]) == fitted.cluster_anew(digits[400:500])).all()


def test_a_batch_may_lack_a_parent(digits: np.ndarray) -> None:
    settings = {**SMALL, "training.batch_size": 4}
    assert (
        len(
            SelfSort(2, recipe="paper", epochs=1, settings=settings, transforms="scaling")
            .fit(digits[:12])
            .labels_
        )
        == 12
    )
