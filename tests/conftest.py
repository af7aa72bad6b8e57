"""Shared fixtures; every tensor shape that the package declares is checked while the tests run."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook
from numpy.typing import NDArray
from playwright.sync_api import Browser, sync_playwright

from find_browser import ARGUMENTS, find_browser

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int will do where a float is wanted, as Python has it
STAGES_WITH_SHAPES = ("preparation", "transforms", "pseudo", "encoder", "network", "gar", "objective")
install_import_hook([f"selfsort.{stage}" for stage in STAGES_WITH_SHAPES], "conftest.checked")

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

SMALL = {"network.width": 4, "network.latent_width": 32, "network.n_duplicates": 5, "training.batch_size": 64}
"""Settings of a network that trains in a moment."""


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real MNIST, USPS and SVHN files in their distributors' formats."""
    script = SHARED_DATA / "originals.py"
    if not script.exists():
        pytest.skip("the real data files are not beside this checkout (../shared/data)")
    folder = tmp_path_factory.mktemp("originals")
    subprocess.run([sys.executable, str(script), str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture
def generator() -> torch.Generator:
    """A seeded generator."""
    return torch.Generator().manual_seed(0)


@pytest.fixture(scope="session")
def digits() -> NDArray[np.float32]:
    """The embedded digits as (n, 8, 8) floats in [0, 1]."""
    from selfsort.datasets import load_dataset

    pixels: NDArray[np.float32] = load_dataset("digits").pixels[:, 0]
    return pixels


@pytest.fixture
def record_figures() -> Callable[..., None]:
    """Keeps what a test has counted in the file that SELFSORT_FIGURES names, for docs/reliability.md."""

    def record(name: str, **figures: float) -> None:
        from selfsort.files import save_json

        if path := os.environ.get("SELFSORT_FIGURES"):
            known = json.loads(Path(path).read_text()) if Path(path).exists() else {}
            save_json(Path(path), {**known, name: figures})

    return record


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
