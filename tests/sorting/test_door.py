"""Whatever somebody has images in can be handed to `SelfSort`, and one image gets one label."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, TensorDataset

from conftest import SMALL
from selfsort import DataError, SelfSort, SelfsortWarning

N = 24


def small(**parameters: Any) -> SelfSort:
    settings = {**SMALL, "images.size": 8}
    return SelfSort(3, **{"epochs": 1, "settings": settings, "recipe": "paper", **parameters})


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    from sklearn.datasets import load_sample_image

    whole = load_sample_image("flower.jpg")
    draw = np.random.default_rng(0)
    corners = draw.integers(0, 300, (N, 2))
    return np.stack([whole[top : top + 32, left : left + 32] for top, left in corners])


@pytest.fixture(scope="module")
def labels(pixels: np.ndarray) -> np.ndarray:
    found: np.ndarray = small().fit_predict(pixels)
    return found


class Pairs(Dataset):  # type: ignore[type-arg]
    """A data set that has no end when it is iterated over, as many have none."""

    def __init__(self, images: Any) -> None:
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> tuple[Any, int]:
        return self.images[row % len(self.images)], 7


@pytest.fixture
def folder(pixels: np.ndarray, tmp_path: Path) -> Path:
    for row, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / f"{row:02}.png")
    return tmp_path


def test_a_folder_and_its_files_give_the_same(
    folder: Path, labels: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas = pytest.importorskip("pandas")
    files = sorted(folder.iterdir())
    for given in (str(folder), folder, files, list(map(str, files)), pandas.Series(files)):
        assert (small().fit_predict(given) == labels).all()
    assert (small().fit_predict(np.array(list(map(str, files)))) == labels).all()
    monkeypatch.chdir(folder)
    assert (small().fit_predict([file.name for file in files]) == labels).all()


def test_pictures_arrays_and_data_sets_give_the_same(
    pixels: np.ndarray, labels: np.ndarray
) -> None:
    pictures = [Image.fromarray(image) for image in pixels]
    tensors = torch.from_numpy(pixels).movedim(3, 1)
    for given in (
        list(pixels),
        list(tensors),
        pictures,
        (picture for picture in pictures),
        Pairs(pictures),
        Pairs(tensors),
        DataLoader(Pairs(tensors), batch_size=5, shuffle=True),
        TensorDataset(tensors),
        [{"image": picture, "label": 3} for picture in pictures],
    ):
        assert (small().fit_predict(given) == labels).all()


def test_a_column_of_hugging_face_is_taken(pixels: np.ndarray, labels: np.ndarray) -> None:
    datasets = pytest.importorskip("datasets")
    pictures = [Image.fromarray(image) for image in pixels]
    whole = datasets.Dataset.from_dict({"image": pictures}).cast_column("image", datasets.Image())
    assert (small().fit_predict(whole["image"]) == labels).all()
    assert (small().fit_predict(whole) == labels).all()


def test_arrays_of_several_shapes_are_pictures() -> None:
    draw = np.random.default_rng(0)
    shapes = [(20, 30, 3), (3, 25, 20), (24, 24), (1, 24, 28)] * 4
    images = [draw.integers(0, 256, shape, dtype=np.uint8) for shape in shapes]
    assert small().fit(images).image_shape_ == (3, 32, 32)
    with pytest.raises(DataError, match=r"several shapes should hold bytes \(uint8\)"):
        small().fit([image / 255 for image in images])


def test_one_image_gets_one_label(pixels: np.ndarray, digits: np.ndarray, tmp_path: Path) -> None:
    sorter = small().fit(pixels)
    grey = small().fit(digits[:40])
    loaded = SelfSort.load(grey.save(tmp_path))
    assert sorter.predict(pixels[0]).tolist() == [sorter.labels_[0]]
    assert sorter.predict(np.moveaxis(pixels[0], 2, 0)).tolist() == [sorter.labels_[0]]
    assert sorter.predict(Image.fromarray(pixels[0])).tolist() == [sorter.labels_[0]]
    assert grey.predict(digits[0]).tolist() == [grey.labels_[0]] == loaded.predict(digits[0])
    with pytest.raises(DataError, match="5 rows of 8 numbers could be anything"):
        grey.predict(digits[0][:5])
    with pytest.raises(DataError, match=r"looks like one image in colour; .* X\[None\]"):
        small().fit(pixels[0])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no images were given"),
        ({"a": 1}, "X of type dict should be a folder, an array"),
        (3, "X of type int should be"),
        ([object()], "an image of type object should be an array"),
        ([{"text": "x"}], "a row with text has no image; give the column"),
        ([np.zeros((8, 8)), Path("a.png")], "only arrays, only pictures or only paths"),
        ("nowhere", "nowhere: no such file or folder"),
    ],
)
def test_what_holds_no_images_is_said(given: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        small().fit(given)


@pytest.mark.parametrize("recipe", ["paper", "standard"])
def test_probabilities_agree_with_labels(digits: np.ndarray, recipe: str) -> None:
    sorter = small(recipe=recipe).fit(digits[:60])
    probable = sorter.predict_proba(digits[:60])
    assert probable.shape == (60, 3)
    assert np.allclose(probable.sum(axis=1), 1, atol=1e-5)
    assert (probable.argmax(axis=1) == sorter.labels_).all()
    assert sorter.score(digits[:60], sorter.labels_ + 5) == 1
    names = sorter.get_feature_names_out()
    assert names[0] == "selfsort0"
    assert len(names) == sorter.transform(digits[:2]).shape[1]


def test_output_as_a_table(digits: np.ndarray) -> None:
    pandas = pytest.importorskip("pandas")
    sorter = small().set_output(transform="pandas").fit(digits[:40])
    table = sorter.transform(digits[:4])
    assert isinstance(table, pandas.DataFrame)
    assert list(table.columns) == list(sorter.get_feature_names_out())


def test_what_looks_wrong_is_a_warning_of_its_own_kind(digits: np.ndarray) -> None:
    same = np.repeat(digits[:1], 70, axis=0)
    with pytest.warns(SelfsortWarning, match="cluster") as caught:
        sorter = small().fit(same)
    assert {str(one.message) for one in caught} == set(sorter.warnings_.values())
    assert all(one.filename == __file__ for one in caught)


def test_progress_is_shown_if_asked_for(
    digits: np.ndarray, capsys: pytest.CaptureFixture[str]
) -> None:
    small(verbose=True).fit(digits[:40])
    assert capsys.readouterr().err.startswith("training 1/1 ")
    small().fit(digits[:40])
    assert capsys.readouterr().err == ""
