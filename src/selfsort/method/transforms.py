"""Named transformations; each defines one pseudo parent-class."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from selfsort.errors import ConfigError
from selfsort.method.shapes import Batch, Images, Parents

ImageFunction = Callable[[Tensor], Tensor]

OWN = "own:"
"""How a configuration names transformations that were given as functions; no file holds them."""


@dataclass(frozen=True)
class Transform:
    """A function on images, (batch, channel, side, side) to the same shape, with a name."""

    name: str
    apply: ImageFunction


@dataclass(frozen=True)
class TransformSet:
    """The transformations T₁ … of which each defines a parent; T₁ leaves images as they are.

    >>> [transform.name for transform in DIHEDRAL]
    ['T1', 'T2', 'T3', 'T4', 'T5', 'T6', 'T7', 'T8']
    """

    transforms: tuple[Transform, ...]

    def __len__(self) -> int:
        return len(self.transforms)

    def __iter__(self) -> Iterator[Transform]:
        return iter(self.transforms)

    def __getitem__(self, parent: int) -> Transform:
        return self.transforms[parent]

    def apply(self, images: Batch, parents: Parents) -> Batch:
        """Transform each image as its parent says, one call per transformation; parents on the CPU,
        images anywhere.
        """
        transformed = torch.empty_like(images)
        for parent, transform in enumerate(self.transforms):
            rows = (parents == parent).nonzero()[:, 0].to(images.device)
            if len(rows):
                transformed[rows] = transform.apply(images[rows])
        return transformed


def rotate_flip(images: Images, *, quarter_turns: int = 0, flip: bool = False) -> Images:
    """Flip horizontally if asked, then rotate by quarter turns: exact, no interpolation."""
    return torch.rot90(images.flip(3) if flip else images, quarter_turns, dims=(2, 3))


def warp(
    images: Images, *, matrix: tuple[tuple[float, float, float], tuple[float, float, float]]
) -> Images:
    """Sample every image on an affinely moved grid (output to input coordinates in [-1, 1]);
    outside is 0.
    """
    theta = images.new_tensor(matrix).expand(len(images), 2, 3)
    grid = functional.affine_grid(theta, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False)


def shift_right(images: Images, *, sixteenths: int) -> Images:
    """Move right by so many sixteenths of the width, in whole pixels (one for each at the least);
    the rest is 0.
    """
    n_pixels = max(sixteenths, round(sixteenths * images.shape[3] / 16))
    return functional.pad(images, (n_pixels, 0))[..., : images.shape[3]]


def permute_pixels(images: Images, *, seed: int) -> Images:
    """Put the pixels into one fixed random order."""
    order = torch.randperm(
        images.shape[2] * images.shape[3], generator=torch.Generator().manual_seed(seed)
    )
    return images.flatten(2)[..., order.to(images.device)].view_as(images)


def _identity(images: Images) -> Images:
    return images


def _numbered(*functions: ImageFunction) -> TransformSet:
    return TransformSet(
        tuple(
            Transform(f"T{j}", function)
            for j, function in enumerate((_identity, *functions), start=1)
        )
    )


def _scale(factor: float) -> ImageFunction:
    return partial(warp, matrix=((1 / factor, 0.0, 0.0), (0.0, 1 / factor, 0.0)))


def _shear(slope: float) -> ImageFunction:
    return partial(warp, matrix=((1.0, slope, 0.0), (0.0, 1.0, 0.0)))


DIHEDRAL = _numbered(
    *(partial(rotate_flip, quarter_turns=turns) for turns in (1, 2, 3)),
    *(partial(rotate_flip, quarter_turns=turns, flip=True) for turns in (0, 1, 2, 3)),
)
SCALING = _numbered(*(_scale(1 - 0.08 * j) for j in range(1, 8)))
SHEARING = _numbered(*(_shear(0.15 * j) for j in range(1, 8)))
TRANSLATION = _numbered(*(partial(shift_right, sixteenths=j) for j in range(1, 8)))
PERMUTATION = _numbered(*(partial(permute_pixels, seed=j) for j in range(1, 8)))

TRANSFORM_SETS = {
    "dihedral": DIHEDRAL,
    "scaling": SCALING,
    "shearing": SHEARING,
    "translation": TRANSLATION,
    "permutation": PERMUTATION,
}


def get_transforms(name: str) -> TransformSet:
    """The set called `name`, or a subset of the dihedral ones such as `T1,T3` or `{T1..T4}`.

    >>> [transform.name for transform in get_transforms("{T1..T3}")]
    ['T1', 'T2', 'T3']
    """
    if name == "none":  # for images with real parents, or labels
        return _numbered()
    if name in TRANSFORM_SETS:
        return TRANSFORM_SETS[name]
    wanted: list[str] = []
    for piece in name.strip("{} ").replace(" ", "").split(","):
        first, dots, last = piece.partition("..")
        ends = [
            int(end.removeprefix("T")) if re.fullmatch("T?[1-8]", end) else 0
            for end in (first, last if dots else first)
        ]
        wanted += [f"T{j}" for j in range(ends[0], ends[1] + 1)] or [""]
    by_name = {transform.name: transform for transform in DIHEDRAL}
    if (
        not set(wanted) <= set(by_name)
        or len(set(wanted)) < max(2, len(wanted))
        or wanted[0] != "T1"
    ):
        raise ConfigError(
            f"transforms={name!r} should be one of {', '.join(TRANSFORM_SETS)}, or two or more "
            "of T1 to T8 "
            "that start with T1, such as T1,T3."
        )
    return TransformSet(tuple(by_name[name] for name in wanted))


def build_transforms(functions: Mapping[str, ImageFunction]) -> TransformSet:
    """Own transformations by name, each a function of (batch, channel, side, side) images; the
    first should change nothing.

    >>> functions = {"as it is": lambda images: images, "negative": lambda images: 1 - images}
    >>> len(build_transforms(functions))
    2
    """
    if len(functions) < 2:
        raise ConfigError(
            f"{len(functions)} transformation should be at least 2: one that changes nothing and "
            "another."
        )
    return TransformSet(tuple(Transform(name, function) for name, function in functions.items()))


def transforms_name(transforms: str | Mapping[str, ImageFunction] | None) -> str | None:
    """What a configuration calls transformations that are given by name or as functions.

    >>> transforms_name({"as it is": lambda images: images, "negative": lambda images: 1 - images})
    'own: as it is, negative'
    """
    return f"{OWN} {', '.join(transforms)}" if isinstance(transforms, Mapping) else transforms
