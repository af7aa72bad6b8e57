"""Sounds sorted, kept, loaded, predicted and shown; and exact resume of what is no image."""

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from selfsort import DataError, SelfSort, load_run, load_source, score
from selfsort.cli.main import main
from selfsort.data.sound import SoundSet, load_sounds
from selfsort.errors import TrainingStopped
from selfsort.method.inputs import Inputs
from selfsort.method.modality import SOUNDS
from selfsort.method.series import choose_transforms
from selfsort.method.sound import FUNCTIONS, SoundPreparation, common_bands, jitter_sound
from selfsort.method.symmetry import distinct
from selfsort.recipes import resolve_config
from selfsort.settings import JitterConfig
from selfsort.workflow.fit import resume_folder, sort_folder
from selfsort.workflow.images import Callbacks
from sounding import write_clips

QUICK = {"training.min_steps": 6, "training.min_images": 0, "network.width": 4}


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clips")
    write_clips(folder, 15)
    return folder


@pytest.fixture(scope="module")
def sounds(clips: Path) -> SoundSet:
    return load_sounds(str(clips), truth_from_folders=True)


@pytest.fixture(scope="module")
def fitted(sounds: SoundSet) -> SelfSort:
    return SelfSort(3, settings=QUICK).fit(sounds)


def test_three_kinds_of_sound_are_told_apart_and_new_ones_predicted(
    fitted: SelfSort, sounds: SoundSet, tmp_path: Path
) -> None:
    assert sounds.truth is not None
    assert score(sounds.truth, fitted.labels_).accuracy > 0.95
    truth = write_clips(tmp_path / "new", 4, first=100)
    new = load_source(str(tmp_path / "new"), kind="sounds")
    predicted = fitted.predict(new)
    assert score(truth, predicted).accuracy > 0.9
    loaded = SelfSort.load(fitted.save(tmp_path))
    assert loaded.kind == "sounds"
    assert np.array_equal(loaded.predict(str(tmp_path / "new")), predicted)
    assert np.array_equal(loaded.predict(new.take(np.array([3]))), predicted[3:4])
    with pytest.raises(DataError, match="images should be sounds"):
        loaded.model_.trained.inputs(load_source("digits"))


def test_auto_counts_the_kinds(sounds: SoundSet) -> None:
    found = SelfSort("auto", settings=QUICK).fit(sounds)
    assert 2 <= found.n_clusters_ <= 6


def test_bands_that_not_all_clips_hold_are_left_out_and_others_filled(sounds: SoundSet) -> None:
    pixels = sounds.pixels[:4].copy()
    pixels[1, 0, :16] = 0
    assert common_bands(SoundSet(pixels, 0, 255, list("abcd"))) == 48
    prepared = SoundPreparation(32, 48, normalise=False)(pixels)
    assert prepared.shape == (4, 1, 32, 32)
    assert torch.equal(prepared[0], SoundPreparation(32, 48, False)(pixels[:1])[0])
    filled = SoundPreparation(64, 64, normalise=False)(pixels)[1, 0]
    assert torch.allclose(filled[:16], filled[16:].mean(), atol=1e-5)
    assert filled[16:].std() > 0.01
    even = SoundPreparation(32, 64)(pixels)
    assert torch.allclose(even.mean(dim=(1, 2, 3)), torch.zeros(4), atol=1e-5)


def test_jitter_changes_little_and_repeats(sounds: SoundSet) -> None:
    seen = SoundPreparation(32, 64)(sounds.pixels[::3])
    config = resolve_config("standard", kind="sounds").jitter
    first = jitter_sound(seen, config, torch.Generator().manual_seed(1))
    assert torch.equal(first, jitter_sound(seen, config, torch.Generator().manual_seed(1)))
    alike = torch.nn.functional.cosine_similarity(first.flatten(1), seen.flatten(1))
    assert 0.6 < alike.mean() < 0.999
    assert torch.allclose(jitter_sound(seen, JitterConfig(), torch.Generator()), seen, atol=1e-4)


@pytest.mark.parametrize("name", ["reversal", "upturn", "both"])
def test_flips_undo_themselves(name: str) -> None:
    seen = torch.randn(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert not torch.equal(FUNCTIONS[name](seen), seen)
    assert torch.equal(FUNCTIONS[name](FUNCTIONS[name](seen)), seen)


def test_noise_that_sounds_the_same_backwards_is_not_asked_about(sounds: SoundSet) -> None:
    draw = np.random.default_rng(1)
    height = np.arange(64)[:, None]
    pixels = 100 + height + 10 * draw.normal(size=(120, 1, 64, 64))  # steady noise with a tilt
    hiss = SoundSet(pixels.astype(np.uint8), 0, 255, [str(row) for row in range(120)])
    asked = choose_transforms(FUNCTIONS, "identity,reversal,upturn,both")
    assert distinct(Inputs(hiss, SoundPreparation(32, 64), SOUNDS), asked, 0) == [
        "identity",
        "upturn",
    ]
    kept = distinct(Inputs(sounds, SoundPreparation(32, 64), SOUNDS), asked, 0)
    assert "upturn" in kept


def test_commands_from_fit_to_report_and_export(clips: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def run(*arguments: object) -> str:
        result = CliRunner().invoke(main, [str(one) for one in arguments])
        assert result.exit_code == 0, result.output
        return result.output

    quick = [part for name, value in QUICK.items() for part in ("--set", f"{name}={value}")]
    run("fit", clips, "--kind", "sounds", "-k", 3, "--folder-truth", "--out", out, *quick)
    record, assignments = load_run(out)
    assert record.image_shape == [1, 64, 64]
    assert assignments.truth is not None
    page = (out / "report.html").read_text()
    assert page.count('class="together"') == 3
    run("predict", out, clips, "--out", tmp_path / "new.csv", "--copy-to", tmp_path / "copies")
    assert len(list((tmp_path / "copies").rglob("*.flac"))) == 15
    run("export", out, "folders", "--to", tmp_path / "exported")
    assert len(list((tmp_path / "exported").rglob("*.ogg"))) == 15


@pytest.mark.parametrize("kind", ["series", "sounds"])
def test_an_interrupted_fit_resumes_exactly(kind: str, clips: Path, tmp_path: Path) -> None:
    source = clips
    if kind == "series":
        source = tmp_path / "waves.npy"
        draw = np.random.default_rng(0)
        np.save(source, np.cumsum(draw.normal(size=(40, 50)), axis=1))

    def fit(out: Path, callbacks: Callbacks | None = None) -> None:
        sort_folder(
            source,
            out=out,
            kind=kind,
            n_clusters=3,
            settings=QUICK | {"training.min_steps": 0, "training.epochs": 4},
            report=False,
            threads=1,
            callbacks=callbacks,
        )

    fit(tmp_path / "whole")
    stop = Callbacks(on_progress=lambda progress: progress.record.epoch >= 2)
    with pytest.raises(TrainingStopped):
        fit(tmp_path / "halves", stop)
    resume_folder(tmp_path / "halves")
    for name in ("model.safetensors", "assignments.csv", "clusters.png"):
        first, second = ((tmp_path / part / name).read_bytes() for part in ("whole", "halves"))
        assert first == second, name
