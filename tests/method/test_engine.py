"""The training loop against a plain implementation, on other devices as far as a CPU can show, and
its use of the machine.
"""

import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor, nn

from engine import tables
from plain import PlainNetwork, plain_loss
from selfsort import SelfSort
from selfsort.cli.main import WAITING, main
from selfsort.config import Config
from selfsort.data.folder import load_images
from selfsort.data.image_set import ImageSet, as_image_set
from selfsort.errors import ConfigError
from selfsort.method.devices import choose_device, prepare_process
from selfsort.method.encoder import Dropout, device_of, place
from selfsort.method.inputs import Inputs
from selfsort.method.network import AcolNetwork, build_network
from selfsort.method.objective import objective
from selfsort.method.preparation import Preparation
from selfsort.method.pseudo import pseudo_batches
from selfsort.method.transforms import DIHEDRAL
from selfsort.settings import JitterConfig
from selfsort.training.pretrain import training_task


class SameMasks(nn.Module):
    """Drops what selfsort drops: its draws go through memory with the channels last."""

    def __init__(self, rate: float, generator: torch.Generator) -> None:
        super().__init__()
        self.dropout = Dropout(rate, generator)

    def forward(self, values: Tensor) -> Tensor:
        ones = torch.ones_like(values)
        kept: Tensor = self.dropout(
            ones.contiguous(memory_format=torch.channels_last) if values.ndim == 4 else ones
        )
        return values * kept


def plain_twin(network: AcolNetwork, channels: int, size: int) -> PlainNetwork:
    """The plain network with the same weights, and with dropout from a generator in the same
    state.
    """
    twin = PlainNetwork(channels, size)
    sources = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    targets = [layer for layer in twin.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    for source, target in zip(sources, targets, strict=True):
        target.load_state_dict(source.state_dict())
    generator = torch.Generator()
    generator.set_state(network.generator.get_state())
    twin.features[5], twin.features[11] = SameMasks(0.2, generator), SameMasks(0.3, generator)
    twin.dropout = SameMasks(0.5, generator)  # type: ignore[assignment]
    return twin


def noise(n_samples: int = 320, channels: int = 1, size: int = 16) -> ImageSet:
    return as_image_set(
        np.random.default_rng(0).integers(
            256, size=(n_samples, channels, size, size), dtype=np.uint8
        )
    )


def test_losses_are_those_of_the_plain_implementation(generator: torch.Generator) -> None:
    images, config = noise(size=8), Config().replace({"training.batch_size": 32})
    network = build_network(config.network, shape=(1, 8, 8), n_parents=8, generator=generator)
    task = training_task(
        network,
        Inputs(images, Preparation(1, 8, 0, 255, "unit")),
        transforms=DIHEDRAL,
        config=config,
        seed=0,
    )
    twin = plain_twin(network, 1, 8)
    optimizer = torch.optim.Adam(twin.parameters())
    ours, plain = [], []
    for batch in islice((batch for epoch in range(5) for batch in task.batches(epoch, 0)), 50):
        loss = task.loss(batch)["loss"]
        task.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        task.optimizer.step()
        ours.append(loss.item())
        loss = plain_loss(twin(batch.images), batch.parents)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        plain.append(loss.item())
    assert len(ours) == 50
    assert ours[-1] < ours[0]
    np.testing.assert_allclose(ours, plain, rtol=1e-3)
    np.testing.assert_allclose(ours[:10], plain[:10], rtol=1e-5)


def test_a_step_makes_no_tensor_on_another_device(generator: torch.Generator) -> None:
    """On the meta device nothing is computed, but whatever is made on the CPU by accident meets a
    meta tensor and fails.
    """
    config = Config().replace(
        {"network.dropout_1": 0.0, "network.dropout_2": 0.0, "network.dropout_latent": 0.0}
    )
    network = build_network(config.network, shape=(1, 16, 16), n_parents=8, generator=generator).to(
        "meta"
    )
    everything = JitterConfig(0.1, 0.1, 0.1, 0.1, 0.1, 0.1, True, 0.1, 0.1, 0.1, 0.5, 0.5)
    batches = pseudo_batches(
        Inputs(noise(64), Preparation(1, 16, 0, 255, "image")),
        jitter_config=everything,
        transforms=DIHEDRAL,
        config=config.training,
        seed=0,
        epoch=0,
        device=device_of(network),
    )
    batch = next(batches)
    terms = objective(network(batch.images), batch.parents, config=config.objective)
    assert {term.device.type for term in terms} == {"meta"}
    terms.loss.backward()  # type: ignore[no-untyped-call]
    assert all(
        parameter.grad is not None and parameter.grad.is_meta for parameter in network.parameters()
    )


def test_dropout_of_other_devices_keeps_the_share_and_the_mean(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tensor, "is_cpu", False)
    dropped = Dropout(0.3, generator)(torch.ones(100_000))
    assert dropped.unique().tolist() == pytest.approx([0, 1 / 0.7])
    assert float(dropped.mean()) == pytest.approx(1, abs=0.02)


def test_placing_a_network_where_it_is_changes_nothing(generator: torch.Generator) -> None:
    network = build_network(Config().network, shape=(1, 8, 8), n_parents=2, generator=generator)
    place(network, "cpu")
    assert network.generator is generator


def test_a_device_that_is_not_there_is_refused_in_one_line(tmp_path: Path) -> None:
    assert choose_device("auto").type in ("cpu", "cuda", "mps")
    for name in (
        "nowhere",
        "meta",
        "hpu",
        "cpu:x",
        "cuda:",
    ):  # torch knows some of them, but nothing can be trained there
        with pytest.raises(ConfigError, match=f"{name!r} should be auto, cpu, cuda"):
            choose_device(name)
    result = CliRunner().invoke(
        main, ["fit", "digits", "--device", "cuda:99", "--out", str(tmp_path / "run")]
    )
    assert result.exit_code == 1
    assert result.output.startswith("Error: device='cuda:99' cannot be used here")
    assert len(result.output.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_threads_follow_what_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(
        joblib, "cpu_count", lambda only_physical_cores: 3
    )  # which knows affinity and quotas of containers
    try:
        assert prepare_process() == 3
        assert prepare_process(2) == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no CPU affinity")
def test_the_command_line_obeys_the_affinity_and_sets_how_threads_wait() -> None:
    code = (
        "import os, sys; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from selfsort.cli.main import main; main(['reproduce', '--list'], standalone_mode=False)\n"
        "assert not {'torch', 'numpy'} & {*sys.modules}\n"
        "assert (os.environ['GOMP_SPINCOUNT'], os.environ['OPENBLAS_NUM_THREADS']) == ('1000', "
        "'1')\n"
        "from selfsort.method.devices import prepare_process; assert prepare_process() == 1"
    )
    plain = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OMP", "GOMP", "KMP", "OPENBLAS"))
    }
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=plain)


def test_the_published_figures_are_those_that_were_measured() -> None:
    folder = Path(__file__).parents[2] / "benchmarks"
    assert (
        tables(json.loads((folder / "engine.json").read_text()))
        in (folder / "RESULTS.md").read_text()
    )


def test_how_threads_wait_is_the_users_choice_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"OMP_WAIT_POLICY": "active", "OPENBLAS_NUM_THREADS": "2"})
    main(["reproduce", "--list"], standalone_mode=False)
    assert os.environ == {"OMP_WAIT_POLICY": "active", "OPENBLAS_NUM_THREADS": "2"}
    monkeypatch.setattr(os, "environ", {"GOMP_SPINCOUNT": "7"})
    main(["reproduce", "--list"], standalone_mode=False)
    assert os.environ == WAITING | {"GOMP_SPINCOUNT": "7"}


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted as Linux does")
def test_reading_a_memory_map_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.npy"
    np.lib.format.open_memmap(path, "w+", np.uint8, (300_000, 28, 28))  # sparse: 235 MB
    images = load_images(path)
    before = _resident_mb()
    for start in range(0, len(images), 4096):
        assert images.read(slice(start, start + 4096)).sum() == 0
    assert images.read(np.arange(0, len(images), 64)).shape == (4688, 1, 28, 28)
    assert _resident_mb() - before < 60


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def test_names_of_arrays_take_no_memory() -> None:
    images = as_image_set(np.zeros((3, 8, 8), dtype=np.uint8))
    assert list(images.names) == ["0", "1", "2"]
    assert images.take(np.array([2, 0])).names == ["2", "0"]
    assert images.names[:2] == ["0", "1"]


def test_more_images_than_k_means_may_see_are_all_assigned() -> None:
    images = noise(300, size=8)
    settings = {
        "network.width": 4,
        "network.latent_width": 32,
        "clustering.max_samples": 100,
        "clustering.n_init": 1,
    }
    sorter = SelfSort(3, recipe="paper", epochs=1, settings=settings).fit(images)
    assert sorter.labels_.shape == (300,)
    assert sum(sorter.label_free_scores_.cluster_sizes) == 300
    assert np.array_equal(sorter.predict(images), sorter.labels_)
    assert np.array_equal(
        np.concatenate(list(sorter.transform_batches(images))), sorter.transform(images)
    )
