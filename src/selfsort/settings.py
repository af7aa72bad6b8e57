"""The parts of a configuration: each setting with its default, its range and what it does."""

from dataclasses import dataclass, field
from typing import Any

from selfsort.errors import ConfigError
from selfsort.schema import check, limits


def setting(default: Any, explanation: str, **bounds: Any) -> Any:
    """Declare one setting: its default, what it does, and what it may be (low, high, choices)."""
    return field(default=default, metadata={"explanation": explanation, **limits(**bounds)})


class Part:
    """A group of settings, checked when it is made."""

    def __post_init__(self) -> None:
        """Check each value against its declared type, range and choices."""
        check(self, prefix=f"{part_name(type(self))}.", error=ConfigError)


def part_name(part: type) -> str:
    return part.__name__.removesuffix("Config").lower()


@dataclass(frozen=True)
class ImagesConfig(Part):
    """How pixels reach the network."""

    size: int | None = setting(
        None, "side to which images are resized; none: as they are (folders: 32)", low=8, high=1024
    )
    crop: bool = setting(
        False, "cut off the border in which the images hardly differ, the same on all sides"
    )
    grey: bool = setting(False, "reduce colour images to their luminance")
    normalise: str = setting(
        "unit",
        "unit: pixels in [0, 1]; image: each image centred and scaled by itself",
        choices=("unit", "image"),
    )


@dataclass(frozen=True)
class JitterConfig(Part):
    """Random changes inside each pseudo class that leave an image's class as it is; 0: none."""

    shift: float = setting(0.0, "shift by up to this share of the side", low=0, high=1)
    rotation: float = setting(0.0, "rotate by up to so many radians", low=0, high=1)
    scale: float = setting(0.0, "scale by up to a factor of exp(±this)", low=0, high=1)
    shear: float = setting(0.0, "shear by up to this slope", low=0, high=1)
    aspect: float = setting(0.0, "stretch by up to a factor of exp(±this)", low=0, high=1)
    elastic: float = setting(
        0.0, "bend smoothly, by this standard deviation (2: the whole side)", low=0, high=1
    )
    invert: bool = setting(
        False, "invert the contrast of half of the images (wants images.normalise = image)"
    )
    contrast: float = setting(0.0, "multiply by up to exp(±this)", low=0, high=3)
    brightness: float = setting(
        0.0, "add up to ±this (images.normalise = image: in standard deviations)", low=0, high=3
    )
    tone: float = setting(0.0, "raise or lower the middle tones by up to this", low=0, high=3)
    cutout: float = setting(
        0.0, "share of the images in which a rectangle is blanked", low=0, high=1
    )
    context: float = setting(
        0.0,
        "share of the images whose edges show another image, so that the middle counts",
        low=0,
        high=1,
    )


@dataclass(frozen=True)
class NetworkConfig(Part):
    """The convolutional network and its augmented softmax (ACOL)."""

    width: int = setting(
        32,
        "channels of the first two convolutions; the next two have twice as many",
        low=1,
        high=4096,
    )
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

    epochs: int = setting(
        400,
        "how often every image is shown, each time under one random transformation",
        low=1,
        high=1_000_000,
    )
    min_steps: int = setting(
        0, "more epochs if the data set is so small that there would be fewer steps", low=0
    )
    min_images: int = setting(
        0,
        "more epochs if it is so small that fewer images would be shown, repetitions counted",
        low=0,
    )
    batch_size: int = setting(400, "images per step, at most", low=2, high=1_000_000)
    min_batches: int = setting(
        1, "smaller batches (not below 64) if an epoch would have fewer", low=1, high=1_000_000
    )
    learning_rate: float = setting(
        1e-3, "Adam's step size, or the highest one of a schedule", low=0, high=10
    )
    schedule: str = setting(
        "constant",
        "constant; one-cycle: up during the first quarter, then down to nothing",
        choices=("constant", "one-cycle"),
    )
    give_up: float = setting(
        0.0,
        "stop after an eighth of the training if the share of transformations told right has not "
        "come so far from chance to all; the other sources then sort the images; 0: never",
        low=0,
        high=1,
    )


@dataclass(frozen=True)
class ClusteringConfig(Part):
    """From the trained network to clusters."""

    method: str = setting(
        "k-means",
        "k-means: in one space, as the paper does; agreement: spectral, on the graph of "
        "neighbours in all views",
        choices=("k-means", "agreement"),
    )
    space: str = setting(
        "latent",
        "where k-means works: latent (F), logits (Z) or softmax (Z)",
        choices=("latent", "logits", "softmax"),
    )
    n_init: int = setting(
        10, "restarts of k-means; the tightest clustering is kept", low=1, high=1000
    )
    n_neighbours: int = setting(10, "neighbours of an image in each view's graph", low=1, high=1000)
    n_components: int = setting(
        128, "principal components of F in which neighbours are sought", low=1, high=65536
    )
    min_support: float = setting(
        1.5, "sum over the views below which an edge is weakened (both ways in a view: 1)", low=0
    )
    floor: float = setting(0.02, "share of its weight that a weakened edge keeps", low=0, high=1)
    max_clusters: int = setting(
        40, "largest number of clusters that `auto` considers", low=2, high=1000
    )
    max_samples: int = setting(
        60_000,
        "images that are clustered, at most; the others are assigned to what was found",
        low=100,
    )


@dataclass(frozen=True)
class ReclusterConfig(Part):
    """Where the graph shows another number of clusters than the one asked for: too many are found,
    learned and merged.
    """

    factor: int = setting(
        0,
        "so many times the clusters asked for are found first; 0: never, the graph is cut as asked",
        low=0,
    )
    opinions: int = setting(
        1,
        "networks that are asked; what most of them say is learned (standard, up to 3200 images: "
        "5)",
        low=1,
        high=100,
    )
    min_steps: int = setting(
        200,
        "more images, repeated, for each of the four learnings if they would not fill so many "
        "steps",
        low=1,
    )
    batch_size: int = setting(
        128, "images per step while clusters are learned", low=2, high=1_000_000
    )
    final_batch_size: int = setting(
        256, "images per step of the last learning, from all images", low=2, high=1_000_000
    )
    learning_rate: float = setting(
        1e-3, "highest step size of the one-cycle schedule", low=0, high=10
    )
    n_views: int = setting(
        6, "jittered views of each image by which clusters are judged", low=2, high=1000
    )
    share: float = setting(
        0.8, "share of each cluster that is kept, the most confident", low=0.01, high=1
    )
    junk: float = setting(
        0.85,
        "share of the median confidence below which a whole cluster is left out",
        low=0,
        high=1,
    )


@dataclass(frozen=True)
class RefinementConfig(Part):
    """A classifier that learns the clusters from the clusters, under stronger jitter; it then has
    the last word.
    """

    rounds: int = setting(
        0,
        "times the labels are taken anew from the classifier, the first from the clusters; 0: none",
        low=0,
    )
    max_size: int = setting(
        16,
        "side of its images, at most, and not above that of the images as they came",
        low=8,
        high=1024,
    )
    steps: int = setting(1000, "steps in all", low=1, high=10_000_000)
    batch_size: int = setting(200, "images per step, at most", low=2, high=1_000_000)
    learning_rate: float = setting(
        3e-3, "highest step size of the one-cycle schedule", low=0, high=10
    )
    label_smoothing: float = setting(
        0.1, "share of a label that is spread over all clusters", low=0, high=1
    )
    width: int = setting(16, "channels of the first two convolutions", low=1, high=4096)
    latent_width: int = setting(256, "width of the layer before the last", low=1, high=65536)
    dropout_latent: float = setting(0.3, "dropout after it", low=0, high=0.95)


@dataclass(frozen=True)
class SourcesConfig(Part):
    """Other descriptions of the images beside the network: pixels, gradients, colours, textures,
    patches.
    """

    max_images: int = setting(
        0,
        "sets of at most so many images are sorted by all sources; 0: by the network alone",
        low=0,
    )
    unsure: float = setting(
        0.0,
        "larger sets, too, if the network has come less far than this from chance to knowing all "
        "transformations; a sample of them is compared; 1: always",
        low=0,
        high=1,
    )
    encoder: str | None = setting(
        "auto",
        "a pretrained network as one more source: none, lite0, a file NAME.onnx, hf:NAME; auto: "
        "lite0 where it is installed and images have 32 pixels",
    )
