"""Time series in `selfsort explore`, in a real browser."""

import json
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from exploring import Explored, screenshot
from selfsort.workflow.fit import sort_folder

DARK = """async (image) => {
  await image.decode();
  const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight);
  const pen = canvas.getContext("2d");
  pen.drawImage(image, 0, 0);
  const bytes = pen.getImageData(0, 0, canvas.width, canvas.height).data;
  const pixels = Array.from({ length: bytes.length / 4 }, (_, i) => (bytes[4 * i] < 120 ? 1 : 0));
  return { width: canvas.width, pixels };
}"""
"""Which pixels of a picture are dark."""

QUICK = {"training.min_steps": 2, "training.min_images": 0, "network.width": 4}


@pytest.fixture(scope="module")
def series_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rising and falling lines, sorted."""
    folder = tmp_path_factory.mktemp("series")
    draw = np.random.default_rng(0)
    slopes = np.repeat([1.0, -1.0], 12)[:, None] * np.linspace(0, 1, 40)
    np.save(folder / "lines.npy", slopes + 0.02 * draw.normal(size=slopes.shape))
    sort_folder(
        str(folder / "lines.npy"),
        out=folder / "run",
        kind="series",
        n_clusters=2,
        settings=QUICK,
        report=False,
    )
    return folder / "run"


def test_each_series_is_a_line_and_can_be_moved(browser: Browser, series_run: Path) -> None:
    explored = Explored(browser, series_run)
    try:
        page = explored.page
        assert explored.sizes()["Cluster 0"] == explored.sizes()["Cluster 1"] == 12
        explored.open_view("Cluster 0")
        assert explored.images.count() == 12
        screenshot(page, "series.png")
        explored.images.first.dblclick()
        picture = page.locator("#viewer-image")
        expect(picture).to_be_visible()
        dark = picture.evaluate(DARK)
        down, right = np.divmod(np.flatnonzero(dark["pixels"]), dark["width"])
        assert abs(np.corrcoef(down, right)[0, 1]) > 0.95  # a line from corner to corner
        assert not explored.complaints
    finally:
        explored.server.end()
        explored.context.close()
    assert json.loads((series_run / "run.json").read_text())["image_shape"] == [1, 40]
