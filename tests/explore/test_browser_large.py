"""`selfsort explore` on 60 000 images in a real browser: time to the first page, time to turn a
page, memory of the server.

With SELFSORT_RECORD the figures go to benchmarks/pages.json.
"""

import os
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser

from conftest import SHARED_DATA, SMALL, record_page
from exploring import Explored, screenshot
from selfsort.data.image_set import ImageSet
from selfsort.data.kinds import load_source
from selfsort.method.devices import prepare_process
from selfsort.runs.record import Run, current_versions
from selfsort.runs.results import save_run
from selfsort.runs.table import Assignments
from selfsort.sorting.estimator import SelfSort

N_IMAGES, N_TURNS, N_VISITS = 60_000, 20, 5

TURN = """async (pause) => {
  const grid = document.getElementById("grid"), next = document.getElementById("next");
  await new Promise((resolve) => setTimeout(resolve, pause));
  const start = performance.now();
  next.click();
  await new Promise((resolve) => {
    const observer = new MutationObserver(() => {
      if (grid.getAttribute("aria-busy") === "true" || !grid.querySelector("[role=option]")) return;
      observer.disconnect();
      requestAnimationFrame(() => requestAnimationFrame(resolve));
    });
    observer.observe(grid, { attributes: true });
  });
  return performance.now() - start;
}"""
"""Milliseconds from the click on `next` until all 100 pictures of the page are drawn."""

FIRST = """() => new Promise((resolve) => {
  const grid = document.getElementById("grid");
  const look = () => {
    if (grid.getAttribute("aria-busy") === "true") setTimeout(look, 2);
    else requestAnimationFrame(() => resolve(performance.now()));
  };
  look();
})"""
"""Milliseconds from the start of the navigation until all 100 pictures of the first page are
drawn.
"""


@pytest.fixture(scope="module")
def mnist() -> tuple[ImageSet, str, Path | None]:
    """60 000 real images, with the source and the folder to name in a run."""
    place = Path(os.environ["SELFSORT_DATA"]) if os.environ.get("SELFSORT_DATA") else SHARED_DATA
    if not (place / "mnist").is_dir() and not (place / "train-images-idx3-ubyte.gz").is_file():
        pytest.skip("MNIST is neither in SELFSORT_DATA nor beside this checkout")
    return load_source("mnist:train", data_dir=place), "mnist:train", place


@pytest.fixture(scope="module", params=["array", "files"])
def large_run(
    request: pytest.FixtureRequest,
    mnist: tuple[ImageSet, str, Path | None],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, Path]:
    """A run on 60 000 images with a small model, from an array or from as many files."""
    prepare_process(1)
    images, source, place = mnist
    folder, names = tmp_path_factory.mktemp("large"), list(images.names)
    sorter = SelfSort(
        10,
        recipe="paper",
        epochs=1,
        settings={**SMALL, "network.latent_width": 256, "clustering.n_init": 1},
    )
    sorter.fit(images.take(np.arange(3000)))
    labels, confidence = sorter.assign(images)
    if request.param == "files":
        source = str(folder / "photos")
        names = [f"{row // 1000:02}/{row:05}.png" for row in range(len(images))]
        for row, name in enumerate(names):
            (folder / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(images.pixels[row, 0]).save(folder / "photos" / name, compress_level=1)
    run = Run(
        source=source,
        recipe="paper",
        config=sorter.config_.to_dict(),
        seed=0,
        n_clusters=10,
        n_samples=len(images),
        image_shape=list(images.pixels.shape[1:]),
        history=[],
        scores={},
        label_free={},
        seconds=0.0,
        versions=current_versions(),
        reading={
            "source": source,
            "data_dir": str(place),
            "size": None,
            "folder_truth": False,
            "skip_broken": False,
        },
    )
    sorter.save(folder / "run")
    save_run(folder / "run", run, Assignments(names, labels, confidence))
    return request.param, folder / "run"


def memory(explored: Explored, what: str) -> int:
    """VmRSS or VmHWM (the peak) of the server, in megabytes."""
    status = Path(f"/proc/{explored.server.process.pid}/status").read_text()
    return (
        int(next(line for line in status.splitlines() if line.startswith(what)).split()[1]) // 1024
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_sixty_thousand_images(large_run: tuple[str, Path], browser: Browser) -> None:
    kind, folder = large_run
    explored = Explored(browser, folder)
    page = explored.page
    visits: list[float] = []
    for _ in range(N_VISITS):
        page.goto("about:blank")
        page.goto(explored.server.address, wait_until="commit")
        page.wait_for_selector("#grid")
        visits.append(page.evaluate(FIRST))
    screenshot(page, f"explore-large-{kind}.png")
    explored.open_view("All images")
    at_once = [page.evaluate(TURN, 0) for _ in range(N_TURNS)]
    after_a_moment = [page.evaluate(TURN, 500) for _ in range(N_TURNS)]
    assert page.locator("#page").inner_text() == f"Page {2 * N_TURNS + 1} of 600"
    browsing = memory(explored, "VmRSS")
    explored.open_view("Cluster 0")
    explored.button("Split…").click()
    explored.button("Split").click()
    explored.says("Split cluster 0 into 2.")
    peak = memory(explored, "VmHWM")
    explored.close()
    assert [text for text in explored.complaints if "about:blank" not in text] == []
    found: dict[str, Any] = {
        "images": N_IMAGES,
        "source": kind,
        "first_page_ms": summary(visits),
        "next_page_at_once_ms": summary(at_once),
        "next_page_after_half_a_second_ms": summary(after_a_moment),
        "server_memory_browsing_mb": browsing,
        "server_memory_peak_with_a_split_mb": peak,
        "cpus": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
    }
    record_page(f"explore, {kind}", found)
    assert statistics.median(visits) < 1000, found
    assert statistics.median(at_once) < 200, found
    assert statistics.median(after_a_moment) < 200, found
    assert peak < 1000, found


def summary(times: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(times)), "largest": round(max(times))}
