"""`SelfSort`, a scikit-learn clusterer and transformer: the only file that knows the whole chain."""

import math
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from selfsort.agreement import consensus
from selfsort.checkpoint import load_module, load_tensors, save_tensors
from selfsort.clustering import Assignment, Clustering
from selfsort.config import Config
from selfsort.container import damaged
from selfsort.encoder import place
from selfsort.errors import ConfigError, DataError, ModelFileError, TrainingError, TrainingStopped
from selfsort.images import ImageSet, as_image_set, sample_rows
from selfsort.loop import Hook, rename_stages, training_flops
from selfsort.machine import choose_device
from selfsort.metrics import align_clusters, score_without_truth
from selfsort.network import AcolNetwork, build_network
from selfsort.preparation import Preparation, empty_border
from selfsort.recipes import DEFAULT_RECIPE, get_recipe
from selfsort.refinement import build_classifier
from selfsort.representation import Representation
from selfsort.sorting import Sorter, TrainedNetwork, sort_images, teach
from selfsort.trainer import n_epochs, train
from selfsort.transforms import ImageFunction, TransformSet, build_transforms, get_transforms

StageHook = Callable[[str, int, int], None]
MODEL_FILE = "model.safetensors"
MIN_SIZE = 8
JUDGED = 20_000
"""Images from which the scores without truth are taken, at most."""

OWN = "own:"
"""How the configuration names transformations that were given as functions."""


class SelfSort(TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Sorts images into clusters by learning to tell transformations apart (Kilinc & Uysal, ICLR 2018).

    Parameters
    ----------
    n_clusters : how many clusters; "auto" takes the number that the images show.
    recipe : a named configuration, see `selfsort.RECIPES`.
    epochs : replaces the recipe's number of epochs (and its least number of steps).
    settings : further changes to the recipe, such as `{"network.n_duplicates": 10}`.
    transforms : replaces the recipe's transformations: a name, or own functions by name, of which the first changes nothing.
    image_shape : (height, width) or (channels, height, width) of the rows of a 2-D array; None: the smallest square that
        holds a row, filled up with zeros.
    device : where to compute: auto (a GPU if torch sees one), cpu, cuda, mps.
    random_state : seed; the same seed gives the same result, bit for bit, on the same machine.
    checkpoint : a folder in which training leaves its state now and then, and goes on from what it finds there.
    on_progress : called after every training step; returning True stops.
    on_stage : called as (stage, done, total) during the steps after training.

    Attributes after `fit`
    ----------------------
    labels_, confidence_ : cluster of each image, and how clear it is, 0 to 1.
    n_clusters_ : how many clusters there are. agreement_ : the spectrum of the views' graph and the clusters before refinement.
    training_flops_ : what the training has cost, in floating-point operations.
    history_ : one record per epoch and stage (of the first network, where several are asked).
    config_ : the configuration used. network_ : the trained network.
    label_free_scores_ : silhouette, sizes, active duplicates.

    >>> from selfsort import SelfSort, load_dataset
    >>> sorter = SelfSort(10, recipe="paper", epochs=1, settings={"network.width": 4, "network.latent_width": 32})
    >>> sorter.fit_predict(load_dataset("digits")).shape
    (1797,)
    """

    _suffix = ""
    """What the names of its stages and checkpoints end with, where it is one of several networks that are asked."""

    def __init__(
        self,
        n_clusters: int | str = 10,
        *,
        recipe: str = DEFAULT_RECIPE,
        epochs: int | None = None,
        settings: Mapping[str, Any] | None = None,
        transforms: str | Mapping[str, ImageFunction] | None = None,
        image_shape: tuple[int, ...] | None = None,
        device: str = "auto",
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
        self.device = device
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.on_progress = on_progress
        self.on_stage = on_stage

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on images (an array, a tensor or an `ImageSet`) and cluster them; `y` is ignored."""
        images = self._images(X, reset=True)
        self.train(images)
        sorter = self._sort(images, self._checkpoint)
        self.training_flops_ = self._network_flops(len(images)) + self._sorter_flops(sorter)
        self.history_ += sorter.history
        if sorter.is_reclustered and self.config_.recluster.opinions > 1:
            sorter = self._consult(images, sorter)
        self._sorter, self.n_clusters_, self.agreement_ = sorter, sorter.n_clusters, sorter.agreement
        self.labels_, self.confidence_ = self._assign(self._sorter, images)
        judged = sample_rows(len(images), JUDGED, self.seed_)
        representation = self.represent(images.take(judged))
        points = representation.space(self.config_.clustering.space)
        scores = score_without_truth(points, self.labels_[judged], self.n_clusters_, logits=representation.logits)
        sizes = np.bincount(self.labels_, minlength=self.n_clusters_).tolist()
        self.label_free_scores_ = replace(scores, cluster_sizes=sizes)
        return self

    def train(self, X: Any) -> Self:
        """The first half of `fit`: the network only. `represent` works then, but there are no clusters yet."""
        images = self._images(X, reset=True)
        for name in ("_sorter", "labels_"):  # clusters of an earlier fit do not belong to this network
            self.__dict__.pop(name, None)
        self.config_ = self._config(images)
        self.transforms_: TransformSet | None = self._transforms()
        if isinstance(self.random_state, int | np.integer) and self.random_state < 0:
            raise ConfigError(f"random_state={self.random_state} should be >= 0.")
        self.seed_ = (
            int(self.random_state)
            if isinstance(self.random_state, int | np.integer)
            else int(check_random_state(self.random_state).randint(2**31))
        )
        channels, height, width = images.pixels.shape[1:]
        self.preparation_ = Preparation(
            channels=1 if self.config_.images.grey and channels == 3 else channels,
            size=self.config_.images.size or max(MIN_SIZE, height, width),
            low=images.low,
            high=images.high,
            normalise=self.config_.images.normalise,
            border=empty_border(images) if self.config_.images.crop else 0.0,
        )
        largest = min(max(height, width), self.config_.refinement.max_size) // 4 * 4
        self.refinement_preparation_ = replace(self.preparation_, size=max(self.preparation_.size, largest))
        self.network_ = self._build_network(len(self.transforms_))
        place(self.network_, choose_device(self.device))
        self.history_ = train(
            self.network_,
            images,
            preparation=self.preparation_,
            transforms=self.transforms_,
            config=self.config_,
            seed=self.seed_,
            on_progress=self.on_progress,
            checkpoint=self._checkpoint("training"),
        )
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there are clusters, not only a network."""
        return hasattr(self, "_sorter")

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The cluster of each image."""
        return self.assign(X).labels

    def score_samples(self, X: Any) -> NDArray[np.float32]:
        """How clearly each image belongs to its cluster, 0 to 1."""
        return self.assign(X).confidence

    def assign(self, X: Any) -> Assignment:
        """Cluster and confidence of each image, in one pass."""
        check_is_fitted(self)
        return self._assign(self._sorter, self._images(X))

    def transform(self, X: Any) -> NDArray[np.float32]:
        """The latent representation F of each image."""
        check_is_fitted(self)
        return self.represent(X).latent

    def transform_batches(self, X: Any) -> Iterator[NDArray[np.float32]]:
        """The same, a batch of images at a time, for more of them than fit into memory."""
        check_is_fitted(self)
        return (batch.latent for batch in self._trained().represent_batches(self._images(X), self._stage))

    def represent(self, X: Any) -> Representation:
        """F and Z of each image."""
        check_is_fitted(self, "network_")
        return self._trained().represent(self._images(X), self._stage)

    def cluster_anew(self, X: Any) -> NDArray[np.int64]:
        """Clusters fitted on these images alone with the one network as it is (the paper's protocol for a test set)."""
        check_is_fitted(self)
        images = self._images(X)
        return self._assign(self._sort(images, lambda stage: None), images).labels

    def align(self, reference: NDArray[np.int64]) -> Self:
        """Number the clusters so that as many images as possible have the number that `reference` gives them.

        `reference` has a cluster for each image that was fitted, -1 where none is known.
        """
        check_is_fitted(self, "labels_")
        order = align_clusters(self.labels_, reference, self.n_clusters_)
        self._sorter = self._sorter.reorder(order)
        self.labels_ = np.argsort(order)[self.labels_]
        sizes = self.label_free_scores_.cluster_sizes
        self.label_free_scores_ = replace(self.label_free_scores_, cluster_sizes=[sizes[cluster] for cluster in order])
        return self

    def _trained(self) -> TrainedNetwork:
        return TrainedNetwork(
            self.network_, self.preparation_, self.refinement_preparation_, self.transforms_, self.config_, self.seed_
        )

    def _sort(self, images: ImageSet, checkpoint: Callable[[str], Path | None]) -> Sorter:
        return sort_images(
            self._trained(),
            images,
            None if self.n_clusters == "auto" else int(self.n_clusters),
            checkpoint=checkpoint,
            on_progress=self.on_progress,
            stage=self._stage,
        )

    def _consult(self, images: ImageSet, sorter: Sorter) -> Sorter:
        """Ask further networks, each from another start, and have a classifier learn what most of them say."""
        opinions, n_opinions = [self._assign(sorter, images).labels], self.config_.recluster.opinions
        for number in range(2, n_opinions + 1):
            other = copy(self)
            other._suffix = f" ({number} of {n_opinions})"
            other.settings = {**(self.settings or {}), "recluster.opinions": 1}
            other.random_state = int(np.random.SeedSequence(self.seed_, spawn_key=(number,)).generate_state(1)[0] >> 1)
            other.on_progress = rename_stages(self.on_progress, other._suffix)
            try:
                opinions.append(other.fit(images).labels_)
            except (TrainingStopped, TrainingError) as error:
                raise type(error)(f"network {number} of {n_opinions}: {error}") from error
            self.training_flops_ += other.training_flops_
        labels = consensus(opinions, sorter.n_clusters, config=self.config_.clustering, seed=self.seed_)
        sorter = teach(
            self._trained(),
            images,
            labels,
            replace(sorter, is_reclustered=False),
            checkpoint=self._checkpoint,
            on_progress=self.on_progress,
            stage=self._stage,
        )
        self.training_flops_ += self._sorter_flops(sorter)
        self.history_ += sorter.history
        return sorter

    def _assign(self, sorter: Sorter, images: ImageSet) -> Assignment:
        return sorter.assign(self._trained(), images, self._stage)

    def save(self, path: Path | str) -> Path:
        """Write the fitted model to a `.safetensors` file (a folder gets a `model.safetensors`); returns the file."""
        check_is_fitted(self)
        file = _model_file(Path(path))
        tensors = {f"network.{name}": tensor for name, tensor in self.network_.state_dict().items()}
        if self._sorter.classifier is not None:
            tensors |= {f"classifier.{name}": tensor for name, tensor in self._sorter.classifier.state_dict().items()}
        elif self._sorter.centres is not None:
            tensors["clusters.centres"] = torch.from_numpy(self._sorter.centres.centres)
        values = {
            "recipe": self.recipe,
            "config": self.config_.to_dict(),
            "seed": self.seed_,
            "n_clusters": self.n_clusters_,
            "n_parents": self.network_.head.nodes[0],
            "preparation": asdict(self.preparation_),
            "refinement_size": self.refinement_preparation_.size,
            "is_reclustered": self._sorter.is_reclustered,
            "image_shape": list(self.image_shape) if self.image_shape else None,
            "n_features_in": getattr(self, "n_features_in_", None),
        }
        save_tensors(file, tensors, values, kind="model")
        return file

    @classmethod
    def load(cls, path: Path | str, *, device: str = "auto") -> Self:
        """Read what `save` wrote, onto a device; the result predicts and transforms, but has no `labels_` or `history_`."""
        file = _model_file(Path(path))
        tensors, values = load_tensors(file, kind="model")
        try:
            shape, n_clusters, n_features = values["image_shape"], values["n_clusters"], values["n_features_in"]
            numbers = [n_clusters, values["seed"], values["n_parents"], 0 if n_features is None else n_features, *(shape or [])]
            if not all(type(number) is int and number >= 0 for number in numbers) or n_clusters < 1:
                raise ValueError("a number in it is not one")
            self = cls(
                n_clusters,
                recipe=values["recipe"],
                image_shape=tuple(shape) if shape else None,
                device=device,
                random_state=values["seed"],
            )
            self.config_, self.seed_, self.n_clusters_ = Config.from_dict(values["config"]), values["seed"], n_clusters
            if n_features is not None:
                self.n_features_in_ = n_features
            is_own = self.config_.transforms.startswith(OWN)
            self.transforms_ = None if is_own else get_transforms(self.config_.transforms)
            self.preparation_ = Preparation(**values["preparation"])
            self.refinement_preparation_ = replace(self.preparation_, size=values["refinement_size"])
            self.network_ = load_module(file, lambda: self._build_network(values["n_parents"]), tensors, "network")
            if "clusters.centres" in tensors:
                width = math.prod(self.network_.head.nodes)
                if self.config_.clustering.space == "latent":
                    width = self.config_.network.latent_width
                if tensors["clusters.centres"].shape != (n_clusters, width):
                    raise ValueError("its centres do not fit its network")
                self._sorter = Sorter(n_clusters, centres=Clustering(tensors["clusters.centres"].float().numpy()))
            else:
                sorter = Sorter(n_clusters, is_reclustered=bool(values["is_reclustered"]))
                build = partial(
                    build_classifier,
                    self.config_.network if sorter.is_reclustered else self.config_.refinement,
                    channels=self.preparation_.channels,
                    size=self._trained().classifier_preparation(sorter.is_reclustered).size,
                    n_clusters=n_clusters,
                    generator=torch.Generator(),
                )
                self._sorter = replace(sorter, classifier=load_module(file, build, tensors, "classifier"))
        except ModelFileError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
            raise damaged(file, error) from error
        for module in (self.network_, self._sorter.classifier):
            if module is not None:
                place(module, choose_device(device))
        return self

    def _network_flops(self, n_samples: int) -> int:
        """What the training of the network has cost, in floating-point operations."""
        cost = training_flops(self.network_, channels=self.preparation_.channels, size=self.preparation_.size)
        return cost * n_samples * n_epochs(self.config_.training, n_samples)

    def _sorter_flops(self, sorter: Sorter) -> int:
        """The same of the classifier, if there is one."""
        if sorter.classifier is None:
            return 0
        preparation = self._trained().classifier_preparation(sorter.is_reclustered)
        return training_flops(sorter.classifier, channels=preparation.channels, size=preparation.size) * sorter.n_images

    def _build_network(self, n_parents: int) -> AcolNetwork:
        return build_network(
            self.config_.network,
            channels=self.preparation_.channels,
            size=self.preparation_.size,
            n_parents=n_parents,
            generator=torch.Generator().manual_seed(self.seed_),
        )

    def _checkpoint(self, stage: str) -> Path | None:
        return Path(self.checkpoint) / f"{stage}{self._suffix}.safetensors" if self.checkpoint else None

    def _config(self, images: ImageSet) -> Config:
        """The recipe with all changes, checked against the images and the number of clusters."""
        changes = dict(self.settings or {})
        if self.epochs is not None:
            changes |= {"training.epochs": self.epochs, "training.min_steps": 0, "training.min_images": 0}
        if self.transforms is not None:
            is_name = isinstance(self.transforms, str)
            changes["transforms"] = self.transforms if is_name else f"{OWN} {', '.join(self.transforms)}"
        config = get_recipe(self.recipe, channels=images.pixels.shape[1], n_samples=len(images)).replace(changes)
        if config.clustering.method == "agreement" and not config.refinement.rounds:
            raise ConfigError("clustering.method='agreement' labels no new images by itself; it needs refinement.rounds >= 1.")
        if self.n_clusters == "auto" and config.clustering.method == "k-means":
            raise ConfigError("n_clusters='auto' should be a number with clustering.method='k-means', or use 'agreement'.")
        is_number = isinstance(self.n_clusters, int | np.integer) and self.n_clusters >= 1
        if not is_number and self.n_clusters != "auto":
            raise ConfigError(f"n_clusters={self.n_clusters!r} should be a whole number >= 1 or 'auto'.")
        needed = max(2, int(self.n_clusters)) if is_number else 2
        if len(images) < needed:
            raise DataError(f"n_samples={len(images)} should be >= n_clusters={self.n_clusters} and >= 2.")
        return config

    def __sklearn_tags__(self) -> Any:
        """F is float32 whatever the images are."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _transforms(self) -> TransformSet:
        if isinstance(self.transforms, Mapping):
            return build_transforms(self.transforms)
        return get_transforms(self.config_.transforms)

    def _stage(self, name: str) -> Callable[[int, int], None] | None:
        hook = self.on_stage
        return (lambda done, total: hook(name + self._suffix, done, total)) if hook else None

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
