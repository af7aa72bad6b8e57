"""GAR as published (Kilinc & Uysal, 2017): a network whose nodes are the classes learns the few
labels first, and then the graph terms on all images beside them.

    L(Y, labels)                                               for the first epochs
    L(Y, labels) + c_α α(B) + c_β (1 − β(B)) + c_F ‖B‖²        for the others

B are the positive activities of the nodes for images with and without a label.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from selfsort.clustering.kmeans import Assignment
from selfsort.config import Config
from selfsort.data.image_set import ImageSet
from selfsort.errors import ConfigError
from selfsort.method.encoder import device_of
from selfsort.method.gar import gar_terms
from selfsort.method.pseudo import n_batches
from selfsort.method.seeds import derive_generator
from selfsort.sorting.assigners import ASSIGNERS, Order
from selfsort.sorting.by_teaching import keep_known
from selfsort.sorting.model import Model
from selfsort.sorting.refine import Known
from selfsort.sorting.trained import TrainedNetwork, start_network
from selfsort.training.hooks import Hooks
from selfsort.training.loop import Task, run_loop
from selfsort.training.pretrain import STAGE, learning_rate, n_epochs

SUPERVISED = 0.1
"""Share of the epochs that learn the labels alone."""

LABELLED = 100
"""Labelled images in each batch, at most."""


class GarBatch(NamedTuple):
    """Images of which the first have labels; `is_alone`: only these count."""

    images: Tensor
    labels: Tensor
    is_alone: bool


@dataclass(frozen=True)
class Nodes:
    """The node of the network that is most active; `order[i]` is the node of cluster i."""

    trained: TrainedNetwork
    order: NDArray[np.int64]
    kind: ClassVar[str] = "nodes"

    @property
    def n_clusters(self) -> int:
        """How many nodes there are."""
        return len(self.order)

    def assign(self, images: ImageSet, hooks: Hooks) -> Assignment:
        """The most probable class of each image."""
        probable = self.probable(images, hooks)
        return Assignment(probable.argmax(axis=1), probable.max(axis=1))

    def probable(self, images: ImageSet, hooks: Hooks) -> NDArray[np.float32]:
        """The softmax of the nodes."""
        batches = self.trained.represent_batches(images, hooks)
        return np.concatenate([batch.space("softmax") for batch in batches])[:, self.order]

    def reorder(self, order: Order) -> Self:
        """The nodes in this order."""
        return replace(self, order=self.order[order])

    def tensors(self) -> dict[str, Tensor]:
        """The order; the rest is the network's."""
        return {"nodes.order": torch.from_numpy(self.order)}

    @classmethod
    def load(
        cls, file: Path, tensors: Mapping[str, Tensor], trained: TrainedNetwork, n_clusters: int
    ) -> Self:
        """An order of all nodes."""
        order = tensors["nodes.order"].numpy()
        if sorted(order.tolist()) != list(range(trained.config.network.n_duplicates)):
            raise ValueError("its order of nodes is none")
        return cls(trained, order)


ASSIGNERS[Nodes.kind] = Nodes


def fit_gar(
    images: ImageSet, *, n_clusters: int | None, config: Config, seed: int, hooks: Hooks
) -> Model:
    """The method `gar`: labels are needed, and the number of clusters."""
    taught = images.taught
    if taught is None or not len(taught.anchors) or n_clusters is None:
        raise ConfigError(
            "method='gar' needs labels of some images (`labels`) and a number of clusters; "
            "recipe standard needs neither."
        )
    config = config.replace({"network.n_duplicates": n_clusters, "transforms": "none"})
    trained = start_network(images, config=config, seed=seed, hooks=hooks)
    task = gar_task(trained, images)
    history = run_loop(task, on_progress=hooks.progress, checkpoint=hooks.checkpoint(STAGE))
    trained.network.eval()
    assigner = Nodes(trained, np.arange(n_clusters))
    allowed = np.ones((len(images), n_clusters), dtype=bool)
    allowed[taught.anchors] = np.eye(n_clusters, dtype=bool)[taught.classes[taught.anchors]]
    assignment = keep_known(assigner.assign(images, hooks), Known(allowed, taught.anchors))
    return Model(
        trained,
        assigner,
        n_clusters,
        assignment=assignment,
        history=tuple(history),
        training_flops=trained.training_flops(len(images) * len(history)),
        names=(*taught.names, *[""] * (n_clusters - len(taught.names))),
    )


def gar_task(trained: TrainedNetwork, images: ImageSet) -> Task:
    """What the loop needs: in each step some labelled images and a part of all others."""
    assert images.taught is not None, "checked before"
    config = trained.config
    network = trained.network
    inputs = trained.inputs(images)
    seed = trained.seed
    device = device_of(network)
    anchors = torch.from_numpy(images.taught.anchors)
    classes = torch.from_numpy(images.taught.classes)
    others = torch.from_numpy(np.flatnonzero(images.taught.classes < 0))
    count = n_batches(len(others), config.training)
    epochs = n_epochs(config.training, len(others))
    n_alone = max(1, round(SUPERVISED * epochs))

    def batches(epoch: int, start: int) -> Iterator[GarBatch]:
        network.train()
        draw = derive_generator("gar order", seed, epoch)
        parts = others[torch.randperm(len(others), generator=draw)].tensor_split(count)
        for step in range(count):
            pick = derive_generator("gar labels", seed, epoch, step)
            own = anchors[torch.randperm(len(anchors), generator=pick)[:LABELLED]]
            is_alone = epoch < n_alone
            rows = own if is_alone else torch.cat([own, parts[step]])
            if step >= start:
                seen = inputs.view(rows.numpy(), device, config=config.jitter, generator=pick)
                yield GarBatch(seen, classes[own].to(device), is_alone)

    def loss(batch: GarBatch) -> dict[str, Tensor]:
        logits = network(batch.images).logits
        own = logits[: len(batch.labels), 0]
        told = functional.cross_entropy(own, batch.labels)
        terms = gar_terms(logits, modified=False, bound_all=config.objective.frobenius == "all")
        weights = config.objective
        graph = (
            weights.affinity_weight * terms.affinity
            + weights.balance_weight * (1 - terms.balance)
            + weights.frobenius_weight * terms.frobenius
        )
        met = (own.detach().argmax(dim=1) == batch.labels).float().mean()
        return {
            "loss": told if batch.is_alone else told + graph,
            "classification": told,
            **terms._asdict(),
            "pseudo_accuracy": met,
        }

    return Task(
        stage=STAGE,
        module=network,
        optimizer=torch.optim.Adam(network.parameters(), fused=True),
        generator=network.generator,
        n_epochs=epochs,
        n_steps=count,
        batches=batches,
        loss=loss,
        learning_rate=partial(learning_rate, config.training),
        job={
            "config": config.to_dict(),
            "seed": seed,
            "device": device.type,
            "images": [len(images), inputs.images.fingerprint()],
            "labels": images.taught.classes[images.taught.anchors].tolist(),
        },
    )
