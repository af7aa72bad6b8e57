"""`SelfSort`, a scikit-learn clusterer and transformer: the only file that knows the whole chain."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from selfsort.checkpoint import load_tensors, load_weights, save_tensors
from selfsort.clustering import Assignment, Clustering, cluster
from selfsort.config import Config
from selfsort.errors import ConfigError, DataError, ModelFileError
from selfsort.images import ImageSet, as_image_set
from selfsort.loop import Hook
from selfsort.metrics import score_without_truth
from selfsort.network import build_network
from selfsort.preparation import Preparation
from selfsort.recipes import DEFAULT_RECIPE, get_recipe
from selfsort.representation import Representation, extract
from selfsort.trainer import train
from selfsort.transforms import ImageFunction, TransformSet, build_transforms, get_transforms

StageHook = Callable[[str, int, int], None]
MODEL_FILE = "model.safetensors"
MIN_SIZE = 8


class SelfSort(TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Sorts images into clusters by learning to tell transformations apart (Kilinc & Uysal, ICLR 2018).

    Parameters
    ----------
    n_clusters : how many clusters.
    recipe : a named configuration, see `selfsort.RECIPES`.
    epochs : replaces the recipe's number of epochs.
    settings : further changes to the recipe, such as `{"network.n_duplicates": 10}`.
    transforms : replaces the recipe's transformations: a name, or own functions by name, of which the first changes nothing.
    image_shape : (height, width) or (channels, height, width) of the rows of a 2-D array; None: the smallest square that
        holds a row, filled up with zeros.
    random_state : seed; the same seed gives the same result, bit for bit, on the same machine.
    checkpoint : a file that training writes now and then, and goes on from if it exists.
    on_progress : called after every training step; returning True stops.
    on_stage : called as (stage, done, total) during the steps after training.

    Attributes after `fit`
    ----------------------
    labels_, confidence_ : cluster of each image, and how clear it is (0: between two clusters, 1: at a centre).
    history_ : one record per epoch. config_ : the configuration used. network_ : the trained network.
    cluster_centers_ : in the space that was clustered. label_free_scores_ : silhouette, sizes, active duplicates.

    >>> from selfsort import SelfSort, load_dataset
    >>> sorter = SelfSort(10, epochs=1, settings={"network.width": 4, "network.latent_width": 32})
    >>> sorter.fit_predict(load_dataset("digits")).shape
    (1797,)
    """

    def __init__(
        self,
        n_clusters: int = 10,
        *,
        recipe: str = DEFAULT_RECIPE,
        epochs: int | None = None,
        settings: Mapping[str, Any] | None = None,
        transforms: str | Mapping[str, ImageFunction] | None = None,
        image_shape: tuple[int, ...] | None = None,
        random_state: Any = 0,
        checkpoint: Path | str | None = None,
        on_progress: Hook | None = None,
        on_stage: StageHook | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.recipe = recipe
        self.epochs = epochs
        self.settings = settings
        self.transforms = transforms
        self.image_shape = image_shape
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.on_progress = on_progress
        self.on_stage = on_stage

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on images (an array, a tensor or an `ImageSet`) and cluster them; `y` is ignored."""
        if not isinstance(self.n_clusters, int | np.integer) or self.n_clusters < 1:
            raise ConfigError(f"n_clusters={self.n_clusters!r} should be a whole number >= 1.")
        images = self._images(X, reset=True)
        if len(images) < max(2, self.n_clusters):
            raise DataError(f"n_samples={len(images)} should be >= n_clusters={self.n_clusters} and >= 2.")
        self.config_ = self._config()
        transforms = self._transforms()
        self.seed_ = (
            int(self.random_state)
            if isinstance(self.random_state, int | np.integer)
            else int(check_random_state(self.random_state).randint(2**31))
        )
        channels, height, width = images.pixels.shape[1:]
        channels = 1 if self.config_.images.grey and channels == 3 else channels
        size = self.config_.images.size or max(MIN_SIZE, height, width)
        self.preparation_ = Preparation(channels, size, images.low, images.high, self.config_.images.normalise)
        self.network_ = build_network(
            self.config_.network,
            channels=channels,
            size=size,
            n_parents=len(transforms),
            generator=torch.Generator().manual_seed(self.seed_),
        )
        self.history_ = train(
            self.network_,
            images,
            preparation=self.preparation_,
            transforms=transforms,
            config=self.config_,
            seed=self.seed_,
            on_progress=self.on_progress,
            checkpoint=Path(self.checkpoint) if self.checkpoint else None,
        )
        representation = self.represent(images)
        points = representation.space(self.config_.clustering.space)
        self._clustering = self._cluster(points)
        self.labels_, self.confidence_ = self._clustering.assign(points)
        self.label_free_scores_ = score_without_truth(points, self.labels_, self.n_clusters, logits=representation.logits)
        return self

    @property
    def cluster_centers_(self) -> NDArray[np.float32]:
        """Centres of the clusters in the space that was clustered."""
        return self._clustering.centres

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The cluster of each image."""
        return self.assign(X).labels

    def score_samples(self, X: Any) -> NDArray[np.float32]:
        """How clearly each image belongs to its cluster, 0 to 1."""
        return self.assign(X).confidence

    def assign(self, X: Any) -> Assignment:
        """Cluster and confidence of each image, in one pass."""
        check_is_fitted(self)
        return self._clustering.assign(self.represent(X).space(self.config_.clustering.space))

    def transform(self, X: Any) -> NDArray[np.float32]:
        """The latent representation F of each image."""
        check_is_fitted(self)
        return self.represent(X).latent

    def represent(self, X: Any) -> Representation:
        """F and Z of each image."""
        return extract(self.network_, self._images(X), preparation=self.preparation_, on_batch=self._stage("computing features"))

    def cluster_anew(self, X: Any) -> NDArray[np.int64]:
        """Clusters fitted on these images alone, in the trained network's space (the paper's protocol for a test set)."""
        check_is_fitted(self)
        points = self.represent(X).space(self.config_.clustering.space)
        return self._cluster(points).assign(points).labels

    def save(self, path: Path | str) -> Path:
        """Write the fitted model to a `.safetensors` file (a folder gets a `model.safetensors`); returns the file."""
        check_is_fitted(self)
        file = _model_file(Path(path))
        tensors = {f"network.{name}": tensor for name, tensor in self.network_.state_dict().items()}
        tensors["clusters.centres"] = torch.from_numpy(self._clustering.centres)
        values = {
            "recipe": self.recipe,
            "config": self.config_.to_dict(),
            "seed": self.seed_,
            "n_clusters": int(self.n_clusters),
            "n_parents": self.network_.head.nodes[0],
            "preparation": asdict(self.preparation_),
            "image_shape": list(self.image_shape) if self.image_shape else None,
            "n_features_in": getattr(self, "n_features_in_", None),
        }
        save_tensors(file, tensors, values, kind="model")
        return file

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read what `save` wrote; the result predicts and transforms, but has no `labels_` or `history_`."""
        file = _model_file(Path(path))
        tensors, values = load_tensors(file, kind="model")
        try:
            config, shape = Config.from_dict(values["config"]), values["image_shape"]
            self = cls(
                values["n_clusters"],
                recipe=values["recipe"],
                image_shape=tuple(shape) if shape else None,
                random_state=values["seed"],
            )
            self.config_, self.seed_ = config, values["seed"]
            if values["n_features_in"] is not None:
                self.n_features_in_ = values["n_features_in"]
            self.preparation_ = Preparation(**values["preparation"])
            self.network_ = build_network(
                config.network,
                channels=self.preparation_.channels,
                size=self.preparation_.size,
                n_parents=values["n_parents"],
                generator=torch.Generator().manual_seed(self.seed_),
            )
            load_weights(file, self.network_, tensors, "network")
            self._clustering = Clustering(tensors["clusters.centres"].numpy())
        except (KeyError, TypeError, ConfigError) as error:
            raise ModelFileError(f"{file}: damaged ({error}); restore it or train again.") from error
        return self

    def __sklearn_tags__(self) -> Any:
        """F is float32 whatever the images are."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _cluster(self, points: NDArray[np.float32]) -> Clustering:
        n_init = self.config_.clustering.n_init
        return cluster(points, self.n_clusters, n_init=n_init, seed=self.seed_, on_start=self._stage("k-means"))

    def _config(self) -> Config:
        changes = dict(self.settings or {})
        if self.epochs is not None:
            changes["training.epochs"] = self.epochs
        if self.transforms is not None:
            is_name = isinstance(self.transforms, str)
            changes["transforms"] = self.transforms if is_name else f"own: {', '.join(self.transforms)}"
        return get_recipe(self.recipe).replace(changes)

    def _transforms(self) -> TransformSet:
        if isinstance(self.transforms, Mapping):
            return build_transforms(self.transforms)
        return get_transforms(self.config_.transforms)

    def _stage(self, name: str) -> Callable[[int, int], None] | None:
        hook = self.on_stage
        return (lambda done, total: hook(name, done, total)) if hook else None

    def _images(self, X: Any, *, reset: bool = False) -> ImageSet:
        if isinstance(X, ImageSet):
            return X
        if not (hasattr(X, "ndim") and X.ndim in (3, 4)):
            X = validate_data(
                self, X, reset=reset, dtype=(np.float64, np.float32, np.uint8), ensure_min_samples=2 if reset else 1
            )
            X = _rows_to_images(X, self.image_shape)
        return as_image_set(X.numpy(force=True) if isinstance(X, torch.Tensor) else X)


def _model_file(path: Path) -> Path:
    return path if path.suffix == ".safetensors" else path / MODEL_FILE


def _rows_to_images(rows: NDArray[Any], image_shape: tuple[int, ...] | None) -> NDArray[Any]:
    if image_shape is None:
        side = math.ceil(math.sqrt(rows.shape[1]))
        image_shape, rows = (side, side), np.pad(rows, ((0, 0), (0, side * side - rows.shape[1])))
    if math.prod(image_shape) != rows.shape[1] or len(image_shape) not in (2, 3):
        raise DataError(
            f"image_shape={image_shape} should be (height, width) or (channels, height, width) with {rows.shape[1]} values."
        )
    return rows.reshape(len(rows), *((1, *image_shape) if len(image_shape) == 2 else image_shape))
