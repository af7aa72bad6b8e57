"""`SelfSort`: the scikit-learn face of a `Model`."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from selfsort.clustering.kmeans import Assignment
from selfsort.config import Config
from selfsort.data.given import sort_out
from selfsort.data.image_set import ImageSet
from selfsort.data.kinds import IMAGES
from selfsort.errors import SelfsortWarning
from selfsort.method.encoders import settle_encoder
from selfsort.method.representation import Representation
from selfsort.method.seeds import as_seed
from selfsort.method.transforms import ImageFunction, build_transforms, transforms_name
from selfsort.metrics import align_clusters, score
from selfsort.recipes import DEFAULT_RECIPE, resolve_config
from selfsort.sorting.diagnosis import diagnose, judge
from selfsort.sorting.door import one_of, telling, to_images
from selfsort.sorting.methods import fit_model
from selfsort.sorting.model import Model
from selfsort.sorting.model_file import load_model_and_notes, save_model
from selfsort.sorting.pipeline import cluster_anew
from selfsort.training import Hook, Hooks, StageHook


class SelfSort(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClusterMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Sorts images by learning to tell transformations apart (Kilinc & Uysal, ICLR 2018).

    Parameters
    ----------
    n_clusters : how many clusters; "auto" takes the number that the images show.
    kind : what X holds, an entry of `selfsort.data.kinds.KINDS`; None: images.
    recipe, method : see `selfsort.RECIPES` and `selfsort.sorting.METHODS`.
    epochs, settings : epochs of training; any settings, such as `{"network.n_duplicates": 10}`.
    transforms : a name, or own functions by name, of which the first changes nothing.
    encoder : a pretrained network as one more source: none, auto, lite0, NAME.onnx, hf:NAME.
    image_shape : ([channels,] height, width) of the rows of a 2-D array.
    verbose : whether to show progress.
    random_state : seed; the same seed, precision, machine and threads give the same bits.
    device, checkpoint, on_progress, on_stage : auto, cpu, cuda or mps; the others: see `Hooks`.

    Attributes after `fit`
    ----------------------
    labels_, confidence_ : cluster of each image, and how clear it is; encoder_ : which took part.
    warnings_ : what looks wrong, by its kind; each is also a `SelfsortWarning`.
    model_ : the fitted `Model`, and its parts n_clusters_, names_, config_, seed_, network_,
        agreement_ (the views' graph), history_, training_flops_; label_free_scores_ judge it
        without truth.

    >>> from selfsort import SelfSort, load_dataset
    >>> sorter = SelfSort(10, recipe="paper", epochs=1, settings={"network.width": 4})
    >>> sorter.fit_predict(load_dataset("digits")).shape
    (1797,)
    """

    def __init__(
        self,
        n_clusters: int | str = 10,
        *,
        kind: str | None = None,
        recipe: str = DEFAULT_RECIPE,
        method: str | None = None,
        epochs: int | None = None,
        settings: Mapping[str, Any] | None = None,
        transforms: str | Mapping[str, ImageFunction] | None = None,
        encoder: str | None = None,
        image_shape: tuple[int, ...] | None = None,
        device: str = "auto",
        random_state: Any = 0,
        checkpoint: Path | str | None = None,
        on_progress: Hook | None = None,
        on_stage: StageHook | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.kind = kind
        self.recipe = recipe
        self.method = method
        self.epochs = epochs
        self.settings = settings
        self.transforms = transforms
        self.encoder = encoder
        self.image_shape = image_shape
        self.device = device
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.on_progress = on_progress
        self.on_stage = on_stage
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on images and cluster them; `y` is ignored.

        X: a folder or another source; an array or tensor; a list of arrays, pictures or paths; a
        data set of torch (a loader gives its data set, in its order) or a column of one of Hugging
        Face or pandas.
        """
        for name in ("model_", "image_shape_"):
            self.__dict__.pop(name, None)
        resolve = partial(
            resolve_config,
            self.recipe,
            self.settings,
            epochs=self.epochs,
            method=self.method,
            transforms=transforms_name(self.transforms),
            encoder=self.encoder,
        )
        with self._telling() as hooks:
            return self._fit(X, resolve, hooks)

    def _fit(self, X: Any, resolve: Callable[..., Config], hooks: Hooks) -> Self:
        images = self._images(X, hooks, resolve(kind=self.kind or IMAGES))
        self.image_shape_ = images.pixels.shape[1:]
        config = resolve(
            channels=images.pixels.shape[1],
            kind=images.modality,
            is_taught=images.taught is not None,
        )
        config, self.encoder_ = settle_encoder(config, images)
        seed = as_seed(self.random_state)
        model = fit_model(images, n_clusters=self.n_clusters, config=config, seed=seed, hooks=hooks)
        self.labels_, self.confidence_ = model.assign_fitted(images, hooks)
        self.label_free_scores_ = judge(model, images, self.labels_, hooks)
        self.history_ = list(model.history)
        self.warnings_ = diagnose(model, self.label_free_scores_)
        self._adopt(model)
        for message in self.warnings_.values():
            warnings.warn(message, SelfsortWarning, stacklevel=3)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a model; a fit that fails leaves none."""
        return hasattr(self, "model_")

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The cluster of each image."""
        return self.assign(X).labels

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """How probable each cluster is for each image, (images, cluster)."""
        check_is_fitted(self)
        with self._telling() as hooks:
            return self.model_.assigner.probable(self._images(X, hooks), hooks)

    def score(self, X: Any, y: Any) -> float:
        """The share of the images whose cluster is that of their class `y`, if each class is given
        one cluster (the best of all such ways).
        """
        return score(np.asarray(y), self.predict(X)).accuracy

    def score_samples(self, X: Any) -> NDArray[np.float32]:
        """How clearly each image belongs to its cluster, 0 to 1."""
        return self.assign(X).confidence

    def assign(self, X: Any) -> Assignment:
        """Cluster and confidence of each image, in one pass."""
        check_is_fitted(self)
        with self._telling() as hooks:
            return self.model_.assign(self._images(X, hooks), hooks)

    def unlike(self, X: Any) -> NDArray[np.bool_] | None:
        """Which images are unlike all those of the fit (of those like them one in 20 is marked,
        too); None if the model cannot tell.
        """
        check_is_fitted(self)
        with self._telling() as hooks:
            return self.model_.unlike(self._images(X, hooks), hooks)

    def transform(self, X: Any) -> NDArray[np.float32]:
        """The latent representation F of each image."""
        return self.represent(X).latent

    def transform_batches(self, X: Any) -> Iterator[NDArray[np.float32]]:
        """The same, a batch of images at a time, for more of them than fit into memory."""
        check_is_fitted(self)
        hooks = self._hooks()
        images = self._images(X, hooks)
        return (batch.latent for batch in self.model_.trained.represent_batches(images, hooks))

    def represent(self, X: Any) -> Representation:
        """F and Z of each image."""
        check_is_fitted(self)
        with self._telling() as hooks:
            return self.model_.trained.represent(self._images(X, hooks), hooks)

    def cluster_anew(self, X: Any) -> NDArray[np.int64]:
        """Clusters of these images alone by the network as it is: the paper's protocol."""
        check_is_fitted(self)
        with self._telling() as hooks:
            return cluster_anew(self.model_, self._images(X, hooks), hooks)

    def align(self, reference: NDArray[np.int64]) -> Self:
        """Number the clusters like `reference`, a label for each image (-1: unknown)."""
        check_is_fitted(self, "labels_")
        order = align_clusters(self.labels_, reference, self.model_.n_clusters)
        self.labels_ = np.argsort(order)[self.labels_]
        sizes = np.bincount(self.labels_, minlength=self.model_.n_clusters).tolist()
        self.label_free_scores_ = replace(self.label_free_scores_, cluster_sizes=sizes)
        return self._adopt(self.model_.reorder(order))

    def save(self, path: Path | str) -> Path:
        """Write a `.safetensors` file (in a folder: `model.safetensors`); returns the file."""
        check_is_fitted(self)
        notes = {
            "recipe": self.recipe,
            "image_shape": self.image_shape,
            "n_features_in": getattr(self, "n_features_in_", None),
            "shape_in": list(self.image_shape_) if hasattr(self, "image_shape_") else None,
        }
        return save_model(path, self.model_, notes=notes)

    @classmethod
    def load(cls, path: Path | str, *, device: str = "auto") -> Self:
        """Read what `save` wrote; the result predicts, but has no `labels_` or `history_`."""
        model, notes = load_model_and_notes(path, device=device)
        self = cls(model.n_clusters, device=device, random_state=model.trained.seed)
        self.recipe = notes.get("recipe", DEFAULT_RECIPE)
        self.kind = model.trained.modality.name
        self.image_shape = notes.get("image_shape")
        if shape := notes.get("shape_in"):
            self.image_shape_ = tuple(shape)
        if (n_features := notes.get("n_features_in")) is not None:
            self.n_features_in_ = n_features
        return self._adopt(model)

    def __sklearn_tags__(self) -> Any:
        """F is float32 whatever the images are."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _adopt(self, model: Model) -> Self:
        self.model_: Model = model
        self.n_clusters_ = model.n_clusters
        self.names_ = model.names
        self.agreement_ = model.agreement
        self.training_flops_ = model.training_flops
        self.network_ = model.trained.network
        self._n_features_out = model.config.network.latent_width
        self.config_ = model.config
        self.seed_ = model.trained.seed
        return self

    def _telling(self) -> AbstractContextManager[Hooks]:
        """The hooks of a long step; with `verbose` they also show how far it is."""
        return telling(self._hooks(), self.verbose)

    def _hooks(self) -> Hooks:
        own = build_transforms(self.transforms) if isinstance(self.transforms, Mapping) else None
        folder = Path(self.checkpoint) if self.checkpoint else None
        return Hooks(self.on_progress, self.on_stage, folder, self.device, own)

    def _images(self, X: Any, hooks: Hooks, wanted: Config | None = None) -> ImageSet:
        """X as images; `wanted` is the configuration of a fit, None asks for those of a model."""
        if isinstance(X, ImageSet):
            return X
        is_new = wanted is not None
        given = sort_out(X)
        if not is_new:
            given = one_of(given, getattr(self, "image_shape_", None))
        if getattr(given, "ndim", 4) < 3:
            types = (np.float64, np.float32, np.uint8)
            given = validate_data(
                self, given, reset=is_new, dtype=types, ensure_min_samples=1 + is_new
            )
        return to_images(
            given,
            kind=self.kind,
            image_shape=self.image_shape,
            wanted=self.model_.reading_size if wanted is None else wanted,
            on_stage=hooks.on_stage,
        )
