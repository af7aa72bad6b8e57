"""A training that is done once: a folder with its exact state and with the network as it was at
chosen epochs.
"""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from selfsort.clustering.kmeans import Assignment, Clustering, cluster
from selfsort.container import damaged
from selfsort.data.image_set import ImageSet
from selfsort.files import locked, read_file, save_json
from selfsort.method.encoder import device_of
from selfsort.method.network import AcolNetwork, Activations
from selfsort.method.representation import Representation
from selfsort.metrics import Scores, score
from selfsort.runs.limits import MAX_JSON_BYTES
from selfsort.sorting.trained import TrainedNetwork
from selfsort.training.checkpoint import load_tensors, load_weights, save_tensors
from selfsort.training.hooks import Hooks
from selfsort.training.loop import Progress

SNAPSHOT = "snapshot"


class Trained:
    """A training and what follows from it: the network, F and Z of the scored images and their
    clusters at each milestone.
    """

    def __init__(
        self,
        folder: Path,
        trained: TrainedNetwork,
        hooks: Hooks,
        scored: ImageSet,
        epochs: Sequence[int],
    ) -> None:
        self.folder = folder
        self.trained = trained
        self.hooks = hooks
        self.scored = scored
        self.epochs = epochs
        self._represented: tuple[int, Representation] | None = None

    def train(self, images: ImageSet) -> None:
        """Train, or go on, and keep the network at each milestone; nothing is done if it is
        finished.
        """

        def keep(progress: Progress) -> bool | None:
            if progress.step == progress.n_steps and progress.record.epoch in self.epochs:
                self._keep(progress.record.epoch)
            return self.hooks.progress(progress)

        is_finished = self._file(self.epochs[-1]).exists()
        with nullcontext() if is_finished else locked(self.folder):  # many may look at it then
            self.trained.train(images, replace(self.hooks, on_progress=keep))
            if not self._file(self.epochs[-1]).exists():
                self._keep(self.epochs[-1])

    def network(self, epoch: int) -> AcolNetwork:
        """The network as it was after `epoch`."""
        path = self._file(epoch)
        network = self.trained.network
        tensors, values = load_tensors(path, kind=SNAPSHOT)
        if values.get("epoch") != epoch:
            raise damaged(path, ValueError("it is of another epoch"))
        load_weights(
            path,
            network,
            {f"network.{name}": tensor for name, tensor in tensors.items()},
            "network",
        )
        network.eval()
        return network

    def represent(self, epoch: int) -> Representation:
        """F and Z of the scored images, untransformed, after `epoch`; the last answer is kept."""
        if self._represented is None or self._represented[0] != epoch:
            self.network(epoch)
            self._represented = epoch, self.trained.represent(self.scored, self.hooks)
        return self._represented[1]

    def transformed(self, epoch: int, images: ImageSet, parents: Tensor) -> Activations:
        """What the network said after `epoch` of images under the transformations of these
        parents.
        """
        network = self.network(epoch)
        transforms = self.trained.transforms
        assert transforms is not None, "it was trained here"
        prepared = self.trained.inputs(images).read(slice(None), device_of(network))
        with torch.inference_mode():
            return Activations(
                *(values.cpu() for values in network(transforms.apply(prepared, parents)))
            )

    def clusters(self, epoch: int, n_clusters: int, space: str = "latent") -> Assignment:
        """k-means on the scored images alone, in one space."""
        points = self.represent(epoch).space(space)
        return self.fit_clusters(points, n_clusters).assign(points)

    def fit_clusters(self, points: NDArray[np.float32], n_clusters: int) -> Clustering:
        """k-means as the recipe has it."""
        return cluster(
            points,
            n_clusters,
            n_init=self.trained.config.clustering.n_init,
            seed=self.trained.seed,
            on_start=self.hooks.stage("k-means"),
        )

    def score(self, epoch: int, space: str = "latent") -> Scores:
        """Scores of k-means after `epoch`, with as many clusters as there are classes; computed
        once.
        """
        path, key = self.folder / "scores.json", f"{epoch} {space}"
        known = _load_scores(path)
        if key not in known:
            labels = self.clusters(epoch, len(self.scored.truth_names), space).labels
            known = _load_scores(path) | {key: asdict(score(self.scored.truth, labels))}  # type: ignore[arg-type]
            save_json(path, known)  # with what another process has added meanwhile
        return Scores(**known[key])

    def curve(self) -> list[dict[str, float]]:
        """Accuracy and purity at each milestone."""
        points = []
        tell = self.hooks.stage("scoring epochs")
        for number, epoch in enumerate(self.epochs, start=1):
            scores = self.score(epoch)
            points.append({"epoch": epoch, "accuracy": scores.accuracy, "purity": scores.purity})
            if tell:
                tell(number, len(self.epochs))
        return points

    def _file(self, epoch: int) -> Path:
        return self.folder / f"epoch-{epoch:04}.safetensors"

    def _keep(self, epoch: int) -> None:
        weights = self.trained.network.state_dict()
        save_tensors(self._file(epoch), weights, {"epoch": epoch}, kind=SNAPSHOT)


def _load_scores(path: Path) -> dict[str, dict[str, float]]:
    """Scores that were computed before; what cannot be read is computed again."""
    try:
        known: dict[str, dict[str, float]] = json.loads(read_file(path, limit=MAX_JSON_BYTES))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}
