"""`Model`: what a fit gives; it assigns images to clusters, and needs no scikit-learn."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from selfsort.clustering.fusion import Fusion
from selfsort.clustering.kmeans import Assignment
from selfsort.clustering.views import Agreement
from selfsort.config import Config
from selfsort.data.image_set import ImageSet
from selfsort.sorting.assigners import Assigner, Order
from selfsort.sorting.familiarity import Familiarity
from selfsort.sorting.trained import TrainedNetwork
from selfsort.training.hooks import Hooks
from selfsort.training.loop import EpochRecord


@dataclass(frozen=True)
class Model:
    """A trained network and what assigns images to clusters.

    `asked` is the number of clusters asked for (None: as many as the images show), `agreement` the
    clusters of the views' graph, if there was one, `fusion` those of all sources, `assignment` what
    the images of the fit were given, if the fit had to know. A loaded model has none of them, and
    no history. `familiarity` tells images that are unlike those of the fit; `names` are what
    clusters are called whose class or parent is known.
    """

    trained: TrainedNetwork
    assigner: Assigner
    asked: int | None
    agreement: Agreement | None = None
    fusion: Fusion | None = None
    assignment: Assignment | None = None
    familiarity: Familiarity | None = None
    history: tuple[EpochRecord, ...] = ()
    training_flops: int = 0
    names: tuple[str, ...] = ()

    @property
    def config(self) -> Config:
        """The configuration that it was fitted with."""
        return self.trained.config

    @property
    def n_clusters(self) -> int:
        """How many clusters there are."""
        return self.assigner.n_clusters

    @property
    def reading_size(self) -> int:
        """The side at which image files should be read, so that all detail is there."""
        own = self.trained.preparations.refinement.size
        seen = self.familiarity.preparation.size if self.familiarity else 0
        return max(own, seen, getattr(self.assigner, "size", 0))

    def assign(self, images: ImageSet, hooks: Hooks | None = None) -> Assignment:
        """Cluster and confidence of each image."""
        return self.assigner.assign(images, hooks or Hooks())

    def assign_fitted(self, images: ImageSet, hooks: Hooks | None = None) -> Assignment:
        """The same of the images that it was fitted on, which may be known already."""
        return self.assignment or self.assign(images, hooks)

    def unlike(self, images: ImageSet, hooks: Hooks | None = None) -> NDArray[np.bool_] | None:
        """Which images are unlike all that it was fitted on; None if the model cannot tell."""
        return self.familiarity.unlike(images, hooks or Hooks()) if self.familiarity else None

    def reorder(self, order: Order) -> "Model":
        """The same with other numbers: what was cluster `order[i]` is now i."""
        names = tuple(self.names[one] for one in order) if self.names else ()
        return replace(self, assigner=self.assigner.reorder(order), assignment=None, names=names)
