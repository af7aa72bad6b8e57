"""`SoundSet`: sound clips as spectrograms, from a folder of files."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from selfsort.data.decode import Facts
from selfsort.data.folder import OnFile, find_files, read_files
from selfsort.data.hearing import HIGHEST, MAX_SECONDS, SIDE
from selfsort.data.image_set import ImageSet
from selfsort.data.sources import SOUND_FILES, Found, find_listed, list_ignored
from selfsort.data.worker import SOUND
from selfsort.errors import DataError
from selfsort.files import inside


@dataclass(frozen=True)
class SoundSet(ImageSet):
    """Sounds; the field `pixels` holds their spectrograms (n, 1, band, moment), the highest band
    first: 1 for silence to 255 for the loudest point, 0 for what a file cannot hold.
    """

    modality: ClassVar[str] = "sounds"


def load_sounds(
    source: str,
    *,
    truth_from_folders: bool = False,
    skip_broken: bool = False,
    names: Sequence[str] | None = None,
    on_file: OnFile | None = None,
) -> SoundSet:
    """Sounds from a folder, a zip or tar file, a table or a list of paths, a pattern such as
    `a/*.wav`, or one file; `names` are the only files of a folder to read.
    """
    if find_spec("soundfile") is None:
        raise DataError(f"{source}: sounds are read by soundfile: pip install 'selfsort[sound]'")
    with find_files(source, SOUND_FILES) as several:
        found = several or find_listed([Path(source)])
        if names is not None:
            folder = Path(source)
            found = Found([inside(folder, name) for name in names], list(names), folder, {})
        if not found.files:
            there = f" but {list_ignored(found.ignored)}" if found.ignored else ""
            raise DataError(
                f"{source}: no sound files in it{there}; it should hold WAV, FLAC, OGG or MP3."
            )
        whole = read_files(source, found, SIDE, SOUND, skip_broken, on_file)
    whole = whole._replace(pixels=whole.pixels[:, :1].copy())
    n_silent = int((whole.pixels.max(axis=(1, 2, 3)) <= 1).sum())
    if n_silent == len(whole.pixels):
        raise DataError(f"{source}: every sound is silent; there is nothing to sort by.")
    notes = _notes(whole.facts, n_silent)
    return whole.to_set(SoundSet, source, found, notes, truth_from_folders)


def _notes(facts: list[Facts], n_silent: int) -> list[str]:
    """What was done to sounds of these sampling rates (width), lengths in milliseconds (height) and
    channels (pages), told in sentences.
    """
    rates = sorted({fact.width for fact in facts})
    seconds = [fact.height / 1000 for fact in facts]
    ends = dict.fromkeys(f"{length:,.1f}" for length in (min(seconds), max(seconds)))
    notes = [f"{' to '.join(ends)} s → spectrograms of {SIDE} bands, stretched to {SIDE} moments"]
    if rates[0] < min(rates[-1], 2 * HIGHEST):
        notes.append(
            f"sampling rates {rates[0]:,} to {rates[-1]:,} Hz; what lies above {rates[0] // 2:,} "
            "Hz is left out, as not all hold it"
        )
    if n_mixed := sum(fact.n_pages > 1 for fact in facts):
        notes.append(f"{n_mixed:,} sounds have several channels, which are mixed")
    if n_long := sum(length > MAX_SECONDS for length in seconds):
        notes.append(
            f"{n_long:,} sounds are longer than {MAX_SECONDS} s and only begun; cut recordings "
            "into clips to sort all of them"
        )
    if n_silent:
        notes.append(f"{n_silent:,} sounds are silent and have nothing to sort by")
    return notes


def as_sound_set(array: Any, shape: tuple[int, ...] | None) -> SoundSet:
    """Arrays do not say how many samples a second has."""
    raise DataError("sounds are read from files: give a folder of WAV, FLAC, OGG or MP3 files.")
