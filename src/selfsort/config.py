"""One tree of frozen dataclasses holds every setting, with its range and its explanation; TOML in, JSON out."""

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, get_args, get_type_hints

from selfsort.errors import ConfigError


def setting(
    default: Any,
    explanation: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare one setting: its default, what it does, and what it may be."""
    return field(default=default, metadata={"explanation": explanation, "low": low, "high": high, "choices": choices})


class Part:
    """A group of settings, checked when it is made."""

    def __post_init__(self) -> None:
        """Check each value against its declared type, range and choices."""
        for option in dataclasses.fields(self):  # type: ignore[arg-type]
            _check(f"{_part_name(type(self))}.{option.name}", getattr(self, option.name), option, type(self))


def _part_name(part: type) -> str:
    return part.__name__.removesuffix("Config").lower()


def _check(name: str, value: Any, option: dataclasses.Field[Any], part: type) -> None:
    hint = get_type_hints(part)[option.name]
    allowed = get_args(hint) or (hint,)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (isinstance(value, allowed) or (float in allowed and is_number)) or (isinstance(value, bool) and bool not in allowed):
        wanted = " or ".join("none" if kind is type(None) else kind.__name__ for kind in allowed)
        raise ConfigError(f"{name}={value!r} should be of type {wanted}.")
    low, high, choices = (option.metadata[key] for key in ("low", "high", "choices"))
    if choices and value not in choices:
        raise ConfigError(f"{name}={value!r} should be one of: {', '.join(choices)}.")
    if is_number and not abs(value) < 1e300:
        raise ConfigError(f"{name}={value} should be a finite number.")
    if is_number and low is not None and not value >= low:
        raise ConfigError(f"{name}={value} should be >= {low}.")
    if is_number and high is not None and not value <= high:
        raise ConfigError(f"{name}={value} should be <= {high}.")


@dataclass(frozen=True)
class ImagesConfig(Part):
    """How pixels reach the network."""

    size: int | None = setting(None, "side to which images are resized; none: as they are (folders: 32)", low=8, high=1024)
    crop: bool = setting(False, "cut off the border in which the images hardly differ, the same on all sides")
    grey: bool = setting(False, "reduce colour images to their luminance")
    normalise: str = setting(
        "unit", "unit: pixels in [0, 1]; image: each image centred and scaled by itself", choices=("unit", "image")
    )


@dataclass(frozen=True)
class JitterConfig(Part):
    """Random changes inside each pseudo class that leave an image's class as it is; 0: none."""

    shift: float = setting(0.0, "shift by up to this share of the side", low=0, high=1)
    rotation: float = setting(0.0, "rotate by up to so many radians", low=0, high=1)
    scale: float = setting(0.0, "scale by up to a factor of exp(±this)", low=0, high=1)
    shear: float = setting(0.0, "shear by up to this slope", low=0, high=1)
    aspect: float = setting(0.0, "stretch by up to a factor of exp(±this)", low=0, high=1)
    elastic: float = setting(0.0, "bend smoothly, by this standard deviation (2: the whole side)", low=0, high=1)
    invert: bool = setting(False, "invert the contrast of half of the images (wants images.normalise = image)")
    contrast: float = setting(0.0, "multiply by up to exp(±this)", low=0, high=3)
    brightness: float = setting(0.0, "add up to ±this (images.normalise = image: in standard deviations)", low=0, high=3)
    tone: float = setting(0.0, "raise or lower the middle tones by up to this", low=0, high=3)
    cutout: float = setting(0.0, "share of the images in which a rectangle is blanked", low=0, high=1)
    context: float = setting(0.0, "share of the images whose edges show another image, so that the middle counts", low=0, high=1)


@dataclass(frozen=True)
class NetworkConfig(Part):
    """The convolutional network and its augmented softmax (ACOL)."""

    width: int = setting(32, "channels of the first two convolutions; the next two have twice as many", low=1, high=4096)
    latent_width: int = setting(2048, "width of the latent layer F", low=1, high=65536)
    n_duplicates: int = setting(20, "softmax nodes per parent, k_s", low=1, high=4096)
    batch_norm: bool = setting(False, "normalise each convolution's output over the batch")
    dropout_1: float = setting(0.2, "dropout after the first pooling", low=0, high=0.95)
    dropout_2: float = setting(0.3, "dropout after the second pooling", low=0, high=0.95)
    dropout_latent: float = setting(0.5, "dropout after F", low=0, high=0.95)


@dataclass(frozen=True)
class ObjectiveConfig(Part):
    """What is minimised: classification + c_α α + c_β (1 − β) + c_F ‖B‖² (or ‖Z‖²)."""

    gar: str = setting(
        "modified",
        "modified: affinity and balance inside each parent; original: over all nodes",
        choices=("modified", "original"),
    )
    affinity_weight: float = setting(0.1, "c_α, pushes the duplicates apart", low=0)
    balance_weight: float = setting(1.0, "c_β, keeps the duplicates equally active", low=0)
    frobenius_weight: float = setting(1e-6, "c_F, bounds the activities", low=0)
    frobenius: str = setting(
        "positive",
        "what c_F bounds: positive activities (B, the paper's equation); all (Z, its code)",
        choices=("positive", "all"),
    )


@dataclass(frozen=True)
class TrainingConfig(Part):
    """The training loop."""

    epochs: int = setting(400, "how often every image is shown, each time under one random transformation", low=1, high=1_000_000)
    min_steps: int = setting(0, "more epochs if the data set is so small that there would be fewer steps", low=0)
    min_images: int = setting(0, "more epochs if it is so small that fewer images would be shown, repetitions counted", low=0)
    batch_size: int = setting(400, "images per step, at most", low=2, high=1_000_000)
    min_batches: int = setting(1, "smaller batches (not below 64) if an epoch would have fewer", low=1, high=1_000_000)
    learning_rate: float = setting(1e-3, "Adam's step size, or the highest one of a schedule", low=0, high=10)
    schedule: str = setting(
        "constant", "constant; one-cycle: up during the first quarter, then down to nothing", choices=("constant", "one-cycle")
    )


@dataclass(frozen=True)
class ClusteringConfig(Part):
    """From the trained network to clusters."""

    method: str = setting(
        "k-means",
        "k-means: in one space, as the paper does; agreement: spectral, on the graph of neighbours in all views",
        choices=("k-means", "agreement"),
    )
    space: str = setting(
        "latent", "where k-means works: latent (F), logits (Z) or softmax (Z)", choices=("latent", "logits", "softmax")
    )
    n_init: int = setting(10, "restarts of k-means; the tightest clustering is kept", low=1, high=1000)
    n_neighbours: int = setting(10, "neighbours of an image in each view's graph", low=1, high=1000)
    n_components: int = setting(128, "principal components of F in which neighbours are sought", low=1, high=65536)
    min_support: float = setting(1.5, "sum over the views below which an edge is weakened (both ways in a view: 1)", low=0)
    floor: float = setting(0.02, "share of its weight that a weakened edge keeps", low=0, high=1)
    max_clusters: int = setting(40, "largest number of clusters that `auto` considers", low=2, high=1000)
    max_samples: int = setting(60_000, "images that are clustered, at most; the others are assigned to what was found", low=100)


@dataclass(frozen=True)
class ReclusterConfig(Part):
    """Where the graph shows another number of clusters than the one asked for: too many are found, learned and merged."""

    factor: int = setting(0, "so many times the clusters asked for are found first; 0: never, the graph is cut as asked", low=0)
    opinions: int = setting(
        1, "networks that are asked; what most of them say is learned (standard, up to 3200 images: 5)", low=1, high=100
    )
    min_steps: int = setting(
        200, "more images, repeated, for each of the four learnings if they would not fill so many steps", low=1
    )
    batch_size: int = setting(128, "images per step while clusters are learned", low=2, high=1_000_000)
    final_batch_size: int = setting(256, "images per step of the last learning, from all images", low=2, high=1_000_000)
    learning_rate: float = setting(1e-3, "highest step size of the one-cycle schedule", low=0, high=10)
    n_views: int = setting(6, "jittered views of each image by which clusters are judged", low=2, high=1000)
    share: float = setting(0.8, "share of each cluster that is kept, the most confident", low=0.01, high=1)
    junk: float = setting(0.85, "share of the median confidence below which a whole cluster is left out", low=0, high=1)


@dataclass(frozen=True)
class RefinementConfig(Part):
    """A classifier that learns the clusters from the clusters, under stronger jitter; it then has the last word."""

    rounds: int = setting(0, "times the labels are taken anew from the classifier, the first from the clusters; 0: none", low=0)
    max_size: int = setting(16, "side of its images, at most, and not above that of the images as they came", low=8, high=1024)
    steps: int = setting(1000, "steps in all", low=1, high=10_000_000)
    batch_size: int = setting(200, "images per step, at most", low=2, high=1_000_000)
    learning_rate: float = setting(3e-3, "highest step size of the one-cycle schedule", low=0, high=10)
    label_smoothing: float = setting(0.1, "share of a label that is spread over all clusters", low=0, high=1)
    width: int = setting(16, "channels of the first two convolutions", low=1, high=4096)
    latent_width: int = setting(256, "width of the layer before the last", low=1, high=65536)
    dropout_latent: float = setting(0.3, "dropout after it", low=0, high=0.95)


@dataclass(frozen=True)
class Config:
    """A complete configuration; a *recipe* is a named one.

    >>> Config().replace({"training.epochs": 5}).training.epochs
    5
    """

    transforms: str = "dihedral"
    images: ImagesConfig = ImagesConfig()
    jitter: JitterConfig = JitterConfig()
    network: NetworkConfig = NetworkConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    training: TrainingConfig = TrainingConfig()
    clustering: ClusteringConfig = ClusteringConfig()
    recluster: ReclusterConfig = ReclusterConfig()
    refinement: RefinementConfig = RefinementConfig()
    refinement_jitter: JitterConfig = JitterConfig()

    def replace(self, changes: Mapping[str, Any]) -> Self:
        """A copy with some settings changed, each named as `part.setting` (or `transforms`)."""
        tree = self.to_dict()
        for name, value in changes.items():
            part, _, option = name.rpartition(".")
            place = tree.get(part) if part else tree
            if not isinstance(place, dict) or option not in place or isinstance(place[option], dict):
                raise ConfigError(f"{name!r} is not a setting; `selfsort config` lists them all.")
            place[option] = value
        return self.from_dict(tree)

    def to_dict(self) -> dict[str, Any]:
        """Nested plain values, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; missing settings keep their defaults, unknown ones are refused."""
        parts: dict[str, Any] = {}
        for name, value in tree.items():
            default = cls.__dataclass_fields__[name].default if name in cls.__dataclass_fields__ else None
            if isinstance(default, Part):
                known = {option.name for option in dataclasses.fields(default)}  # type: ignore[arg-type]
                if not isinstance(value, Mapping) or (unknown := sorted(set(value) - known)):
                    stray = f"{name}.{unknown[0]}" if isinstance(value, Mapping) else name
                    raise ConfigError(f"{stray!r} is not a setting; `selfsort config` lists them all.")
                try:
                    parts[name] = type(default)(**value)
                except ConfigError as error:  # a part may stand in two places
                    raise ConfigError(str(error).replace(_part_name(type(default)), name, 1)) from error
            elif isinstance(default, str):
                if not isinstance(value, str):
                    raise ConfigError(f"{name}={value!r} should be of type str.")
                parts[name] = value
            else:
                raise ConfigError(f"{name}={value!r} is not a setting; `selfsort config` lists them all.")
        return cls(**parts)

    def settings(self) -> Iterator[tuple[str, Any, str]]:
        """Every setting as (name, value, explanation)."""
        yield "transforms", self.transforms, "the transformations that define the parents: dihedral, T1,T3, scaling, …"
        for option in dataclasses.fields(self):
            part = getattr(self, option.name)
            for entry in dataclasses.fields(part) if isinstance(part, Part) else ():  # type: ignore[arg-type]
                yield f"{option.name}.{entry.name}", getattr(part, entry.name), entry.metadata["explanation"]


def parse_value(text: str) -> Any:
    """A value as TOML would read it; anything else is a string, and `none` is None.

    >>> parse_value("0.5"), parse_value("image"), parse_value("none")
    (0.5, 'image', None)
    """
    if text.lower() == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def load_toml(path: Path) -> dict[str, Any]:
    """Changes to a recipe from a TOML file, flattened to `part.setting` names."""
    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read as TOML ({error}).") from error
    changes: dict[str, Any] = {}
    for name, value in tree.items():
        changes |= {f"{name}.{key}": entry for key, entry in value.items()} if isinstance(value, dict) else {name: value}
    return changes
