"""16 bits or 32: where they are used, that they are kept, and that results repeat with them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from conftest import SMALL
from selfsort import SelfSort
from selfsort.cli.main import main
from selfsort.config import Config
from selfsort.data.image_set import as_image_set
from selfsort.errors import ConfigError, ModelFileError, TrainingStopped
from selfsort.method.devices import choose_precision, has_bfloat16
from selfsort.method.network import build_network
from selfsort.method.objective import objective
from selfsort.recipes import RECIPES
from selfsort.sorting.model_file import load_model, save_model
from selfsort.training.checkpoint import load_tensors, save_tensors

CPU = torch.device("cpu")


def pretend(monkeypatch: pytest.MonkeyPatch, **capabilities: bool) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)


@pytest.fixture
def bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU that is said to be fast with 16 bits; torch can compute with them on any."""
    pretend(monkeypatch, avx512_bf16=True)


def small(precision: int | str, **options: object) -> SelfSort:
    settings = {**SMALL, "precision": precision}
    return SelfSort(5, **{"recipe": "paper", "epochs": 2, "settings": settings, **options})  # type: ignore[arg-type]


def short(precision: int, **changes: object) -> SelfSort:
    """The recipe `standard`, which trains, looks at views, and refines or reclusters."""
    settings = {"training.min_steps": 4, "training.min_images": 0, "refinement.steps": 4}
    settings |= {"network.width": 4, "network.latent_width": 32, "recluster.min_steps": 2}
    return SelfSort(5, settings={**settings, "precision": precision, **changes})


def test_auto_takes_16_bits_where_they_are_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    for capabilities, expected in (
        ({"avx512_bf16": True}, 16),
        ({"amx_bf16": True}, 16),
        ({"avx512_f": True, "avx512_bf16": False}, 32),
        ({}, 32),
    ):
        pretend(monkeypatch, **capabilities)
        assert choose_precision("auto", CPU) == expected
        assert choose_precision(16, CPU) == 16
        assert choose_precision(32, CPU) == 32
    monkeypatch.delattr(torch.cpu, "get_capabilities")  # as in older versions of torch
    assert not has_bfloat16(CPU)


@pytest.mark.parametrize("value", [8, "16", "half", 16.0, None, True])
def test_another_precision_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=f"precision={value!r} should be"):
        Config().replace({"precision": value})


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_leaves_the_choice_to_the_machine(recipe: str) -> None:
    assert RECIPES[recipe].precision == "auto"


def test_with_16_bits_the_loss_and_the_weights_stay_in_32(generator: torch.Generator) -> None:
    sizes = {"shape": (1, 8, 8), "n_parents": 8, "generator": generator}
    network = build_network(Config().network, **sizes, precision=16)  # type: ignore[arg-type]
    parents = torch.arange(16) % 8
    activations = network(torch.rand(16, 1, 8, 8))
    terms = objective(activations, parents, config=Config().objective)
    assert activations.latent.dtype == torch.bfloat16
    assert {term.dtype for term in terms} == {torch.float32}
    terms.loss.backward()  # type: ignore[no-untyped-call]
    for parameter in network.parameters():
        assert parameter.dtype == torch.float32
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
    plain = build_network(Config().network, **sizes)  # type: ignore[arg-type]
    assert plain(torch.rand(2, 1, 8, 8)).latent.dtype == torch.float32


@pytest.mark.parametrize(
    "changes",
    [
        {"recluster.factor": 0, "sources.max_images": 0},
        {"recluster.factor": 2, "sources.max_images": 0},
        {},
    ],
    ids=["refined", "reclustered", "sources"],
)
def test_predict_agrees_with_fit_also_from_a_file(
    digits: np.ndarray, tmp_path: Path, bfloat16: None, changes: dict[str, object]
) -> None:
    sorter = short(16, **changes).fit(digits[:300])
    loaded = SelfSort.load(sorter.save(tmp_path))
    assert loaded.config_.precision == sorter.config_.precision == 16
    for one in (sorter, loaded):
        labels, confidence = one.assign(digits[:300])
        assert (labels == sorter.labels_).all()
        assert (confidence == sorter.confidence_).all()
        assert one.transform(digits[:5]).dtype == np.float32
    exact = short(32, **changes).fit(digits[:300])
    assert (exact.transform(digits[:5]) != sorter.transform(digits[:5])).any()


def test_same_seed_same_result_with_16_bits(digits: np.ndarray) -> None:
    first = small(16).fit(digits[:200])
    again = small(16).fit(digits[:200])
    assert (first.confidence_ == again.confidence_).all()
    assert (first.confidence_ != small(32).fit(digits[:200]).confidence_).any()


def test_a_model_of_16_bits_is_used_with_32_where_16_are_slow(
    digits: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sorter = small(16).fit(digits[:200])
    file = sorter.save(tmp_path)
    pretend(monkeypatch)
    loaded = SelfSort.load(file)
    assert loaded.config_.precision == loaded.network_.precision == 32
    np.testing.assert_allclose(
        loaded.transform(digits[:50]), sorter.transform(digits[:50]), rtol=0.05, atol=0.02
    )


def test_a_model_from_before_the_setting_is_used_with_32_bits(
    digits: np.ndarray, tmp_path: Path, bfloat16: None
) -> None:
    sorter = small(32).fit(digits[:200])
    tensors, values = load_tensors(save_model(tmp_path, sorter.model_), kind="model")
    del values["config"]["precision"]
    for name in ("kind", "format"):
        values.pop(name, None)
    save_tensors(tmp_path / "old.safetensors", tensors, values, kind="model")
    model = load_model(tmp_path / "old.safetensors")
    assert model.config.precision == 32
    loaded = model.assign(as_image_set(digits[:200]))
    assert (loaded.labels == sorter.labels_).all()


def test_a_checkpoint_of_another_precision_is_refused_in_one_line(
    digits: np.ndarray, tmp_path: Path
) -> None:
    steps: list[object] = []

    def stop(progress: object) -> bool:
        steps.append(progress)
        return len(steps) == 3

    with pytest.raises(TrainingStopped):
        small(16, checkpoint=tmp_path, on_progress=stop).fit(digits[:200])
    with pytest.raises(ModelFileError, match="another precision") as refused:
        small(32, checkpoint=tmp_path).fit(digits[:200])
    assert "\n" not in str(refused.value)
    resumed = small(16, checkpoint=tmp_path).fit(digits[:200])
    assert (resumed.confidence_ == small(16).fit(digits[:200]).confidence_).all()


def test_a_checkpoint_from_before_the_setting_counts_as_32_bits(
    digits: np.ndarray, tmp_path: Path
) -> None:
    expected = small(32, checkpoint=tmp_path).fit(digits[:200])
    (file,) = tmp_path.glob("*.safetensors")
    tensors, values = load_tensors(file, kind="checkpoint")
    del values["progress"]["job"]["precision"]
    save_tensors(file, tensors, {"progress": values["progress"]}, kind="checkpoint")
    again = small(32, checkpoint=tmp_path).fit(digits[:200])
    assert (again.confidence_ == expected.confidence_).all()
    with pytest.raises(ModelFileError, match="another precision"):
        small(16, checkpoint=tmp_path).fit(digits[:200])


@pytest.mark.parametrize(
    ("options", "expected"), [([], 16), (["--precision", "auto"], 16), (["--precision", "32"], 32)]
)
def test_a_run_says_and_records_its_precision(
    tmp_path: Path, bfloat16: None, options: list[str], expected: int
) -> None:
    tiny = ["--recipe", "paper", "--epochs", "1", "--threads", "1", "--no-report"]
    tiny += [f"--set={name}={value}" for name, value in SMALL.items()]
    result = CliRunner().invoke(
        main, ["fit", "digits", "--out", str(tmp_path / "run"), *tiny, *options]
    )
    assert result.exit_code == 0, result.output
    assert f"1 threads, {expected} bits" in result.output
    config = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert config["precision"] == expected
    assert replace(Config.from_dict(config), precision=32).precision == 32


def test_resume_takes_no_other_precision(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["fit", "--resume", str(tmp_path), "--precision", "16"])
    assert result.exit_code == 2
    assert "--resume takes no precision" in result.output
