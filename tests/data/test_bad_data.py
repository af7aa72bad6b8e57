"""What real folders and arrays are full of, through the whole command line: it works, or one line
says why not.
"""

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from test_cli import fail, rows, run, succeed

PAPER = {
    "network.width": 4,
    "network.latent_width": 32,
    "network.n_duplicates": 4,
    "clustering.n_init": 1,
}
STANDARD = PAPER | {
    "training.min_steps": 2, "refinement.steps": 4, "refinement.width": 4,
    "refinement.latent_width": 32, "training.min_images": 0, "recluster.min_steps": 2,
    "recluster.n_views": 2,
}  # fmt: skip


def options(recipe: str, *, k: int = 3) -> list[str]:
    settings = PAPER if recipe == "paper" else STANDARD
    changes = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    return [
        "--recipe",
        recipe,
        "--threads",
        "1",
        "--no-report",
        "--epochs",
        "1",
        "-k",
        str(k),
        *changes,
    ]


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


ARRAYS: dict[str, np.ndarray] = {
    "constant": np.full((30, 8, 8), 7, dtype=np.uint8),
    "black": np.zeros((30, 8, 8), dtype=np.float32),
    "duplicates": np.repeat(noise(1, 9, 9), 30, axis=0),
    "two different": np.repeat(noise(2, 9, 9), 15, axis=0),
    "as many as clusters": noise(3, 8, 8),
    "one pixel": noise(30, 1, 1),
    "one line": noise(30, 1, 40),
    "16 bits": noise(30, 8, 8).astype(np.uint16) * 257,
    "negative": noise(30, 8, 8).astype(np.int16) - 128,
    "huge numbers": noise(30, 8, 8) * 1e30,
    "tiny numbers": noise(30, 8, 8) * 1e-30,
    "hardly different": 1e6 + noise(30, 8, 8).astype(np.float64) * 1e-3,
    "seven channels": noise(30, 7, 9, 9),
}


FAST = ("duplicates", "one pixel")


@pytest.mark.parametrize(
    ("name", "recipe"),
    [
        pytest.param(
            name, recipe, marks=[] if name in FAST or recipe == "paper" else pytest.mark.slow
        )
        for name in ARRAYS
        for recipe in ("paper", "standard")
    ],
)
def test_arrays_that_are_hardly_images(tmp_path: Path, name: str, recipe: str) -> None:
    np.save(tmp_path / "a.npy", ARRAYS[name])
    report = json.loads(
        succeed("fit", tmp_path / "a.npy", *options(recipe), "--out", tmp_path / "out", "--json")
    )
    assert len(rows(tmp_path / "out" / "assignments.csv")) == len(ARRAYS[name])
    if name in ("constant", "black", "duplicates"):
        assert any("cluster" in warning for warning in report["warnings"])
    succeed("predict", tmp_path / "out", tmp_path / "a.npy", "--out", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == (
        tmp_path / "out" / "assignments.csv"
    ).read_bytes()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.full((5, 8, 8), np.nan), "NaN or infinity in image 0; remove or replace such pixels"),
        (
            np.where(np.arange(5)[:, None, None] == 3, np.inf, np.zeros((5, 8, 8))),
            "NaN or infinity in image 3",
        ),
        (noise(1, 8, 8), "a single image cannot be sorted"),
        (noise(2, 8, 8), "2 images cannot fall into 3 clusters"),
        (noise(8, 8), "8 rows of 8 numbers could be anything"),
        (np.zeros((5, 8, 8), dtype=complex), "should be integers, floats or booleans"),
    ],
)
def test_arrays_that_cannot_be_sorted(tmp_path: Path, array: np.ndarray, message: str) -> None:
    np.save(tmp_path / "a.npy", array)
    assert message in fail("fit", tmp_path / "a.npy", *options("paper"), "--out", tmp_path / "out")
    assert os.listdir(tmp_path) == ["a.npy"]


NAMES = [b"new\nline.png", b"quo\"te'.png", b"<script>alert(1)<.png", b"com,ma;.png",
         b"caf\xe9.png", b"=1+1.png", b"@x.png", b"-rf.png", b"+1.png", b"\t.png", b"&lt;b&gt;.png",
         b"%s{0}.png", b"[bold]red.png", b" .png", b"x" * 251 + b".png",
         "\u202egnp.png".encode(), "\U0001f600.png".encode()]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Every kind of picture under every kind of name, and what else may lie about."""
    place = tmp_path / os.fsdecode(b"<b>\xff,'\"\n")
    place.mkdir()
    pictures: list[tuple[Image.Image, str, dict[str, Any]]] = [
        (Image.fromarray(noise(9, 9).astype(np.uint16) * 257), "PNG", {}),
        (Image.fromarray(noise(9, 9, 3)).convert("CMYK"), "JPEG", {}),
        (Image.fromarray(noise(9, 9, 3)).convert("P"), "PNG", {"transparency": 3}),
        (
            Image.fromarray(noise(9, 9, 3)),
            "GIF",
            {"save_all": True, "append_images": [Image.new("RGB", (9, 9))]},
        ),
        (Image.fromarray(noise(1, 1)), "PNG", {}),
        (Image.new("1", (500, 1)), "BMP", {}),
        (Image.new("F", (3, 3), 0.5), "TIFF", {}),
    ]
    exif = Image.Exif()
    exif[0x0112] = 6
    pictures.append((Image.fromarray(noise(9, 12, 3)), "JPEG", {"exif": exif}))
    for number, name in enumerate(NAMES):
        picture, kind, extra = pictures[number % len(pictures)]
        picture.save(place / "file", kind, **extra)
        (place / "file").rename(place / os.fsdecode(name))
    (place / "deep" / ("y" * 200)).mkdir(parents=True)
    Image.new("L", (9, 9)).save(place / "deep" / ("y" * 200) / ("z" * 200 + ".png"))
    (place / "loop").symlink_to(place)
    (place / "self.png").symlink_to(place / "self.png")
    (place / "broken.jpg").write_bytes(b"\xff\xd8\xff")
    os.mkfifo(place / "pipe.png")
    return place


@pytest.mark.parametrize("recipe", ["paper", pytest.param("standard", marks=pytest.mark.slow)])
def test_a_folder_with_everything(folder: Path, tmp_path: Path, recipe: str) -> None:
    out, copies = tmp_path / "out", tmp_path / "copies"
    assert "not a readable image" in fail("fit", folder, *options(recipe), "--out", out)
    result = run("fit", folder, *options(recipe), "--skip-broken", "--out", out)
    assert result.exit_code == 0, result.output
    assert "left out 2 files" in result.stderr
    assert "broken.jpg': " in result.stderr
    assert "pipe.png': not a regular file\n" in result.stderr
    assert "ignored: 1 dangling links" in result.stderr
    names = {os.fsencode(row["name"].removeprefix("'")) for row in rows(out / "assignments.csv")}
    assert set(NAMES) < names
    assert len(names) == len(NAMES) + 1
    succeed(
        "predict", out, folder, "--skip-broken", "--copy-to", copies, "--out", tmp_path / "a.csv"
    )
    assert (tmp_path / "a.csv").read_bytes() == (out / "assignments.csv").read_bytes()
    copied = [path for path in copies.rglob("*") if path.is_file()]
    assert len(copied) == len(names)
    (long,) = [path for path in copied if path.name.startswith("deep__")]
    assert len(os.fsencode(long.name)) <= 255
    assert long.suffix == ".png"
    with open(tmp_path / "a.csv", encoding="utf-8", errors="surrogateescape", newline="") as file:
        assert not [
            cell
            for row in csv.reader(file)
            for cell in row
            if cell[:1] in ("=", "+", "-", "@", "\t", "\r")
        ]
    json.loads((out / "run.json").read_text())
    succeed("inspect", out)


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    for number in range(4):
        Image.fromarray(noise(9, 9)).save(tmp_path / f"{number}.png")
    (tmp_path / "0.png").chmod(0)
    tmp_path.chmod(0o755)
    code = (
        "from selfsort.data.folder import load_images; "
        "print([*load_images('.', skip_broken=True).skipped]); load_images('.')"
    )
    somebody = None if os.getuid() else 65534  # to root every file is open
    try:
        subprocess.run([sys.executable, "-c", "import selfsort"], user=somebody, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only root may start this Python")
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        user=somebody,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "['0.png']\n"
    assert (
        "DataError: 0.png: not a readable image ([Errno 13] Permission denied"
        in done.stderr.splitlines()[-1]
    )


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_a_hundred_thousand_files_in_one_folder(
    tmp_path: Path, record_figures: Callable[..., None]
) -> None:
    many = tmp_path / "many"
    many.mkdir()
    for number in range(8):
        Image.fromarray(
            np.random.default_rng(number).integers(0, 256, (8, 8), dtype=np.uint8)
        ).save(tmp_path / f"{number}.png")
    for number in range(100_000):
        os.link(tmp_path / f"{number % 8}.png", many / f"{number}.png")
    command = [
        sys.executable,
        "-c",
        MEASURED,
        "fit",
        str(many),
        *options("paper"),
        "--out",
        str(tmp_path / "out"),
    ]
    begin = time.monotonic()
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    megabytes = int(done.stderr.splitlines()[-1]) // 1024
    table = rows(tmp_path / "out" / "assignments.csv")
    assert len(table) == 100_000
    by_picture = {(int(row["name"].removesuffix(".png")) % 8, row["cluster"]) for row in table}
    assert len(by_picture) == 8, "the same picture is in the same cluster"
    record_figures(
        "100 000 files in one folder",
        files=100_000,
        megabytes=megabytes,
        seconds=round(time.monotonic() - begin),
    )
    assert megabytes < 2500


MEASURED = """
import resource, sys
from selfsort.cli.main import main
try:
    main(sys.argv[1:], prog_name="selfsort")
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""
