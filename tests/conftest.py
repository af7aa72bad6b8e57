"""Shared fixtures; every tensor shape that the package declares is checked while the tests run."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook
from numpy.typing import NDArray
from playwright.sync_api import Browser, sync_playwright

from find_browser import ARGUMENTS, find_browser

if TYPE_CHECKING:
    from exploring import Explored

checked = beartype(
    conf=BeartypeConf(is_pep484_tower=True)
)  # an int will do where a float is wanted, as Python has it
STAGES_WITH_SHAPES = (
    "preparation",
    "transforms",
    "pseudo",
    "encoder",
    "network",
    "gar",
    "objective",
)
install_import_hook(
    [f"selfsort.method.{stage}" for stage in STAGES_WITH_SHAPES], "conftest.checked"
)

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

SMALL = {
    "network.width": 4,
    "network.latent_width": 32,
    "network.n_duplicates": 5,
    "training.batch_size": 64,
}
"""Settings of a network that trains in a moment."""


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are no names of tests: compressed ones hold the time, and test processes that collect
    other names refuse to run.
    """
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real MNIST, USPS and SVHN files in their distributors' formats."""
    script = SHARED_DATA / "originals.py"
    if not script.exists():
        pytest.skip("the real data files are not beside this checkout (../shared/data)")
    folder = tmp_path_factory.mktemp("originals")
    subprocess.run([sys.executable, str(script), str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture(autouse=True)
def _tiny_numbers() -> Iterator[None]:
    """A command lets the processor take the tiniest numbers for 0; other tests in the same process
    want them.
    """
    yield
    torch.set_flush_denormal(False)


@pytest.fixture
def generator() -> torch.Generator:
    """A seeded generator."""
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="session")
def digits() -> NDArray[np.float32]:
    """The embedded digits as (n, 8, 8) floats in [0, 1]."""
    from selfsort.data.datasets import load_dataset

    pixels: NDArray[np.float32] = load_dataset("digits").pixels[:, 0]
    return pixels


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real browser; tests that need one are skipped where there is none."""
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium found; `make browser` installs one")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield started
        started.close()


def record_page(name: str, figures: dict[str, Any]) -> None:
    """Keep what a browser test has measured in benchmarks/pages.json, if SELFSORT_RECORD is set."""
    if "SELFSORT_RECORD" in os.environ:
        path = Path(__file__).parents[1] / "benchmarks" / "pages.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**known, name: figures}, indent=1, sort_keys=True) + "\n")


@pytest.fixture
def record_figures() -> Callable[..., None]:
    """Keeps what a test has counted in the file that SELFSORT_FIGURES names, for
    docs/reliability.md.
    """

    def record(name: str, **figures: float) -> None:
        from selfsort.files import save_json

        if path := os.environ.get("SELFSORT_FIGURES"):
            known = json.loads(Path(path).read_text()) if Path(path).exists() else {}
            save_json(Path(path), {**known, name: figures})

    return record


HOSTILE_NAMES = [
    "<img src=x onerror=alert(1)>.png",
    "\"quotes' & entities &lt;.png",
    "new\nline\r\tand tab.png",
    "=HYPERLINK(1).png",
    "%2e%2e%2f..%2fetc%2fpasswd.png",
    "\u202egnp.exe.png",
    os.fsdecode(b"caf\xe9 not UTF-8.png"),
    f"{'long' * 60}.png",
]


@pytest.fixture(scope="session")
def photos_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on 130 image files, some with hostile names, one in portrait by EXIF only;
    tests work on copies of it.
    """
    from click.testing import CliRunner
    from PIL import Image

    from selfsort.cli.main import main
    from selfsort.data.datasets import load_dataset

    base, images = tmp_path_factory.mktemp("explore"), load_dataset("digits")
    (base / "photos" / "sub").mkdir(parents=True)
    names = [*HOSTILE_NAMES, *(f"sub/{number:03}.png" for number in range(121))]
    for number, name in enumerate(names):
        picture = Image.fromarray((images.pixels[number, 0] * 255).astype(np.uint8)).resize(
            (24, 24)
        )
        picture.save(base / "photos" / name)
    turned, exif = Image.new("RGB", (90, 30), (200, 40, 40)), Image.Exif()
    exif[0x0112] = 6  # to be shown turned by 90 degrees
    turned.save(base / "photos" / "turned.jpg", exif=exif)
    small = [
        "--recipe",
        "paper",
        "--threads",
        "1",
        "--epochs",
        "1",
        "-k",
        "4",
        "--set",
        "clustering.n_init=1",
    ]
    for setting in ("network.width=4", "network.latent_width=32", "network.n_duplicates=4"):
        small += ["--set", setting]
    result = CliRunner().invoke(
        main, ["fit", str(base / "photos"), *small, "--out", str(base / "run")]
    )
    assert result.exit_code == 0, result.output
    return base / "run"


@pytest.fixture
def run_folder(photos_run: Path, tmp_path: Path) -> Path:
    """A copy of `photos_run` that a test may change."""
    shutil.copytree(photos_run, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def explored(browser: Browser, run_folder: Path) -> Iterator["Explored"]:
    """A page of explore on such a copy."""
    from exploring import Explored

    explored = Explored(browser, run_folder)
    yield explored
    explored.close()
    assert explored.complaints == []
