"""A model that was fitted with an encoder keeps its hash, not its weights, and refuses another."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conftest import SMALL
from selfsort import ModelFileError, SelfSort
from selfsort.method import lite0
from selfsort.metrics import score
from selfsort.training.pretrain import n_epochs
from selfsort.workflow.fit import sort_folder

TINY = {**SMALL, "training.min_steps": 1, "training.min_images": 0}


def discs(n_images: int) -> tuple[np.ndarray, np.ndarray]:
    """Red, green and blue discs of random place and size."""
    generator = np.random.default_rng(0)
    colour = generator.integers(3, size=n_images)
    down, right = np.mgrid[:40, :40]
    images = np.zeros((n_images, 40, 40, 3), dtype=np.uint8)
    for row in range(n_images):
        radius = generator.uniform(5, 10)
        top, left = generator.uniform(radius, 40 - radius, size=2)
        images[row, (down - top) ** 2 + (right - left) ** 2 < radius**2, colour[row]] = 220
    return images, colour


@pytest.fixture(scope="module")
def fitted() -> SelfSort:
    images, _ = discs(40)
    return SelfSort(3, epochs=1, settings=TINY, encoder="lite0").fit(images)


def test_a_model_keeps_the_hash_of_its_encoder_only(fitted: SelfSort, tmp_path: Path) -> None:
    images, _ = discs(40)
    file = fitted.save(tmp_path)
    assert fitted.encoder_.name == "lite0"
    assert fitted.config_.sources.encoder == "lite0"
    assert file.stat().st_size < 8e6
    loaded = SelfSort.load(file)
    assert (loaded.predict(images) == fitted.labels_).all()
    assert loaded.model_.reading_size == 40


def test_a_model_refuses_another_encoder(
    fitted: SelfSort, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = fitted.save(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(lite0, "PACKAGE", "no_such_package")
        with pytest.raises(ModelFileError, match="lite0 is not installed; pip install"):
            SelfSort.load(file)
    monkeypatch.setattr("selfsort.method.encoders.lite0.SHA256", "0" * 64)
    monkeypatch.setattr("selfsort.method.encoders.lite0.load_lite0", lambda file: lite0.Lite0())
    with pytest.raises(ModelFileError, match="not the one that the model was fitted with"):
        SelfSort.load(file)


@pytest.mark.parametrize(("encoder", "side"), [("none", 64), ("auto", 100)])
def test_files_are_read_at_the_size_that_sources_use(
    tmp_path: Path, encoder: str, side: int
) -> None:
    images, _ = discs(12)
    (tmp_path / "photos").mkdir()
    for number, pixels in enumerate(images):
        Image.fromarray(pixels).resize((100, 80)).save(tmp_path / "photos" / f"{number}.png")
    result = sort_folder(
        tmp_path / "photos",
        out=tmp_path / "out",
        n_clusters=3,
        epochs=1,
        settings=TINY,
        encoder=encoder,
        report=False,
    )
    assert result.run.image_shape == [3, side, side]
    assert result.run.reading["size"] == side
    assert result.run.config["sources"]["encoder"] == ("none" if encoder == "none" else "lite0")
    assert result.sorter.model_.reading_size == side


def test_a_large_set_that_the_network_learns_nothing_from_is_sorted_by_a_sample(
    tmp_path: Path,
) -> None:
    """Discs look the same however they are turned: there is nothing to learn."""
    images, colour = discs(90)
    settings: dict[str, float] = {**SMALL, "training.min_steps": 16, "training.min_images": 0}
    settings |= {"sources.max_images": 40, "training.give_up": 0.5}
    sorter = SelfSort(3, settings=settings, encoder="none").fit(images)
    planned = n_epochs(sorter.config_.training, len(images))
    assert len(sorter.history_) == max(1, planned // 8) < planned
    fusion = sorter.model_.fusion
    assert fusion is not None
    assert len(fusion.labels) == 40
    assert all("network" not in one.sources for one in fusion.selections)
    assert "chance" not in sorter.warnings_, "it took no part"
    assert len(sorter.labels_) == 90
    assert score(colour, sorter.labels_).accuracy > 0.95
    loaded = SelfSort.load(sorter.save(tmp_path))
    assert (loaded.predict(images) == sorter.labels_).all()
    assert (loaded.cluster_anew(images[:40]) >= 0).all()


@pytest.mark.slow
def test_a_network_alone_never_gives_up() -> None:
    images, _ = discs(40)
    settings: dict[str, float] = {**SMALL, "training.min_steps": 16, "training.min_images": 0}
    settings |= {"sources.max_images": 0, "training.give_up": 0.9, "refinement.steps": 2}
    sorter = SelfSort(3, settings=settings).fit(images)
    trained = [record for record in sorter.history_ if record.stage == "training"]
    assert len(trained) == n_epochs(sorter.config_.training, len(images))
