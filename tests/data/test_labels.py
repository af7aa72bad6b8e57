"""What somebody knows of the images: read, numbered, and refused where it cannot be."""

import re
from pathlib import Path

import numpy as np
import pytest

from selfsort.data.image_set import ImageSet, as_image_set
from selfsort.data.teaching import folder_parents, read_labels, settle_count, teach
from selfsort.errors import DataError


def images(n: int = 6) -> ImageSet:
    names = [f"{'ab'[row % 2]}/{row}.png" for row in range(n)]
    return as_image_set(np.zeros((n, 8, 8), dtype=np.uint8), names=names, source="photos")


def write(folder: Path, text: str) -> Path:
    path = folder / "labels.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "text",
    [
        "file,label\na/0.png,cat\nb/1.png,dog\na/2.png,\n",
        "class,name,note\ncat,a/0.png,x\ndog,b/1.png,y\n",
        "\ufeffwhat,which\na/0.png,cat\nb/1.png,dog\n",
    ],
)
def test_tables_with_any_names_of_columns(tmp_path: Path, text: str) -> None:
    said = read_labels(write(tmp_path, text))
    assert said == {"a/0.png": "cat", "b/1.png": "dog"}
    taught = teach(images(), labels=said).taught
    assert taught is not None
    assert taught.names == ("cat", "dog")
    assert taught.classes.tolist() == [0, 1, -1, -1, -1, -1]
    assert taught.lonely == ["cat", "dog"]
    assert teach(images(), labels=said).take(np.array([1, 2])).taught.classes.tolist() == [1, -1]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,label\na/0.png,cat\na/0.png,dog\n", "1 images have two classes.*cat and dog"),
        ("file,label\na/0.png,\n", "says nothing"),
        ("file\na/0.png\n", "two columns or more"),
        ("", "two columns or more"),
    ],
)
def test_tables_that_say_nothing_or_too_much(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_labels(write(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "parents", "message"),
    [
        ({"a/0.png": "cat", "gone.png": "dog"}, {}, "1 of 2 labels.*not there.*gone.png"),
        ({"a/0.png": "cat", "b/1.png": "cat"}, {}, "all labels say 'cat'"),
        ({name: name[0] for name in images().names}, {}, "all 6 images have a label"),
        ({}, {"a/0.png": "animal"}, "5 of 6 images have no parent"),
        ({}, dict.fromkeys(images().names, "animal"), "all images have the parent 'animal'"),
        (
            {"a/0.png": "cat", "b/1.png": "cat", "a/2.png": "dog"},
            {name: name[0] for name in images().names},
            "class 'cat' have the parents 'a', 'b'",
        ),
    ],
)
def test_what_does_not_fit_is_one_line(
    labels: dict[str, str], parents: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        teach(images(), labels=labels, parents=parents)
    assert "\n" not in str(caught.value)


def test_parents_from_folders_and_how_many_clusters_each_has() -> None:
    found = teach(images(), parents=folder_parents(images()))
    assert settle_count(found, None)[0].taught.counts == (0, 0)  # type: ignore[union-attr]
    assert settle_count(found, 2)[0].taught.counts == (2, 2)  # type: ignore[union-attr]
    assert settle_count(found, "b=3")[0].taught.counts == (0, 3)  # type: ignore[union-attr]
    for wanted, message in (("c=3", "names of parents"), ("a=x", "look like"), (4, "too few")):
        with pytest.raises(DataError, match=message):
            settle_count(found, wanted)
    labelled = teach(images(), labels={"a/0.png": "cat", "b/1.png": "dog"})
    assert settle_count(labelled, None)[1] == 2
    with pytest.raises(DataError, match=re.escape("there cannot be 1 clusters")):
        settle_count(labelled, 1)
