"""Spoken words, synthetic: made by espeak-ng, sorted by selfsort, and predicted for a speaker that
was left out.

    apt-get install espeak-ng
    python benchmarks/words.py make words/             (ten words, 20 voices, five times each)
    python benchmarks/words.py sort words/ benchmarks/words.jsonl [--seeds 0,1,2] [--left-out …]

`sort` takes any folder of WORD/VOICE-NUMBER.wav with ten words. The voices of espeak-ng are those
of one program: they differ in timbre, and speed and pitch are drawn anew for each clip, but nobody
coughs, no room sounds, and all speak alike. Real recordings are harder.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import soundfile

from selfsort import SelfSort, load_source, score
from selfsort.data.image_set import ImageSet
from selfsort.method.devices import prepare_process

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
VOICES = (
    *(f"m{number}" for number in range(1, 9)),
    *(f"f{number}" for number in range(1, 6)),
    *("Alex", "Andy", "Annie", "Denis", "Michael", "belinda", "linda"),
)
ACCENTS = ("en", "en-us")
TIMES = 5
SPEEDS = (120, 200)
PITCHES = (25, 75)
FORMATS = ("wav", "flac", "ogg")
LEFT_OUT = ("m3", "f2", "linda")
"""Voices that are left out, one at a time, and predicted."""


def make(folder: Path) -> None:
    """Write folder/WORD/VOICE-TIME.EXT; the same numbers are drawn every time."""
    draw = np.random.default_rng(0)
    for voice in VOICES:
        for word in WORDS:
            for time in range(TIMES):
                speed, pitch = (int(draw.integers(*ends)) for ends in (SPEEDS, PITCHES))
                kind = FORMATS[draw.integers(len(FORMATS))]
                target = folder / word / f"{voice}-{time}.{kind}"
                target.parent.mkdir(parents=True, exist_ok=True)
                speak(word, voice, speed, pitch, target)
    print(f"{len(VOICES) * len(WORDS) * TIMES:,} clips in {folder}")


def speak(word: str, voice: str, speed: int, pitch: int, target: Path) -> None:
    """Have espeak-ng say a word."""
    with tempfile.NamedTemporaryFile(suffix=".wav") as spoken:
        accent = ACCENTS[VOICES.index(voice) % len(ACCENTS)]
        how = ["-v", f"{accent}+{voice}", "-s", str(speed), "-p", str(pitch)]
        subprocess.run(["espeak-ng", *how, "-w", spoken.name, word], check=True)
        soundfile.write(target, *soundfile.read(spoken.name))


def voice_of(name: str) -> str:
    return Path(name).stem.rpartition("-")[0]


def sort(folder: Path, out: Path, seeds: list[int], left_out: list[str]) -> None:
    """Sort all clips, then all but those of one voice, and predict these; a line for each. What is
    in the file already is not done again.
    """
    lines = out.read_text().splitlines() if out.exists() else []
    done = {(found["seed"], found["left_out"]) for found in map(json.loads, lines)}
    sounds = load_source(str(folder), kind="sounds", truth_from_folders=True)
    voices = np.array([voice_of(name) for name in sounds.names])
    for seed in seeds:
        for voice in ("", *left_out):
            if (seed, voice) not in done:
                report(out, seed, voice, measure(sounds, voices != voice, seed))


def measure(sounds: ImageSet, is_fitted: np.ndarray, seed: int) -> dict[str, float]:
    """Scores of the fitted clips, and of the others, whose clusters mean the words that they mean
    among the fitted.
    """
    assert sounds.truth is not None
    fitted = sounds.take(np.flatnonzero(is_fitted))
    sorter = SelfSort(len(WORDS), random_state=seed).fit(fitted)
    scores = score(sounds.truth[is_fitted], sorter.labels_)
    found = {"accuracy": scores.accuracy, "nmi": scores.nmi, "ari": scores.ari}
    if not is_fitted.all():
        sorter.align(sounds.truth[is_fitted])
        predicted = sorter.predict(sounds.take(np.flatnonzero(~is_fitted)))
        found["predicted"] = float((predicted == sounds.truth[~is_fitted]).mean())
    return {name: round(value, 4) for name, value in found.items()}


def report(out: Path, seed: int, left_out: str, found: dict[str, float]) -> None:
    line = json.dumps({"seed": seed, "left_out": left_out} | found)
    with open(out, "a") as file:
        print(line, file=file)
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["make", "sort"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path, nargs="?", default=Path("words.jsonl"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--left-out", default=",".join(LEFT_OUT))
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.task == "make":
        make(options.folder)
        return
    prepare_process(options.threads)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    sort(options.folder, options.out, seeds, options.left_out.split(","))


if __name__ == "__main__":
    main()
