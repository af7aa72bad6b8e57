"""Feeds every reader with damaged files: each input must be read or refused with one line, soon and
in little memory.

python tests/fuzzing.py --out benchmarks/fuzz.json       the full number of inputs, one process per
reader
"""

import argparse
import base64
import bz2
import gzip
import io
import json
import multiprocessing
import random
import re
import resource
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

MAX_SECONDS, MAX_MEGABYTES = 5.0, 1024
"""An input that takes longer, or a reader that takes more memory than it had before, counts as a
finding.
"""

NUMBERS = [
    b"0",
    b"-1",
    b"1",
    b"255",
    b"65536",
    b"2147483648",
    b"9223372036854775808",
    b"1e999",
    b"NaN",
    b"0.5",
    b"1" * 400,
    b"null",
]
INTEGERS = [0, 1, 127, 128, 255, 256, 32767, 65535, 2**31 - 1, 2**31, 2**32 - 1]

Read = Callable[[Path], Any]


@dataclass
class Target:
    """A reader, whole files that it reads, how many damaged ones it gets, and how a damaged inside
    is wrapped up again.
    """

    read: Read
    seeds: list[bytes]
    n_inputs: int
    name: str
    wrap: Callable[[bytes], bytes] | None = None
    inner: list[bytes] = field(default_factory=list)


@dataclass
class Outcome:
    """What came of the inputs of one reader; `findings` has a line for each kind of fault."""

    inputs: int = 0
    read: int = 0
    refused: int = 0
    findings: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    slowest: float = 0.0
    megabytes: float = 0.0


def mutate(content: bytes, draw: random.Random, others: list[bytes]) -> bytes:
    """One to four random changes."""
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        size = len(changed)
        at, length = draw.randrange(size + 1), draw.choice((1, 2, 4, 8, 16, 64, 256))
        kind = draw.randrange(10)
        if kind == 0:
            for _ in range(draw.choice((1, 1, 8))):
                if size:
                    changed[draw.randrange(size)] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del changed[at:]
        elif kind == 2:
            del changed[at : at + length]
        elif kind == 3:
            changed[at:at] = draw.randbytes(length)
        elif kind == 4:
            changed[at : at + length] = draw.randbytes(length)
        elif kind == 5:
            changed[at:at] = changed[at : at + length]
        elif kind == 6:
            other = draw.choice(others)
            start = draw.randrange(len(other) + 1)
            changed[at : at + length] = other[start : start + length]
        elif kind == 7:
            changed[at : at + 4] = struct.pack(draw.choice("<>") + "I", draw.choice(INTEGERS))
        elif kind == 8:
            places = [match.span() for match in re.finditer(rb"-?\d+(\.\d+)?", changed[:100_000])]
            if places:
                first, last = draw.choice(places)
                changed[first:last] = draw.choice(NUMBERS)
        else:
            changed[at : at + length] = bytes([draw.choice((0, 255, 34, 44, 91, 123))]) * length
    return bytes(changed)


def fuzz(target: Target, folder: Path, *, seed: int, n_inputs: int) -> Outcome:
    """Give the reader so many damaged inputs."""
    from selfsort.errors import SelfsortError

    draw, outcome, findings = random.Random(f"{seed} {target.name}"), Outcome(), Counter[str]()
    path = folder / target.name.split(": ")[-1]
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    for number in range(n_inputs):
        if target.wrap and number % 2:
            content = target.wrap(mutate(draw.choice(target.inner), draw, target.inner))
        else:
            content = mutate(draw.choice(target.seeds), draw, target.seeds)
        path.write_bytes(content)
        start = time.monotonic()
        finding = ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                target.read(path)
            outcome.read += 1
        except SelfsortError as error:
            outcome.refused += 1
            if len(str(error).splitlines()) != 1:
                finding = f"not one line: {error!r}"
            elif "its decoder crashed" in str(error) or "took more than" in str(error):
                finding = str(error).partition(":")[2]
        except BaseException as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            finding = (
                f"{type(error).__name__}: {str(error)[:120]} "
                f"({Path(place.filename).name}:{place.lineno})"
            )
        taken = time.monotonic() - start
        outcome.slowest = max(outcome.slowest, round(taken, 2))
        if taken > MAX_SECONDS:
            finding = f"took {taken:.0f} s"
        if finding:
            findings[finding] += 1
            if findings[finding] == 1:
                Path(folder, f"finding-{len(findings)}-{path.name}").write_bytes(content)
    outcome.inputs, outcome.seconds = n_inputs, round(time.monotonic() - begin, 1)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    outcome.megabytes = round(max(grown, *_decoders(), 0) / 1024)
    if outcome.megabytes > MAX_MEGABYTES:
        findings[f"took {outcome.megabytes:.0f} MB"] += 1
    outcome.findings = dict(findings)
    return outcome


def _decoders() -> list[int]:
    """Kilobytes that each process which decodes images has taken at most."""
    from selfsort.data.pool import _WORKERS

    status = [
        Path(f"/proc/{worker.process.pid}/status").read_text() for _, worker in _WORKERS._idle
    ]
    return [int(text.split("VmHWM:")[1].split()[0]) for text in status]


# The readers


def targets(folder: Path) -> Iterator[Target]:
    """Every reader of the package with real files."""
    yield from _own_files(folder)
    yield from _settings()
    yield from _arrays(folder)
    yield from _images()
    yield from _forged_images()
    yield from _series()
    yield from _sounds()


def _own_files(folder: Path) -> Iterator[Target]:
    import torch

    from selfsort.cli.main import main
    from selfsort.method.network import build_network
    from selfsort.runs.folder import RunFolder
    from selfsort.runs.job import FitJob, load_job
    from selfsort.runs.results import load_run
    from selfsort.runs.table import load_assignments
    from selfsort.sorting.estimator import SelfSort
    from selfsort.training.checkpoint import load_checkpoint

    small = {
        "network.width": 2,
        "network.latent_width": 8,
        "network.n_duplicates": 2,
        "clustering.n_init": 1,
    }
    standard = small | {
        "training.min_steps": 1, "refinement.steps": 2, "refinement.width": 2,
        "refinement.latent_width": 8, "images.size": 8, "refinement.max_size": 8,
        "training.min_images": 0,
    }  # fmt: skip
    pixels = np.random.default_rng(0).random((40, 8, 8), dtype=np.float32)
    np.save(folder / "noise.npy", pixels)
    models = []
    for recipe, settings in (("paper", small), ("standard", standard)):
        sorter = SelfSort(
            3, recipe=recipe, epochs=1, settings=settings, checkpoint=folder / recipe
        ).fit(pixels)
        models.append(sorter.save(folder / f"{recipe}.safetensors").read_bytes())
    yield Target(
        SelfSort.load,
        models,
        8_000,
        "model.safetensors",
        _with_hash,
        [_inside(content) for content in models],
    )

    def read_checkpoint(path: Path) -> None:
        network = build_network(
            sorter.config_.network,
            shape=sorter.model_.trained.preparations.network.shape,
            n_parents=8,
            generator=torch.Generator(),
        )
        optimizer = torch.optim.Adam(network.parameters(), fused=True)
        load_checkpoint(path, network, optimizer, network.generator, {"seed": 0})

    checkpoints = [
        (folder / recipe / "training.safetensors").read_bytes() for recipe in ("standard",)
    ]
    yield Target(
        read_checkpoint,
        checkpoints,
        5_000,
        "checkpoint.safetensors",
        _with_hash,
        [_inside(content) for content in checkpoints],
    )
    run = folder / "run"
    arguments = [
        "fit",
        str(folder / "noise.npy"),
        "--no-report",
        "--recipe",
        "paper",
        "-k",
        "3",
        "--epochs",
        "1",
        "--out",
        str(run),
    ]
    for name, value in small.items():
        arguments += ["--set", f"{name}={value}"]
    main(arguments, standalone_mode=False)
    yield Target(
        lambda path: load_run(_beside(path, run)),
        [(run / "run.json").read_bytes()],
        8_000,
        "run.json",
    )
    hostile = b'name,cluster,confidence,truth\n"a\nb",0,0.5,x\n\'=1,1,1.0,"y"\n'
    yield Target(
        load_assignments,
        [(run / "assignments.csv").read_bytes()[:500], hostile],
        8_000,
        "assignments.csv",
    )
    job = FitJob("digits", settings={"training.batch_size": 100}, size=8, threads=1)
    yield Target(
        lambda path: load_job(RunFolder(path.parent)),
        [json.dumps(asdict(job), indent=1).encode()],
        6_000,
        "job.json",
    )
    yield _journal(folder)
    yield Target(lambda path: _inspect(path), models + checkpoints, 1_000,
    "inspect: model.safetensors", _with_hash,
                 [_inside(content) for content in models])  # fmt: skip


def _journal(folder: Path) -> Target:
    """The edits of `explore`; inside, each line gets the checksum it should have."""
    from selfsort.runs.edits import Accept, Edit, Mark, Merge, Move, Rename, Split
    from selfsort.runs.journal import Journal, load_history
    from selfsort.runs.state import State

    start = State.of(np.arange(40) % 4, 4)
    journal = Journal(folder, start)
    centres = base64.b64encode(np.zeros((2, 3), dtype="<f4").tobytes()).decode()
    split = Split(cluster=0, parts=[[0, 4]], numbers=[4], centres=centres)
    edits: list[Edit | str] = [
        Rename(1, "ones"),
        split,
        Merge(2, 0),
        "undo",
        "redo",
        Move([3, 7], 1),
        Mark([5], True),
        Accept([9]),
    ]
    for edit in edits:
        journal.add(edit)
    journal.close()
    content = journal.path.read_bytes()
    bodies = b"\n".join(
        re.sub(rb'^{"crc":"[0-9a-f]*","entry":(.*)}$', rb"\1", line)
        for line in content.splitlines()
    )

    def wrap(bodies: bytes) -> bytes:
        return b"".join(
            b'{"crc":"%08x","entry":%b}\n' % (zlib.crc32(body), body)
            for body in bodies.split(b"\n")
        )

    return Target(
        lambda path: load_history(path.parent, start),
        [content],
        8_000,
        "edits.jsonl",
        wrap,
        [bodies],
    )


def _inspect(path: Path) -> None:
    from click.testing import CliRunner

    from selfsort.cli.main import main
    from selfsort.errors import ModelFileError

    result = CliRunner().invoke(main, ["inspect", str(path)])
    if result.exit_code not in (0, 1) or not isinstance(result.exception, SystemExit | None):
        raise AssertionError(repr(result.exception))
    if result.exit_code:
        raise ModelFileError(result.stderr)


def _beside(path: Path, run: Path) -> Path:
    """The folder of a damaged `run.json`, with the table that belongs to it."""
    if not (path.parent / "assignments.csv").exists():
        (path.parent / "assignments.csv").write_bytes((run / "assignments.csv").read_bytes())
    return path.parent


def _inside(content: bytes) -> bytes:
    """A model's plain values and arrays as they can be damaged: JSON, a zero byte, numbers."""
    n_header = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + n_header])
    values = json.loads(header.pop("__metadata__")["selfsort"])
    return json.dumps([values, header]).encode() + b"\0" + content[8 + n_header :]


def _with_hash(inside: bytes) -> bytes:
    """A model file with the right hash for its damaged content, if that can be had, as a forger
    would write it.
    """
    from safetensors.numpy import load

    from selfsort.container import content_hash

    text, _, data = inside.partition(b"\0")
    try:
        values, header = json.loads(text)
        plain = json.dumps(header).encode()
        arrays = load(struct.pack("<Q", len(plain)) + plain + data)
        values.pop("sha256", None)
        metadata = {"selfsort": json.dumps({**values, "sha256": content_hash(values, arrays)})}
        whole = json.dumps({"__metadata__": metadata, **header}).encode()
    except Exception:  # so damaged that there is no hash
        whole = text
    return struct.pack("<Q", len(whole)) + whole + data


def _settings() -> Iterator[Target]:
    from selfsort.config import load_toml, parse_value
    from selfsort.method.transforms import get_transforms
    from selfsort.recipes import RECIPES, get_recipe

    tables = []
    for name in RECIPES:
        lines, part = [], ""
        for setting, value, _ in get_recipe(name).settings():
            prefix, _, option = setting.rpartition(".")
            lines += [f"[{prefix}]"] if prefix != part else []
            part = prefix
            lines += [f"{option} = {json.dumps(value)}"] if value is not None else []
        tables.append("\n".join(lines).encode())

    def read_toml(path: Path) -> None:
        get_transforms(get_recipe("standard").replace(load_toml(path)).transforms)

    def read_change(path: Path) -> None:
        name, _, value = path.read_bytes().decode("utf-8", "surrogateescape").partition("=")
        get_transforms(
            get_recipe("standard").replace({name.strip(): parse_value(value.strip())}).transforms
        )

    changes = [f"{name}={value}".encode() for name, value, _ in get_recipe("standard").settings()]
    yield Target(read_toml, tables, 8_000, "config.toml")
    yield Target(read_change, changes, 8_000, "--set")


def _arrays(folder: Path) -> Iterator[Target]:
    from scipy.io import savemat

    from selfsort.data import datasets
    from selfsort.data.folder import load_images
    from selfsort.data.image_set import as_image_set

    draw = np.random.default_rng(0)
    arrays = [
        draw.random((5, 8, 8), dtype=np.float32),
        draw.integers(0, 255, (4, 9, 8, 3), dtype=np.uint8),
        np.zeros((3, 8, 8), int),
    ]

    def encode(save: Callable[..., None], **content: Any) -> bytes:
        buffer = io.BytesIO()
        save(buffer, **content) if content else save(buffer, arrays[0])
        return buffer.getvalue()

    npys = [encode(np.save, arr=array) for array in arrays]
    npzs = [
        encode(save, images=arrays[1], y=np.arange(4)) for save in (np.savez, np.savez_compressed)
    ]

    def touch(path: Path) -> None:
        float(np.asarray(load_images(path).pixels).astype(np.float64).sum())

    yield Target(touch, npys, 8_000, "array.npy")
    yield Target(touch, npzs, 5_000, "arrays.npz")
    idx = [
        struct.pack(">I3I", 0x803, 5, 8, 8) + bytes(range(64)) * 5,
        struct.pack(">2I", 0x801, 5) + bytes(5),
    ]
    yield Target(
        datasets._read_idx,
        [gzip.compress(content) for content in idx],
        5_000,
        "idx.gz",
        gzip.compress,
        idx,
    )
    text = (
        b"\n".join(b"%d 1:-0.5 2:%.3f 256:1" % (label, label / 10) for label in range(1, 11))
        + b"\n"
    )
    yield Target(
        lambda path: as_image_set(*datasets._read_usps([path])[:1]),
        [bz2.compress(text)],
        5_000,
        "usps.bz2",
        bz2.compress,
        [text],
    )
    content = {
        "X": draw.integers(0, 255, (32, 32, 3, 2), dtype=np.uint8),
        "y": np.array([[1], [10]], dtype=np.uint8),
    }
    mats = []
    for is_compressed in (False, True):
        buffer = io.BytesIO()
        savemat(buffer, content, do_compression=is_compressed)
        mats.append(buffer.getvalue())
    yield Target(lambda path: datasets._read_svhn([path]), mats, 5_000, "svhn.mat")


def _images() -> Iterator[Target]:
    from selfsort.data.folder import load_images

    draw = np.random.default_rng(0)
    colour = Image.fromarray(draw.integers(0, 255, (12, 16, 3), dtype=np.uint8))
    modes = {
        "png": "1 L LA P RGB RGBA I;16", "jpg": "L RGB CMYK", "gif": "P L", "webp": "RGB RGBA",
        "tif": "1 L P RGB CMYK F I;16", "bmp": "1 L P RGB", "ppm": "L RGB", "tga": "L RGB RGBA",
        "ico": "RGBA", "jp2": "L RGB", "avif": "RGB",
    }  # fmt: skip
    for suffix, names in modes.items():
        seeds = []
        for mode in names.split():
            image = (
                colour.convert("L").convert("I").point(lambda value: value * 256).convert(mode)
                if mode == "I;16"
                else colour.convert(mode)
            )
            options: list[dict[str, Any]] = [{}]
            if suffix in ("gif", "webp"):
                options.append({"save_all": True, "append_images": [image.rotate(90)]})
            if suffix == "tif" and mode != "F":
                options += [
                    {"compression": kind} for kind in ("tiff_lzw", "tiff_adobe_deflate", "packbits")
                ]
            if suffix == "jpg":
                exif = Image.Exif()
                exif[0x0112] = 6
                options += [{"progressive": True}, {"exif": exif}]
            for option in options:
                buffer = io.BytesIO()
                image.save(buffer, Image.registered_extensions()[f".{suffix}"], **option)
                seeds.append(buffer.getvalue())
        wrap, inner = (_with_checksums, seeds) if suffix == "png" else (None, [])
        yield Target(
            load_images,
            seeds,
            10_000 if suffix in ("png", "jpg", "tif") else 6_000,
            f"image.{suffix}",
            wrap,
            inner,
        )


def _forged_images() -> Iterator[Target]:
    """What only looks like an image that is read: other formats, archives, no file at all."""
    from forging import SPECIAL, archives, every_format, iptc
    from selfsort.data.folder import load_images

    kinds = list(every_format().values())
    yield Target(load_images, kinds, 20_000, "all formats: any.jpg", iptc, kinds)
    yield Target(load_images, archives(), 12_000, "archives: archive.png")

    def read_special(path: Path) -> None:
        """The first bytes say what takes the place of the file."""
        content = path.read_bytes()[:2].ljust(2)
        suffix = (".png", ".npy", ".npz")[content[1] % 3]
        special = path.with_name(f"special{suffix}")
        SPECIAL[content[0] % len(SPECIAL)](special)
        try:
            load_images(special)
        finally:
            special.rmdir() if special.is_dir() and not special.is_symlink() else special.unlink()

    yield Target(read_special, [bytes([one, one]) for one in range(36)], 2_000, "special files")


def _series() -> Iterator[Target]:
    from selfsort.data.series import load_series

    lines = [",".join(str(one) for one in np.sin(np.arange(9) + row)) for row in range(3)]
    texts = {
        "tsv": "".join(
            f"{row}\t" + line.replace(",", "\t") + "\n" for row, line in enumerate(lines)
        ),
        "ts": "@problemName a\n@classLabel true 0 1\n@data\n"
        + "".join(f"{line}:{line}:1\n" for line in lines),
        "csv": "label,a,b,c\n" + "".join(f"x,{line}\n" for line in lines),
    }
    for suffix, text in texts.items():
        yield Target(load_series, [text.encode()], 4_000, f"series.{suffix}")


def _sounds() -> Iterator[Target]:
    import soundfile

    from selfsort.data.sound import load_sounds

    wave = np.sin(np.arange(200) / 3) * np.linspace(0.1, 1, 200)
    for suffix in ("wav", "flac", "ogg"):
        seeds = []
        for sound in (wave, np.stack([wave, -wave], axis=1)):
            buffer = io.BytesIO()
            soundfile.write(buffer, sound, 8000, format=suffix.upper())
            seeds.append(buffer.getvalue())
        yield Target(lambda path: load_sounds(str(path)), seeds, 4_000, f"sound.{suffix}")


def _with_checksums(content: bytes) -> bytes:
    """A damaged PNG file whose chunks have the right checksums, so that the damage reaches the
    decoder.
    """
    pieces, at = [content[:8]], 8
    while at + 8 <= len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        body = content[at + 4 : at + 8 + length]
        pieces.append(content[at : at + 4] + body + struct.pack(">I", zlib.crc32(body)))
        at += 12 + length
    return b"".join(pieces)


# The whole


def _child(target: Target, folder: Path, seed: int, n_inputs: int, results: Any) -> None:
    results.put(asdict(fuzz(target, folder, seed=seed, n_inputs=n_inputs)))


def main() -> int:
    """Fuzz every reader, each in a process of its own, so that one that crashes is seen; prints and
    keeps the figures.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--share", type=float, default=1.0, help="share of the full number of inputs"
    )
    parser.add_argument("--only", default="", help="only readers whose name has this in it")
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    parser.add_argument("--keep", type=Path, help="folder for inputs that are findings")
    options = parser.parse_args()
    context, outcomes = multiprocessing.get_context("fork"), dict[str, dict[str, Any]]()
    with tempfile.TemporaryDirectory() as seeds:
        for target in targets(Path(seeds)):
            if options.only not in target.name:
                continue
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                results = context.Queue()
                n_inputs = max(1, round(options.share * target.n_inputs))
                process = context.Process(
                    target=_child, args=(target, folder, options.seed, n_inputs, results)
                )
                process.start()
                while process.is_alive() and results.empty():
                    time.sleep(0.05)
                crash = {"inputs": 0, "findings": {f"ended with {process.exitcode}": 1}}
                outcome = crash if results.empty() else results.get()
                process.join()
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    for file in folder.glob("finding-*"):
                        (options.keep / file.name).write_bytes(file.read_bytes())
            outcomes[target.name] = outcome
            print(target.name, json.dumps(outcome), flush=True)
    total = {
        key: round(sum(outcome.get(key, 0) for outcome in outcomes.values()))
        for key in ("inputs", "read", "refused", "seconds")
    }
    n_findings = sum(len(outcome["findings"]) for outcome in outcomes.values())
    print(f"{total['inputs']:,} inputs, {n_findings} findings, {total['seconds']:.0f} s")
    if options.out:
        options.out.write_text(
            json.dumps(
                {"seed": options.seed, **total, "findings": n_findings, "readers": outcomes},
                indent=1,
            )
            + "\n"
        )
    return 1 if n_findings else 0


if __name__ == "__main__":
    sys.exit(main())
