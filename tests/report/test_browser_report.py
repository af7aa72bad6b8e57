"""The report in a real browser, as a person meets it: pointing, clicking, keys, no JavaScript,
dark, on paper.
"""

import base64
import io
import os
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page

from conftest import record_page
from selfsort.data.datasets import load_dataset
from selfsort.data.image_set import as_image_set, sample_rows
from selfsort.data.kinds import load_source
from selfsort.report.map import Projection, project
from selfsort.report.page import render_report
from selfsort.runs.table import Assignments
from test_cli import TINY, succeed
from test_report import a_map, a_run

ROOT = Path(__file__).parents[2]
NAMES = [
    b"<script>alert(1)</script>.png", b'"><img src=x onerror=alert(2)>.png', b"new\nline.png",
    b"' onload='alert(3).png", b"{{7*7}}.png", b"caf\xe9.png", b"</title><svg onload=alert(4)>.png",
    b"&lt;i&gt;.png", b"\xe2\x80\xaegnp.exe.png",
]  # fmt: skip
Opener = Callable[..., Page]


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report that `selfsort fit` writes about a folder of digits with hostile names."""
    folder, digits = tmp_path_factory.mktemp("browser"), load_dataset("digits")
    for number in range(200):
        name = NAMES[number] if number < len(NAMES) else b"%d.png" % number
        file = folder / "photos" / os.fsdecode(name.lstrip(b"/"))
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((digits.pixels[number, 0] * 255).astype(np.uint8)).resize((32, 32)).save(
            file
        )
    succeed("fit", folder / "photos", *TINY, "--size", 8, "-k", 5, "--out", folder / "run")
    return folder / "run" / "report.html"


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Opener]:
    """Opens a file; at the end there must have been no error, no dialogue and no request beside the
    file itself.
    """
    troubles: list[str] = []
    expected: list[str] = []
    contexts = []

    def opened(file: Path, **options: Any) -> Page:
        context = browser.new_context(
            viewport={"width": 1000, "height": 700}, reduced_motion="reduce", **options
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on("dialog", lambda dialog: troubles.append(f"dialogue: {dialog.message}"))
        page.on("request", lambda request: troubles.append(f"request: {request.url[:200]}"))
        page.goto(file.as_uri())
        expected.append(f"request: {file.as_uri()}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [trouble for trouble in troubles if not trouble.startswith("request: data:")] == expected


def canvas_pixels(page: Page) -> Any:
    """What the map shows, (height, width, 4)."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    content = page.evaluate("document.getElementById('map').toDataURL()").partition(",")[2]
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))


def point_at_an_image(page: Page) -> tuple[float, float]:
    """Move the pointer to the uppermost image of the map; answers where that is."""
    page.locator("#map").scroll_into_view_if_needed()
    box = page.locator("#map").bounding_box()
    assert box is not None
    row, column = np.argwhere(canvas_pixels(page)[..., 3] > 200)[0]
    place = box["x"] + float(column) + 1, box["y"] + float(row) + 1
    page.mouse.move(*place)
    page.wait_for_selector("#tip:not([hidden])")
    return place


def test_hostile_names_are_shown_and_do_nothing(report: Path, open_page: Opener) -> None:
    page = open_page(report)
    assert (
        page.evaluate("document.querySelectorAll('script').length") == 4
    )  # the numbers, the map, the names, one sheet of sprites
    assert (
        page.evaluate(
            "document.querySelectorAll('[onerror], [onload], iframe, object, embed, "
            "link[rel=stylesheet]').length"
        )
        == 0
    )
    names = page.evaluate("JSON.parse(document.getElementById('map-names').textContent).names")
    assert "<script>alert(1)</script>.png" in names
    assert "caf\\xe9.png" in names
    assert "new\\nline.png" in names
    assert set(
        page.evaluate("Array.from(document.querySelectorAll('.pictures li'), item => item.title)")
    ) <= set(names)
    files = {name.rpartition("/")[2] for name in names}
    assert (
        set(
            page.evaluate(
                "Array.from(document.querySelectorAll('.pictures .name'), name => name.textContent)"
            )
        )
        <= files
    )


def test_pointing_shows_the_image(report: Path, open_page: Opener) -> None:
    page = open_page(report)
    assert page.locator("#tip").is_hidden()
    point_at_an_image(page)
    text = page.inner_text("#tip")
    assert "cluster " in text
    assert "confidence " in text
    page.wait_for_function("document.getElementById('tip-picture').dataset.index !== undefined")
    picture = page.evaluate("""() => { const canvas = document.getElementById("tip-picture");
        const { width, height } = canvas;
        return Array.from(canvas.getContext("2d").getImageData(0, 0, width, height).data); }""")
    seen = np.array(picture).reshape(-1, 4)[:, 0]
    index = page.evaluate("Number(document.getElementById('tip-picture').dataset.index)")
    name = page.evaluate(
        f"JSON.parse(document.getElementById('map-names').textContent).names[{index}]"
    )
    assert name == page.inner_text("#tip-name")
    if name.endswith(".png") and name[:-4].isdecimal():
        real = np.asarray(Image.open(report.parents[1] / "photos" / name)).astype(float)
        assert np.abs(real.ravel() - seen).mean() < 12
    page.mouse.move(5, 5)
    assert page.locator("#tip").is_hidden()


def test_a_click_isolates_a_cluster_and_another_shows_all(report: Path, open_page: Opener) -> None:
    page = open_page(report)
    whole = canvas_pixels(page)
    page.click("[data-isolate='2']")
    assert page.get_attribute("[data-isolate='2']", "aria-pressed") == "true"
    assert page.get_attribute("[data-isolate='']", "aria-pressed") == "false"
    assert "Only cluster 2 is shown" in (page.text_content("#map-status") or "")
    alone = canvas_pixels(page)
    assert (alone[..., 3] > 200).sum() < 0.6 * (whole[..., 3] > 200).sum()
    page.click("[data-isolate='2']")
    page.mouse.move(5, 5)
    assert np.array_equal(canvas_pixels(page), whole)
    place = point_at_an_image(page)
    label = page.inner_text("#tip-text").splitlines()[0].removeprefix("cluster ")
    page.mouse.click(*place)
    assert page.get_attribute(f"[data-isolate='{label}']", "aria-pressed") == "true"
    page.click("article [data-show='1']")
    assert page.get_attribute("[data-isolate='1']", "aria-pressed") == "true"
    assert page.evaluate("document.activeElement.id") == "map"


def test_zoom_and_keys(report: Path, open_page: Opener) -> None:
    page = open_page(report)
    whole = canvas_pixels(page)
    page.click("[data-zoom='in']")
    assert not np.array_equal(canvas_pixels(page), whole)
    page.click("[data-zoom='all']")
    assert np.array_equal(canvas_pixels(page), whole)
    before = page.evaluate("scrollY")
    box = page.locator("#map").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 3, box["y"] + box["height"] / 3)
    page.mouse.wheel(0, 200)
    page.wait_for_timeout(400)
    assert page.evaluate("scrollY") > before  # the map has no focus: the page scrolls
    assert np.array_equal(canvas_pixels(page), whole)
    page.focus("#map")
    box = page.locator("#map").bounding_box()
    assert box is not None
    before = page.evaluate("scrollY")
    page.mouse.move(box["x"] + 3, max(box["y"], 0) + 100)
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(200)
    assert page.evaluate("scrollY") == before  # it has the focus: it zooms
    assert not np.array_equal(canvas_pixels(page), whole)
    for keys in (["+", "ArrowLeft"], ["-", "ArrowUp"]):
        page.keyboard.press("0")
        assert np.array_equal(canvas_pixels(page), whole)
        for key in keys:
            seen = canvas_pixels(page)
            page.keyboard.press(key)
            assert not np.array_equal(canvas_pixels(page), seen)
    page.keyboard.press("0")
    page.keyboard.press("n")
    assert page.locator("#tip").is_visible()
    first = page.text_content("#map-status")
    page.keyboard.press("n")
    second = page.text_content("#map-status")
    assert first != second
    page.keyboard.press("p")
    assert page.text_content("#map-status") == first
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()


def test_drag_moves_the_map_and_selects_nothing(report: Path, open_page: Opener) -> None:
    page = open_page(report)
    page.locator("#map").scroll_into_view_if_needed()
    whole = canvas_pixels(page)
    x, y = point_at_an_image(page)
    page.mouse.down()
    page.mouse.move(x + 50, y + 40, steps=5)
    page.mouse.up()
    page.mouse.move(5, 5)
    moved = canvas_pixels(page)
    assert not np.array_equal(moved, whole)
    assert page.get_attribute("[data-isolate='']", "aria-pressed") == "true"


def test_everything_can_be_reached_and_has_a_name(report: Path, open_page: Opener) -> None:
    page = open_page(report)
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.evaluate(
        "Array.from(document.images).every(image => image.alt && image.naturalWidth > 0)"
    )
    assert (
        page.evaluate("""Array.from(document.querySelectorAll(
            "button, a, meter, summary, [tabindex='0'], svg[role=img]"))
        .filter(part => !(part.getAttribute("aria-label") || part.textContent.trim()))
        .map(part => part.outerHTML)""")
        == []
    )
    assert page.evaluate("""Array.from(
        document.querySelectorAll("[aria-labelledby], [aria-describedby]")
    ).every(part => document.getElementById(
        part.getAttribute("aria-labelledby") || part.getAttribute("aria-describedby")))""")
    ids = page.evaluate("Array.from(document.querySelectorAll('[id]'), part => part.id)")
    assert len(ids) == len(set(ids))
    levels = page.evaluate(
        "Array.from(document.querySelectorAll('h1, h2, h3, h4'), heading => "
        "Number(heading.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "document.activeElement.id || document.activeElement.dataset.zoom || "
                "document.activeElement.dataset.isolate"
            )
        )
    assert {"map", "in", "out", "all", "0", "4"} <= reached
    tree = page.locator("body").aria_snapshot()
    assert 'application "Interactive map of the images"' in tree
    assert 'meter "Mean confidence of cluster 0"' in tree


def test_the_page_fits_narrow_screens(report: Path, open_page: Opener) -> None:
    page = open_page(report)
    for width in (320, 768, 1600):
        page.set_viewport_size({"width": width, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [400, 1400])
def test_pictures_come_first_and_are_large(open_page: Opener, tmp_path: Path, width: int) -> None:
    labels = np.arange(100) % 5
    names = [f"{row}.png" for row in range(100)]
    assignments = Assignments(names, labels, np.ones(100, dtype=np.float32))
    made = a_run(100, n_clusters=5, warnings=["something is odd; look at it."])
    images = load_dataset("digits").take(np.arange(100))
    (tmp_path / "r.html").write_text(render_report(made, assignments, images, a_map(100)))
    page = open_page(tmp_path / "r.html")
    page.set_viewport_size({"width": width, "height": 800})
    covers = page.locator(".covers img")
    assert covers.count() == 5
    cover = covers.first.bounding_box()
    warning = page.locator(".warning").bounding_box()
    picture = page.locator(".pictures img").first.bounding_box()
    assert cover is not None
    assert warning is not None
    assert picture is not None
    assert cover["y"] + cover["height"] <= warning["y"]
    assert min(cover["width"], picture["width"], picture["height"]) >= 80
    assert page.locator("h4", has_text="Borderline").count() == 0, "all images are sure"
    edges = page.evaluate(
        "Array.from(document.querySelectorAll('main *:not(.scroll *, .visually-hidden)'), "
        "part => part.getBoundingClientRect().right)"
    )
    assert max(edges) <= width
    covers.nth(2).click()
    assert page.evaluate("location.hash") == "#cluster-2"


def test_without_javascript(report: Path, open_page: Opener) -> None:
    page = open_page(report, java_script_enabled=False)
    assert page.locator(".static-map").is_visible()
    assert page.locator("canvas#map").is_hidden()
    assert page.locator(".legend").is_hidden()
    assert page.locator("article.card").count() == 5
    assert page.locator("article.card img").first.is_visible()
    page.locator(".static-map").scroll_into_view_if_needed()
    picture = np.asarray(
        Image.open(io.BytesIO(page.locator(".static-map").screenshot())).convert("RGB")
    )
    assert (
        len(np.unique(picture.reshape(-1, 3), axis=0)) > 50
    )  # points in colours, not an empty field


def test_dark_and_light(report: Path, open_page: Opener) -> None:
    page = open_page(report, color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 24, 28)"
    dark = canvas_pixels(page)
    page.emulate_media(color_scheme="light")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not np.array_equal(canvas_pixels(page), dark)


def test_on_paper(report: Path, open_page: Opener) -> None:
    page = open_page(report, color_scheme="dark")
    content = page.pdf(format="A4")
    assert content.startswith(b"%PDF")
    assert 2 <= content.count(b"/Type /Page\n") <= 12
    page.emulate_media(media="print")
    assert page.locator(".static-map").is_visible()
    for hidden in ("canvas#map", ".legend", ".zoom", "nav", ".hint"):
        assert page.locator(hidden).is_hidden()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_many_clusters_in_colours_and_shapes(open_page: Opener, tmp_path: Path) -> None:
    labels = np.arange(400) % 60
    assignments = Assignments(
        [str(row) for row in range(400)], labels, np.ones(400, dtype=np.float32)
    )
    made = a_run(400, n_clusters=60)
    (tmp_path / "r.html").write_text(
        render_report(made, assignments, load_dataset("digits").take(np.arange(400)), a_map(400))
    )
    page = open_page(tmp_path / "r.html")
    assert page.locator("[data-isolate]").count() == 61
    shapes = page.evaluate(
        "new Set(Array.from(document.querySelectorAll('.legend .chip'), chip => chip.innerHTML + "
        "chip.classList)).size"
    )
    assert shapes == 1 + 30
    page.click("[data-isolate='59']")
    assert "Only cluster 59 is shown, 6 images" in (page.text_content("#map-status") or "")


@pytest.mark.skipif("SELFSORT_REPORT_OF" not in os.environ, reason="`make screenshots` takes them")
def test_screenshot_for_the_readme(open_page: Opener) -> None:
    """docs/report.png shows the report of the run in SELFSORT_REPORT_OF."""
    file = Path(os.environ["SELFSORT_REPORT_OF"]).resolve() / "report.html"
    page = open_page(file)
    page.set_viewport_size({"width": 1280, "height": 1790})
    page.focus("#map")
    point_at_an_image(page)
    page.wait_for_timeout(500)
    page.evaluate("scrollTo(0, 0)")
    page.evaluate("document.activeElement.blur()")
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(128, dither=Image.Dither.NONE).save(
        ROOT / "docs" / "report.png", optimize=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mnist", "noise"])
def test_sixty_thousand_images(
    kind: str, browser: Browser, open_page: Opener, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Under 15 MB, interactive within 3 s, fluid with 20,000 points; colour noise is what
    compresses worst.

    Medians of three visits. The map answers before the page has loaded; its pictures come with the
    end of the file.
    """
    generator = np.random.default_rng(0)
    if kind == "mnist":
        images = load_source("mnist:train", data_dir=request.getfixturevalue("originals"))
        assert images.truth is not None
        labels = images.truth
    else:
        images = as_image_set(generator.integers(0, 256, (60_000, 3, 32, 32), dtype=np.uint8))
        labels = generator.integers(0, 100, len(images))
    rows = sample_rows(len(images), 20_000, seed=0)
    chosen = images.pixels[rows].reshape(len(rows), -1).astype(np.float32)
    points = (
        project(chosen, seed=0)
        if kind == "mnist"
        else generator.random((len(rows), 2), dtype=np.float32)
    )
    names = [
        f"a folder with a long name/another one/{'x' * 40}/{row:08}.png"
        for row in range(len(images))
    ]
    assignments = Assignments(names, labels, generator.random(len(images), dtype=np.float32))
    made = a_run(
        len(images), n_clusters=int(labels.max()) + 1, image_shape=list(images.pixels.shape[1:])
    )
    file = tmp_path / "report.html"
    file.write_text(render_report(made, assignments, images, Projection(rows, points)))
    times, loads, frames = [], [], []
    for _ in range(3):
        page = open_page(file)
        times.append(float(page.evaluate("document.documentElement.dataset.ready")) / 1000)
        loads.append(
            float(page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
            / 1000
        )
        page.focus("#map")
        for key in ("+", "ArrowLeft", "ArrowUp", "-"):
            page.keyboard.press(key)
            page.wait_for_timeout(100)
            frames.append(
                float(page.evaluate("document.getElementById('map').dataset.milliseconds"))
            )
        begin = time.monotonic()
        point_at_an_image(page)
        page.wait_for_function("document.getElementById('tip-picture').dataset.index !== undefined")
        assert time.monotonic() - begin < 3
    found = {
        "images": len(images),
        "points": len(rows),
        "megabytes": round(file.stat().st_size / 1e6, 2),
        "seconds_until_interactive": round(statistics.median(times), 2),
        "seconds_until_loaded": round(statistics.median(loads), 2),
        "milliseconds_to_draw": round(statistics.median(frames), 1),
    }
    assert found["megabytes"] < 15
    assert found["seconds_until_interactive"] < 3
    assert found["milliseconds_to_draw"] < 100
    record_page(f"report, {kind}", found | {"chromium": browser.version})
