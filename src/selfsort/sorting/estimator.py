"""`SelfSort`: the scikit-learn face of a `Model`."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from selfsort.clustering.kmeans import Assignment
from selfsort.data.image_set import ImageSet
from selfsort.data.kinds import get_kind
from selfsort.method.encoders import settle_encoder
from selfsort.method.representation import Representation
from selfsort.method.seeds import as_seed
from selfsort.method.transforms import ImageFunction, build_transforms, transforms_name
from selfsort.metrics import align_clusters
from selfsort.recipes import DEFAULT_RECIPE, resolve_config
from selfsort.sorting.diagnosis import judge
from selfsort.sorting.methods import fit_model
from selfsort.sorting.model import Model
from selfsort.sorting.model_file import load_model_and_notes, save_model
from selfsort.sorting.pipeline import cluster_anew
from selfsort.training import Hook, Hooks, StageHook


class SelfSort(TransformerMixin, ClusterMixin, BaseEstimator):  # type: ignore[misc]
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
    random_state : seed; the same seed, precision, machine and threads give the same bits.
    device, checkpoint, on_progress, on_stage : auto, cpu, cuda or mps; the others: see `Hooks`.

    Attributes after `fit`
    ----------------------
    labels_, confidence_ : cluster of each image, and how clear it is; encoder_ : which took part.
    model_ : the fitted `Model`, and its parts n_clusters_, config_, seed_, network_, agreement_
        (the views' graph), history_, training_flops_; label_free_scores_ judge it without truth.

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

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train on images (array, tensor or `ImageSet`) and cluster them; `y` is ignored."""
        self.__dict__.pop("model_", None)
        images = self._images(X, reset=True)
        config = resolve_config(
            self.recipe,
            self.settings,
            epochs=self.epochs,
            method=self.method,
            transforms=transforms_name(self.transforms),
            encoder=self.encoder,
            channels=images.pixels.shape[1],
            kind=images.modality,
        )
        config, self.encoder_ = settle_encoder(config, images)
        hooks = self._hooks()
        seed = as_seed(self.random_state)
        model = fit_model(images, n_clusters=self.n_clusters, config=config, seed=seed, hooks=hooks)
        self.labels_, self.confidence_ = model.assign_fitted(images, hooks)
        self.label_free_scores_ = judge(model, images, self.labels_, hooks)
        self.history_ = list(model.history)
        return self._adopt(model)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a model; a fit that fails leaves none."""
        return hasattr(self, "model_")

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The cluster of each image."""
        return self.assign(X).labels

    def score_samples(self, X: Any) -> NDArray[np.float32]:
        """How clearly each image belongs to its cluster, 0 to 1."""
        return self.assign(X).confidence

    def assign(self, X: Any) -> Assignment:
        """Cluster and confidence of each image, in one pass."""
        check_is_fitted(self)
        return self.model_.assign(self._images(X), self._hooks())

    def transform(self, X: Any) -> NDArray[np.float32]:
        """The latent representation F of each image."""
        return self.represent(X).latent

    def transform_batches(self, X: Any) -> Iterator[NDArray[np.float32]]:
        """The same, a batch of images at a time, for more of them than fit into memory."""
        check_is_fitted(self)
        trained = self.model_.trained
        return (batch.latent for batch in trained.represent_batches(self._images(X), self._hooks()))

    def represent(self, X: Any) -> Representation:
        """F and Z of each image."""
        check_is_fitted(self)
        return self.model_.trained.represent(self._images(X), self._hooks())

    def cluster_anew(self, X: Any) -> NDArray[np.int64]:
        """Clusters of these images alone by the network as it is: the paper's protocol."""
        check_is_fitted(self)
        return cluster_anew(self.model_, self._images(X), self._hooks())

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
        notes = {"recipe": self.recipe, "n_features_in": getattr(self, "n_features_in_", None)}
        return save_model(path, self.model_, notes={**notes, "image_shape": self.image_shape})

    @classmethod
    def load(cls, path: Path | str, *, device: str = "auto") -> Self:
        """Read what `save` wrote; the result predicts, but has no `labels_` or `history_`."""
        model, notes = load_model_and_notes(path, device=device)
        self = cls(model.n_clusters, device=device, random_state=model.trained.seed)
        self.recipe = notes.get("recipe", DEFAULT_RECIPE)
        self.kind = model.trained.modality.name
        self.image_shape = notes.get("image_shape")
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
        self.agreement_ = model.agreement
        self.training_flops_ = model.training_flops
        self.network_ = model.trained.network
        self.config_ = model.config
        self.seed_ = model.trained.seed
        return self

    def _hooks(self) -> Hooks:
        own = build_transforms(self.transforms) if isinstance(self.transforms, Mapping) else None
        folder = Path(self.checkpoint) if self.checkpoint else None
        return Hooks(self.on_progress, self.on_stage, folder, self.device, own)

    def _images(self, X: Any, *, reset: bool = False) -> ImageSet:
        if isinstance(X, ImageSet):
            return X
        from_array = get_kind(self.kind).from_array
        if getattr(X, "ndim", 0) in (3, 4):
            return from_array(X.numpy(force=True) if isinstance(X, torch.Tensor) else X, None)
        types = (np.float64, np.float32, np.uint8)
        rows = validate_data(self, X, reset=reset, dtype=types, ensure_min_samples=1 + reset)
        return from_array(rows, self.image_shape)
