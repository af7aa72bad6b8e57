"""Transformations: exact, a group, each defining a class of its own."""

import itertools

import pytest
import torch
from torch import Tensor

from selfsort.errors import ConfigError
from selfsort.method.transforms import (
    DIHEDRAL,
    TRANSFORM_SETS,
    TransformSet,
    build_transforms,
    get_transforms,
)


@pytest.fixture
def images(generator: torch.Generator) -> Tensor:
    return torch.rand(8, 3, 12, 12, generator=generator)


def test_dihedral_by_hand() -> None:
    image = torch.tensor([[1.0, 2.0], [3.0, 4.0]])[None, None]
    expected = [
        [1, 2, 3, 4],
        [2, 4, 1, 3],
        [4, 3, 2, 1],
        [3, 1, 4, 2],
        [2, 1, 4, 3],
        [1, 3, 2, 4],
        [3, 4, 1, 2],
        [4, 2, 3, 1],
    ]
    assert [transform.apply(image).flatten().int().tolist() for transform in DIHEDRAL] == expected


def test_dihedral_is_a_group(images: Tensor) -> None:
    results = [transform.apply(images) for transform in DIHEDRAL]
    for first, second in itertools.product(DIHEDRAL, DIHEDRAL):
        product = second.apply(first.apply(images))
        assert sum(torch.equal(product, result) for result in results) == 1


@pytest.mark.parametrize("name", TRANSFORM_SETS)
def test_each_set_has_eight_different_ones_and_begins_with_none(name: str, images: Tensor) -> None:
    results = [transform.apply(images) for transform in get_transforms(name)]
    assert len(results) == 8
    assert torch.equal(results[0], images)
    assert all(result.shape == images.shape and result.dtype == images.dtype for result in results)
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(results, 2))


@pytest.mark.parametrize("name", ["dihedral", "permutation"])
def test_exact_ones_keep_every_pixel_value(name: str, images: Tensor) -> None:
    for transform in get_transforms(name):
        assert torch.equal(
            transform.apply(images).flatten(2).sort().values, images.flatten(2).sort().values
        )


def test_translation_moves_whole_pixels(images: Tensor) -> None:
    moved = get_transforms("translation")[4].apply(images)
    assert torch.equal(moved[..., 4:], images[..., :-4])
    assert not moved[..., :4].any()


def test_scaling_and_shearing_keep_the_centre() -> None:
    image = torch.zeros(1, 1, 9, 9)
    image[..., 4, 4] = 1
    for name in ("scaling", "shearing"):
        for transform in get_transforms(name):
            assert transform.apply(image)[..., 4, 4] == pytest.approx(1)


def test_apply_gives_each_image_its_own(images: Tensor) -> None:
    parents = torch.tensor([3, 0, 7, 7, 1, 2, 5, 4])
    transformed = DIHEDRAL.apply(images, parents)
    for row, parent in enumerate(parents.tolist()):
        assert torch.equal(transformed[row], DIHEDRAL[parent].apply(images[row : row + 1])[0])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("T1,T3", "T1 T3"),
        ("{T1, T2}", "T1 T2"),
        ("{T1..T4}", "T1 T2 T3 T4"),
        ("T1,T5..T6", "T1 T5 T6"),
    ],
)
def test_subsets(text: str, names: str) -> None:
    assert [transform.name for transform in get_transforms(text)] == names.split()


@pytest.mark.parametrize(
    "text",
    ["", "T1", "T1,T9", "T2,T3", "T1,T1", "rotation", "T1,,T2", "T1..T99", "T3..T1", "T1,T0"],
)
def test_bad_names_say_what_is_possible(text: str) -> None:
    with pytest.raises(ConfigError, match="T1 to T8"):
        get_transforms(text)


def test_own_functions(images: Tensor) -> None:
    own = build_transforms({"as it is": lambda x: x, "negative": lambda x: 1 - x})
    assert isinstance(own, TransformSet)
    assert torch.equal(own.apply(images, torch.ones(8, dtype=torch.int64)), 1 - images)
    with pytest.raises(ConfigError, match="at least 2"):
        build_transforms({"only one": lambda x: x})
