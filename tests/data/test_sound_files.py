"""Sounds from files, also hostile ones."""

import struct
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile

from selfsort import load_source
from selfsort.data import sound
from selfsort.data.gallery import SoundGallery
from selfsort.data.hearing import MAX_SECONDS, SIDE, hear, mel_bands, spectrogram
from selfsort.data.pictures import as_picture, render_clusters
from selfsort.data.sound import SoundSet, load_sounds
from selfsort.errors import DataError
from sounding import RATE, clip, write_clips


def tone(hertz: float, seconds: float = 0.5, rate: int = RATE) -> np.ndarray:
    time = np.arange(int(seconds * rate)) / rate
    return np.asarray(0.5 * np.sin(2 * np.pi * hertz * time), dtype=np.float32)


def wav(n_bytes: int, rate: int = 8000, channels: int = 1, bits: int = 16) -> bytes:
    """The head of a WAV file, which may say anything."""
    block = channels * bits // 8
    form = struct.pack(
        "<4sIHHIIHH", b"fmt ", 16, 1, channels, rate, rate * block % 2**32, block % 2**16, bits
    )
    body = form + struct.pack("<4sI", b"data", n_bytes)
    return struct.pack("<4sI4s", b"RIFF", (4 + len(body) + n_bytes) % 2**32, b"WAVE") + body


@pytest.mark.parametrize("hertz", [300, 1000, 5000])
def test_a_tone_is_loudest_where_it_belongs_at_every_sampling_rate(hertz: int) -> None:
    for rate in (16_000, 44_100):
        picture = spectrogram(tone(hertz, rate=rate), rate)
        assert picture.shape == (SIDE, SIDE)
        assert picture.min() >= 1
        row = int(picture.mean(axis=1).argmax())
        weights = mel_bands(rate, 4096)[:, SIDE - 1 - row]
        assert abs(np.fft.rfftfreq(4096, 1 / rate)[weights.argmax()] - hertz) < 0.1 * hertz
    low = spectrogram(tone(300, rate=8000), 8000)
    assert (low == 0).any(axis=1).sum() == (mel_bands(8000, 256).sum(axis=0) == 0).sum() > 10


def test_loudness_a_constant_and_silent_ends_change_nothing() -> None:
    samples = clip(0, 0)
    plain = spectrogram(samples, RATE).astype(int)
    assert np.abs(spectrogram(3 * samples, RATE).astype(int) - plain).max() <= 1
    raised = samples + np.float32(0.2)
    assert np.abs(spectrogram(raised, RATE).astype(int) - plain).max() <= 1
    silence = np.zeros(RATE, dtype=np.float32)
    late = spectrogram(np.concatenate([silence, samples, silence]), RATE).astype(int)
    assert np.median(np.abs(late - plain)) < 12
    assert spectrogram(silence, RATE).max() == 1


def test_every_format_reads_the_same_and_a_folder_says_what_it_held(tmp_path: Path) -> None:
    samples = clip(0, 1)
    for ending in (".wav", ".flac", ".ogg", ".mp3", ".opus"):
        kind = {"format": "OGG", "subtype": "OPUS"} if ending == ".opus" else {}
        soundfile.write(tmp_path / f"a{ending}", samples, RATE, **kind)
    stereo = np.stack([samples, samples], axis=1)
    soundfile.write(tmp_path / "stereo.wav", stereo, RATE)
    (tmp_path / "notes.txt").write_text("not a sound")
    found = load_source(str(tmp_path), kind="sounds")
    assert isinstance(found, SoundSet)
    assert found.pixels.shape == (6, 1, SIDE, SIDE)
    spread = np.abs(found.pixels.astype(int) - found.pixels[-1].astype(int))
    assert np.median(spread, axis=(1, 2, 3)).max() < 25
    assert np.array_equal(found.pixels[found.names.index("a.wav")], found.pixels[-1])
    assert "1 sounds have several channels, which are mixed" in found.notes
    assert "ignored: 1 other files" in found.notes
    assert load_source(str(tmp_path / "a.ogg"), kind="sounds").names == ["a.ogg"]
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.write(tmp_path / "a.wav", "in/a.wav")
    assert load_source(str(tmp_path / "b.zip"), kind="sounds").names == ["in/a.wav"]
    assert load_source(str(tmp_path / "*.flac"), kind="sounds").names == ["a.flac"]


def test_sampling_rates_silence_and_very_long_files_are_said(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "low.wav", clip(0, 0, 8000), 8000)
    soundfile.write(tmp_path / "high.flac", clip(0, 0, 48_000), 48_000)
    soundfile.write(tmp_path / "silent.wav", np.zeros(4000), 8000)
    with open(tmp_path / "day.wav", "wb") as file:  # ten hours, of which the disk holds little
        n_bytes = 2 * 8000 * 36_000
        file.write(wav(n_bytes) + (20_000 * tone(500, 1, 8000)).astype("<i2").tobytes())
        file.truncate(44 + n_bytes)
    notes = load_sounds(str(tmp_path)).notes
    assert notes[0].startswith("0.5 to 36,000.0 s")
    assert "what lies above 4,000 Hz is left out, as not all hold it" in notes[1]
    assert f"1 sounds are longer than {MAX_SECONDS} s and only begun; cut" in notes[2]
    assert notes[3] == "1 sounds are silent and have nothing to sort by"


DAMAGED = {
    "empty.wav": (b"", "it is empty"),
    "no-samples.wav": (wav(0), "it holds no sound"),
    "text.wav": (b"this is no sound", "not a WAV, FLAC, OGG or MP3 file"),
    "head.flac": (b"fLaC", "Error|unknown|Format|Unspecified"),
    "head.ogg": (b"OggS" + bytes(60), "Error|unknown|Format|Unspecified"),
    "head.mp3": (b"ID3" + bytes(60), "Error|unknown|Format|Unspecified|no sound"),
    "rate.wav": (wav(100, rate=2**31) + bytes(100), "declares 2,147,483,648 samples|Error"),
    "slow.wav": (wav(100, rate=1) + bytes(100), "declares 1 samples per second"),
    "channels.wav": (wav(100, channels=65535) + bytes(100), "Error|[Cc]hannel"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_named_in_one_line_or_left_out(tmp_path: Path, name: str) -> None:
    content, reason = DAMAGED[name]
    (tmp_path / name).write_bytes(content)
    soundfile.write(tmp_path / "good.wav", clip(0, 0), RATE)
    with pytest.raises(DataError, match=rf"{name}: not a readable sound \(.*({reason})") as caught:
        load_sounds(str(tmp_path))
    assert "\n" not in str(caught.value)
    found = load_sounds(str(tmp_path), skip_broken=True)
    assert found.names == ["good.wav"]
    assert list(found.skipped) == [str(tmp_path / name)]


def test_samples_that_are_no_numbers_and_files_cut_short(tmp_path: Path) -> None:
    samples = clip(0, 0)
    samples[100] = np.nan
    soundfile.write(tmp_path / "nan.wav", samples, RATE, subtype="FLOAT")
    with pytest.raises(OSError, match="NaN or infinity among its samples"):
        hear(tmp_path / "nan.wav")
    for ending in (".wav", ".flac", ".ogg"):
        whole = tmp_path / f"whole{ending}"
        soundfile.write(whole, np.tile(clip(1, 0), 20), RATE)
        cut = tmp_path / f"cut{ending}"
        cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
        with suppress(OSError, RuntimeError):  # libsndfile may read what is there, or refuse
            assert hear(cut).pixels.shape == (SIDE, SIDE, 3)


def test_sources_that_hold_nothing_to_sort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="no sound files in it; it should hold WAV"):
        load_sounds(str(tmp_path))
    soundfile.write(tmp_path / "a.wav", np.zeros(4000), 8000)
    with pytest.raises(DataError, match="every sound is silent"):
        load_sounds(str(tmp_path))
    with pytest.raises(DataError, match="no image files in it but 1 sounds; `kind='sounds'`"):
        load_source(str(tmp_path))
    with pytest.raises(DataError, match="is a sound; to sort sounds use `kind='sounds'`"):
        load_source(str(tmp_path / "a.wav"))
    with pytest.raises(DataError, match="give a folder of WAV"):
        sound.as_sound_set(np.zeros((3, 8000)), None)
    monkeypatch.setattr(sound, "find_spec", lambda name: None)
    with pytest.raises(DataError, match=r"pip install 'selfsort\[sound\]'"):
        load_sounds(str(tmp_path))


def test_a_spectrogram_is_drawn_with_low_tones_below(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "low.wav", tone(200), RATE)
    soundfile.write(tmp_path / "high.wav", tone(6000), RATE)
    found = load_sounds(str(tmp_path), names=["low.wav", "high.wav"])
    rows = [
        int(np.asarray(as_picture(found, index, 64).convert("L")).mean(axis=1).argmax())
        for index in (0, 1)
    ]
    assert rows[0] > 50
    assert rows[1] < 14
    labels = np.array([0, 1])
    assert render_clusters(found, labels, np.ones(2, np.float32), 2).startswith(b"\x89PNG")
    gallery = SoundGallery(tmp_path, [*found.names, "gone.wav"], SIDE)
    assert gallery.sheet([0, 1, 2]).media_type == "image/jpeg"
    assert gallery.large(2) is None
    assert gallery.clip(0) == tmp_path / "low.wav"
    assert len(gallery.images(np.array([1]))) == 1


def test_truth_comes_from_folders(tmp_path: Path) -> None:
    truth = write_clips(tmp_path, 2)
    found = load_sounds(str(tmp_path), truth_from_folders=True)
    assert found.truth is not None
    assert found.truth.tolist() == truth.tolist()
