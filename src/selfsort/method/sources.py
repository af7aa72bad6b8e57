"""Sources: several descriptions of the same images, each a space in which images have neighbours.

A *describer* turns images into one or more named descriptions; a description, centred, reduced to
its leading directions and evened out, gives unit vectors. What describers and projections learn
from the images needs no labels; it is kept with the model, so that new images get the same vectors.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd
from torch import Tensor, nn

from selfsort.method.descriptors import Colours, Grain, Relief, Textures
from selfsort.method.encoders import ENCODER
from selfsort.method.fisher import strokes, tones
from selfsort.method.inputs import Inputs, infer_all
from selfsort.method.patches import FROM_SIDE, Patches
from selfsort.method.seeds import derive_generator
from selfsort.method.series_descriptors import series_describers
from selfsort.method.sound import sound_describers

LESSON = 3000
"""Images that describers learn from, at most."""

PIECE = 8
"""Images that are described at a time: what is computed of them stays in the processor's cache."""


class Shape(NamedTuple):
    """How a description becomes vectors: directions that are kept, and how far they are evened out.

    `evening` 0 leaves each direction as strong as it is, 1 makes all equally strong. A half of the
    way takes weight from what varies most, which is often light or position and not the class.
    """

    n_directions: int
    evening: float


SHAPES = {
    "relief": Shape(128, 0.5),
    "grain": Shape(128, 0.5),
    "colours": Shape(64, 0.0),
    "textures": Shape(64, 0.0),
    "patches": Shape(64, 0.5),
    "places": Shape(64, 0.5),
    "strokes": Shape(128, 0.5),
    "tones": Shape(128, 0.5),
    "network": Shape(128, 0.0),
    ENCODER: Shape(128, 0.5),
    "curve": Shape(64, 0.0),
    "slope": Shape(64, 0.0),
    "spectrum": Shape(64, 0.0),
    "echo": Shape(64, 0.0),
    "convolutions": Shape(128, 0.5),
    "strong convolutions": Shape(64, 0.0),
    "gradients": Shape(128, 0.5),
    "cepstra": Shape(64, 0.5),
    "contours": Shape(64, 0.0),
    "movements": Shape(64, 0.0),
    "ripples": Shape(64, 0.0),
    "words of 4": Shape(64, 0.0),
    "words of 8": Shape(64, 0.0),
    "words of 16": Shape(64, 0.0),
    "words of 32": Shape(64, 0.0),
}


@runtime_checkable
class Learner(Protocol):
    """A describer that learns something before it can describe."""

    def learn(self, images: Tensor, generator: torch.Generator) -> None:
        """Look at some of the images."""


class Projection(nn.Module):
    """A description to unit vectors of its leading directions."""

    def __init__(self, n_values: int, n_directions: int) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(n_values))
        self.register_buffer("axes", torch.zeros(n_values, n_directions))
        self.centre: Tensor
        self.axes: Tensor

    def forward(self, description: Tensor) -> Tensor:
        """(batch, directions)."""
        vectors = (description - self.centre) @ self.axes
        return nn.functional.normalize(vectors, dim=1)

    @classmethod
    def fit(cls, description: Tensor, shape: Shape) -> "Projection":
        """The leading directions of a description (images × values)."""
        centre = description.mean(dim=0)
        n_directions = min(shape.n_directions, *description.shape)
        _, strengths, directions = randomized_svd(
            (description - centre).numpy(), n_directions, n_iter=4, random_state=0
        )
        leading = torch.from_numpy(strengths.copy()).double().square().clamp(min=1e-9)
        axes = torch.from_numpy(directions.T.copy()).double() * leading ** (-shape.evening / 2)
        axes[:, leading < 1e-7 * leading[0]] = 0  # nothing is there but rounding
        found = cls(description.shape[1], n_directions)
        found.centre.copy_(centre)
        found.axes.copy_(axes)
        return found


class Sources(nn.Module):
    """Describers and the projections of what they say; all that new images need."""

    def __init__(self, describers: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.describers = nn.ModuleDict(dict(describers))
        self.projections = nn.ModuleDict()

    def describe(self, images: Tensor) -> dict[str, Tensor]:
        """What all describers say of a batch."""
        said: dict[str, Tensor] = {}
        for describer in self.describers.values():
            pieces = [describer(piece) for piece in torch.split(images, PIECE)]
            said |= {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]}
        return said

    def forward(self, images: Tensor) -> Tensor:
        """The vectors of a batch in all sources, side by side."""
        said = self.describe(images)
        return torch.cat([self.projections[name](said[name]) for name in said], dim=1)


class Described(NamedTuple):
    """Fitted sources with the vectors of the images that they were fitted on."""

    sources: Sources
    vectors: dict[str, NDArray[np.float32]]


def image_describers(
    channels: int, size: int, encoder: nn.Module | None = None
) -> dict[str, nn.Module]:
    """The describers that suit images of this shape."""
    describers: dict[str, nn.Module] = {
        "relief": Relief(),
        "grain": Grain(),
        "textures": Textures(),
        "patches": Patches(channels, size >= FROM_SIDE),
        "strokes": strokes(),
        "tones": tones(channels),
    }
    if channels == 3:
        describers["colours"] = Colours()
    if encoder is not None:
        describers[ENCODER] = encoder
    return describers


DESCRIBERS: dict[str, Callable[[int, int, nn.Module | None], dict[str, nn.Module]]] = {
    "images": image_describers,
    "series": series_describers,
    "sounds": sound_describers,
}
"""What builds the describers of a modality from channels, size and a pretrained encoder."""


def learn_sources(
    inputs: Inputs,
    describers: Mapping[str, nn.Module],
    *,
    seed: int,
    on_batch: Callable[[int, int], None] | None = None,
) -> Described:
    """Fit describers and projections to these images."""
    sources = Sources(describers)
    rows = np.random.default_rng(seed).permutation(len(inputs))[:LESSON]
    lesson = inputs.read(np.sort(rows))
    for name, describer in sources.describers.items():
        if isinstance(describer, Learner):
            describer.learn(lesson, derive_generator(name, seed))
    names: list[str] = []

    def describe(images: Tensor) -> tuple[Tensor, ...]:
        said = sources.describe(images)
        names[:] = said
        return tuple(said.values())

    whole = infer_all(sources, describe, inputs, on_batch=on_batch)
    vectors: dict[str, NDArray[np.float32]] = {}
    for name, description in zip(names, whole, strict=True):
        projection, vectors[name] = project(description, SHAPES[name])
        sources.projections[name] = projection
    return Described(sources, vectors)


def project(
    description: NDArray[np.float32], shape: Shape
) -> tuple[Projection, NDArray[np.float32]]:
    """Fit a projection; also the vectors of what it was fitted on."""
    values = torch.from_numpy(description)
    projection = Projection.fit(values, shape)
    return projection, projection(values).numpy()
