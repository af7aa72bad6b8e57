"""What is read can run nothing and exhaust nothing: formats, memory and time of decoding."""

import io
import multiprocessing
import os
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from forging import SPECIAL, every_format, iptc, png
from selfsort.data import decode, pool, worker
from selfsort.data.folder import load_images
from selfsort.data.pool import decode_file, decode_files
from selfsort.errors import DataError


def test_no_format_of_pillow_starts_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stub of every program that Pillow is known to start is on the path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("gs", "gswin32c", "gswin64c", "djpeg", "cjpeg", "ppmquant", "ppmtogif"):
        (programs / name).write_text(f"#!/bin/sh\necho {name} >> {tmp_path}/started\nexit 1\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    pool._WORKERS.close()  # which have the old path
    files = every_format()
    assert len(files) > 30
    wrapped = {f"IPTC around {kind}": iptc(content) for kind, content in files.items()}
    folder = tmp_path / "images"
    folder.mkdir()
    for name, content in (files | wrapped).items():
        (folder / f"{name}.jpg").write_bytes(content)
    images = load_images(folder, skip_broken=True)
    assert not (tmp_path / "started").exists()
    read = {name.removesuffix(".jpg") for name in images.names}
    assert read == {*decode.FORMATS} - {"HEIF"}
    pool._WORKERS.close()


def test_only_files_that_are_read_are_looked_for(tmp_path: Path) -> None:
    for suffix in Image.registered_extensions():
        (tmp_path / f"a{suffix}").write_bytes(png(1, 1, bytes(2)))
    known = {f"a{end}" for ends in decode.FORMATS.values() for end in ends}
    assert set(load_images(tmp_path).names) == known & set(os.listdir(tmp_path))


# Memory and time


PEAK = """
import resource, sys
from pathlib import Path
from selfsort.data import pool
from selfsort.data.folder import load_images
try:
    print(load_images(Path(sys.argv[1]), skip_broken=True).names)
except ValueError as error:
    print(str(error))
pool._WORKERS.close()
# not getrusage, which counts what the parent of this process had
print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""


def peaks(source: Path) -> tuple[str, int, int]:
    """What reading says, and the megabytes that this process and the largest of its children
    took.
    """
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(source)], capture_output=True, text=True, check=True
    )
    said, own, child = done.stdout.splitlines()
    return said, int(own), int(child)


def bmp(width: int, height: int) -> bytes:
    size = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 100, 0, 0, 54) + size


def tiff(width: int, height: int) -> bytes:
    entries = ((256, width), (257, height), (258, 8), (262, 1), (273, 8), (278, height), (279, 99))
    body = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries)
    return struct.pack("<2sHIH", b"II", 42, 8, len(entries)) + body + bytes(4)


def header_only(kind: str, width: int, height: int) -> bytes:
    """The beginning of a file that declares so many pixels."""
    buffer = io.BytesIO()
    Image.new("RGB", (70, 50)).save(buffer, kind)
    content = buffer.getvalue()
    swap = {"JPEG": ">HH", "JPEG2000": ">II", "AVIF": ">II", "GIF": "<HH", "TGA": "<HH"}
    if kind in swap:
        sizes = (50, 70) if kind == "JPEG" else (70, 50)
        large = (height, width) if kind == "JPEG" else (width, height)
        other = (50, 70) if kind == "JPEG2000" else sizes  # its outer header has the height first
        content = content.replace(struct.pack(swap[kind], *sizes), struct.pack(swap[kind], *large))
        return content.replace(struct.pack(swap[kind], *other), struct.pack(swap[kind], *large))
    return {
        "PNG": lambda: png(width, height),
        "BMP": lambda: bmp(width, height),
        "TIFF": lambda: tiff(width, height),
        "PPM": lambda: b"P6 %d %d 255\n" % (width, height),
        "WEBP": lambda: b"RIFF" + struct.pack("<I", 30) + b"WEBPVP8X" + struct.pack("<II", 10, 2)
        + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little") + bytes(20),
    }[kind]()  # fmt: skip


@pytest.mark.parametrize("kind", [kind for kind in decode.FORMATS if kind != "HEIF"])
def test_a_header_that_declares_too_much_is_refused_by_itself(tmp_path: Path, kind: str) -> None:
    (tmp_path / "a.png").write_bytes(header_only(kind, 16_000, 16_000))
    said, own, child = peaks(tmp_path / "a.png")
    assert "declares 16000×16000 pixels, more than" in said
    assert max(own, child) < 150


@pytest.mark.parametrize("kind", ["ICO", "ICNS", "FITS", "IPTC"])
def test_formats_that_took_memory_before_they_were_refused(tmp_path: Path, kind: str) -> None:
    inner = png(12_000, 12_000, bytes(12_001 * 12_000))
    if kind == "FITS":
        cards = ("SIMPLE  = T", "BITPIX  = -32", "NAXIS   = 2", "NAXIS1  = 30000",
                 "NAXIS2  = 30000", "END")  # fmt: skip
        content = "".join(card.ljust(80) for card in cards).ljust(2880).encode() + bytes(400_000)
    elif kind == "ICO":
        entry = struct.pack("<BBBBHHII", 0, 0, 0, 0, 1, 32, len(inner), 22)
        content = struct.pack("<HHH", 0, 1, 1) + entry + inner
    elif kind == "ICNS":
        content = b"icns" + struct.pack(">I4sI", len(inner) + 16, b"ic10", len(inner) + 8) + inner
    else:
        content = iptc(inner, 12_000, 12_000)
    (tmp_path / "a.jpg").write_bytes(content)
    said, own, child = peaks(tmp_path / "a.jpg")
    assert "not a readable image (it is none of JPEG, PNG" in said
    assert max(own, child) < 150


def test_the_figures_of_memory_in_the_documentation_hold(tmp_path: Path) -> None:
    """The largest images that are allowed took 2.1 GB each, and several were read at a time."""
    with open(tmp_path / "0.tga", "wb") as file:  # RGBA, of which the disk holds almost nothing
        file.write(struct.pack("<BBBHHBHHHHBB", 0, 0, 2, 0, 0, 0, 0, 0, 9990, 9990, 32, 8))
        file.truncate(18 + 4 * 9990 * 9990)
    os.link(tmp_path / "0.tga", tmp_path / "1.tga")
    said, own, child = peaks(tmp_path)
    assert said == "['0.tga', '1.tga']"
    text = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert f"{worker.MEMORY >> 20} MiB" in text
    assert f"{worker.LARGE_MEMORY >> 20} MiB" in text
    assert f"{pool.SECONDS:g} seconds" in text
    assert own < 200
    assert child < 600


def test_memory_beyond_the_limit_is_refused() -> None:
    """The limit is the system's, whatever a reader does."""
    code = (
        "from selfsort.data import worker; allow = worker._memory_limit(); allow(worker.MEMORY)\n"
        "try: bytes(worker.MEMORY + 2**25)\nexcept MemoryError: print('refused')\n"
        "allow(worker.LARGE_MEMORY); bytearray(worker.MEMORY); print('allowed')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\nallowed\n"


def test_an_image_that_takes_too_long_is_refused_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow.png").write_bytes(png(9, 9, bytes(90)))
    (tmp_path / "fast.png").write_bytes(png(9, 9, bytes(90)))
    decode_file(tmp_path / "fast.png", 8)
    _, idle = pool._WORKERS._idle[-1]  # the one that is asked next
    os.kill(idle.process.pid, signal.SIGSTOP)  # so that it takes too long on any machine
    monkeypatch.setattr(pool, "SECONDS", 0.1)
    (slow,) = decode_files([tmp_path / "slow.png"], 8)
    monkeypatch.undo()
    fast = decode_file(tmp_path / "fast.png", 8)
    assert "slow.png: not a readable image (took more than 0.1 s)" in str(slow)
    assert fast.pixels.shape == (8, 8, 3)


def test_a_process_that_dies_costs_one_image(tmp_path: Path) -> None:
    (tmp_path / "slow.png").write_bytes(png(9000, 9000, bytes(9001 * 9000)))
    (tmp_path / "fast.png").write_bytes(png(9, 9, bytes(90)))
    for _, old in pool._WORKERS._idle:
        old.process.kill()
        old.process.wait()
    assert decode_file(tmp_path / "fast.png", 8).pixels.shape == (8, 8, 3)
    (_, idle), *_ = pool._WORKERS._idle
    os.kill(idle.process.pid, signal.SIGSTOP)  # so that it is in the middle of what follows
    threading.Timer(0.3, idle.process.kill).start()
    first, second = pool._decode_chunk([tmp_path / "slow.png", tmp_path / "fast.png"], 8, "square")
    assert "slow.png: not a readable image (its decoder crashed)" in str(first)
    assert not isinstance(second, DataError)


def _decode_in_fork(path: Path, results: Any) -> None:
    results.put(decode_file(path, 8).pixels.shape)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_starts_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(9, 9, bytes(90)))
    decode_file(tmp_path / "a.png", 8)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    process = context.Process(target=_decode_in_fork, args=(tmp_path / "a.png", results))
    process.start()
    assert results.get(timeout=60) == (8, 8, 3)
    process.join()
    assert decode_file(tmp_path / "a.png", 8).pixels.shape == (8, 8, 3)


@pytest.mark.parametrize("suffix", ["png", "npy", "npz"])
def test_special_files_are_refused(tmp_path: Path, suffix: str) -> None:
    for number, make in enumerate(SPECIAL):
        path = tmp_path / f"{number}.{suffix}"
        make(path)
        with pytest.raises(DataError) as caught:
            load_images(path)
        assert len(str(caught.value).splitlines()) == 1


def test_a_process_that_decodes_imports_little_and_nothing_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import selfsort.data.worker, sys; print({'torch', 'joblib', 'scipy'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
    for name in ("numpy", "PIL", "json", "selfsort"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from here')")
    (tmp_path / "a.png").write_bytes(png(9, 9, bytes(90)))
    monkeypatch.chdir(tmp_path)
    pool._WORKERS.close()
    assert decode_file(Path("a.png"), 8).pixels.shape == (8, 8, 3)


def test_strips_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    for mode in ("RGB", "RGBA", "L", "P", "1", "CMYK", "LA"):
        picture = Image.fromarray(draw.integers(0, 256, (301, 203, 3), dtype=np.uint8))
        picture = picture.convert(mode)
        plain = picture
        if mode in ("RGBA", "LA"):
            layers = picture.convert("RGBA")
            plain = Image.alpha_composite(Image.new("RGBA", layers.size, "white"), layers)
        for shape in ((20, 30), (203, 301), (7, 150), (300, 400)):
            whole = plain.convert("RGB").resize(shape, Image.Resampling.BOX, reducing_gap=2.0)
            for n_pixels in (1, 5000, 10**6):
                monkeypatch.setattr(decode, "STRIP_PIXELS", n_pixels)
                assert decode._resize(picture, shape).tobytes() == whole.tobytes()


def test_reading_may_be_given_up_in_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator that nobody closed ends in whichever thread collects it, even in its own."""
    files = [Path(str(number)) for number in range(40)]
    is_suspended = threading.Event()
    outcome: list[BaseException | None] = []

    def decode_chunk(chunk: list[Path], size: int, fit: str) -> list[DataError]:
        if files[-1] in chunk:
            is_suspended.wait(30)
            try:
                answers.close()
                outcome.append(None)
            except RuntimeError as error:
                outcome.append(error)
        return [DataError("")] * len(chunk)

    monkeypatch.setattr(pool, "_decode_chunk", decode_chunk)
    before = threading.enumerate()
    answers = decode_files(files, 8)
    next(answers)
    threads = [thread for thread in threading.enumerate() if thread not in before]
    is_suspended.set()
    for thread in threads:
        thread.join(30)
    assert outcome == [None]
