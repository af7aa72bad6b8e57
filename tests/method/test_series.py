"""What the method asks of time series."""

import numpy as np
import pytest
import torch

from selfsort.data.image_set import as_image_set
from selfsort.data.series import as_series_set
from selfsort.errors import ConfigError, DataError
from selfsort.method.inputs import Inputs
from selfsort.method.modality import SERIES
from selfsort.method.series import (
    FUNCTIONS,
    SeriesPreparation,
    build_series_encoder,
    get_series_transforms,
    jitter_series,
    standardise,
)
from selfsort.method.series_descriptors import series_describers
from selfsort.method.sources import Learner
from selfsort.method.symmetry import distinct
from selfsort.recipes import resolve_config
from selfsort.settings import JitterConfig, NetworkConfig

MIRRORS = "identity,reversal,inversion,both"


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def decays(n_series: int, seed: int = 0) -> np.ndarray:
    """A sudden rise and a slow fall at a random place: time and sign both have a direction."""
    draw = np.random.default_rng(seed)
    time = np.arange(64)
    start = draw.uniform(8, 30, (n_series, 1))
    after = np.maximum(time - start, 0)
    return (time > start) * np.exp(-after / 10) + 0.05 * draw.normal(size=(n_series, 64))


def test_each_channel_is_prepared_by_itself() -> None:
    values = np.stack([decays(5), 1000 + 50 * decays(5, 1)], axis=1)
    prepared = SeriesPreparation(2, 32)(values)
    assert prepared.shape == (5, 2, 32)
    assert torch.allclose(prepared.mean(dim=2), torch.zeros(5, 2), atol=1e-5)
    assert torch.allclose(prepared.std(dim=2, correction=0), torch.ones(5, 2), atol=1e-4)
    assert standardise(torch.full((1, 1, 16), 1e6)).abs().max() == 0  # not rounding made large


def test_a_model_of_series_refuses_other_things() -> None:
    preparation = SeriesPreparation(2, 32)
    with pytest.raises(DataError, match="series with 1 channels should be series with 2"):
        preparation.for_images(as_series_set(decays(5)))
    with pytest.raises(DataError, match="images with 1 channels should be series"):
        preparation.for_images(as_image_set(np.zeros((2, 8, 8), np.uint8)))


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "identity"])
def test_a_transformation_can_be_undone(name: str) -> None:
    series = torch.randn(3, 4, 37, generator=generator())
    changed = FUNCTIONS[name](series)
    assert not torch.equal(changed, series)
    assert torch.equal(
        changed.abs().flatten(1).sort().values, series.abs().flatten(1).sort().values
    )
    if name in ("reversal", "inversion", "both"):
        assert torch.equal(FUNCTIONS[name](changed), series)


@pytest.mark.parametrize("name", ["dihedral", "identity", "reversal,identity", "identity,identity"])
def test_transformations_that_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="that start with identity"):
        get_series_transforms(name)


def test_a_transformation_that_changes_nothing_to_be_seen_is_left_out() -> None:
    def kept(values: np.ndarray) -> list[str]:
        series = as_series_set(values)
        inputs = Inputs(series, SeriesPreparation(1, 64), SERIES)
        return distinct(inputs, get_series_transforms(MIRRORS), 0)

    draw = np.random.default_rng(0)
    assert kept(decays(200)) == ["identity", "reversal", "inversion", "both"]
    assert kept(draw.normal(size=(200, 64))) == ["identity"]
    signs = draw.choice([-1, 1], (200, 1))
    assert kept(signs * decays(200)) == ["identity", "reversal"]


def test_jitter_changes_little_and_repeats() -> None:
    series = torch.from_numpy(standardise(torch.from_numpy(decays(20)).float()[:, None]).numpy())
    config = resolve_config("standard", kind="series").jitter
    first = jitter_series(series, config, generator(1))
    assert torch.equal(first, jitter_series(series, config, generator(1)))
    assert not torch.equal(first, series)
    alike = torch.nn.functional.cosine_similarity(first[:, 0], series[:, 0])
    assert alike.mean() > 0.7
    assert torch.allclose(jitter_series(series, JitterConfig(), generator()), series)
    blanked = jitter_series(series, JitterConfig(cutout=1.0), generator())
    assert (blanked == 0).any(dim=2).all()


def test_the_encoder_has_the_latent_width() -> None:
    config = NetworkConfig(latent_width=24, batch_norm=True)
    encoder = build_series_encoder(config, shape=(3, 44), generator=generator())
    assert encoder.eval()(torch.zeros(2, 3, 44)).shape == (2, 24)
    torch.manual_seed(1)  # the weights come from the generator, not from torch's own
    again = build_series_encoder(config, shape=(3, 44), generator=generator()).state_dict()
    assert all(torch.equal(values, again[name]) for name, values in encoder.state_dict().items())


@pytest.mark.parametrize(("channels", "length"), [(1, 8), (3, 40), (12, 700)])
def test_describers_take_any_shape_and_a_shift_changes_spectra_little(
    channels: int, length: int
) -> None:
    series = standardise(torch.randn(6, channels, length, generator=generator()))
    said: dict[str, torch.Tensor] = {}
    for name, describer in series_describers(channels, length).items():
        if isinstance(describer, Learner):
            describer.learn(series, generator(len(name)))
        said |= describer(series)
    assert {"curve", "slope", "spectrum", "echo", "convolutions"} <= said.keys()
    assert all(len(values) == 6 and values.isfinite().all() for values in said.values())
    moved = series_describers(channels, length)["spectra"](series.roll(5, dims=2))
    assert torch.allclose(moved["spectrum"], said["spectrum"], atol=1e-3)
