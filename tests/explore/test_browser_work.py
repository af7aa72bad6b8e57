"""Working with many images in a real browser: choosing clusters by their pictures, dragging, the
map, similar images and suggestions.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from exploring import CONTRAST, UNNAMED, Explored, screenshot
from selfsort.runs.arrays import load_vectors, save_vectors
from selfsort.runs.edits import Move
from selfsort.runs.folder import VECTORS
from selfsort.runs.journal import Journal
from selfsort.runs.results import load_run
from selfsort.runs.state import State


def item_rows(explored: Explored) -> list[int]:
    """The rows of the images that the grid shows."""
    names = {
        name.encode(errors="surrogateescape").decode(errors="replace"): row
        for row, name in enumerate(load_run(explored.folder, edited=False)[1].names)
    }
    shown = explored.images.evaluate_all("cells => cells.map((cell) => cell.title)")
    return [names[title.replace("\udce9", "\ufffd")] for title in shown]


# Choosing a cluster


def test_targets_have_pictures_and_the_likeliest_comes_first(explored: Explored) -> None:
    page = explored.page
    _, assignments = load_run(explored.folder, edited=False)
    vectors = load_vectors(explored.folder, assignments)
    assert vectors is not None
    explored.images.nth(0).click()
    (row,) = [item_rows(explored)[0]]
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    near = np.argsort(((units - units[row]) ** 2).sum(axis=1), kind="stable")
    near = near[near != row][:10]
    votes = np.bincount(assignments.labels[near], minlength=4)
    votes[assignments.labels[row]] = -1  # is not offered
    with page.expect_response("**/api/likely"):
        page.keyboard.press("m")
    first = page.locator("#chooser-list button").first
    expect(first).to_be_visible()
    page.wait_for_timeout(100)
    number = int(re.findall(r"Cluster (\d)", first.inner_text())[0])
    assert votes[number] == votes.max()
    page.wait_for_function(
        "() => [...document.querySelectorAll('#chooser-list .picture')]"
        ".every((picture) => picture.style.backgroundImage)"
    )
    assert page.locator("#chooser-list button").count() == 4  # three clusters and a new one
    page.keyboard.press("Escape")


def test_a_new_cluster_is_named_while_images_are_moved_and_one_undo_takes_it_back(
    explored: Explored,
) -> None:
    page, before = explored.page, explored.sizes()
    explored.images.nth(0).click()
    explored.images.nth(3).click(modifiers=["Shift"])
    page.keyboard.press("m")
    page.keyboard.type("<b>birds</b>")
    page.keyboard.press("Enter")
    explored.says("Moved 4 images to cluster 4 “<b>birds</b>”.")
    assert explored.sizes()["<b>birds</b>"] == 4
    assert explored.labels().names == {4: "<b>birds</b>"}
    page.keyboard.press("Control+z")
    explored.says("Undone: moved 4 images to cluster 4 “<b>birds</b>”.")
    assert explored.sizes() == before


def test_any_of_many_clusters_is_reached_by_its_name(browser: Browser, run_folder: Path) -> None:
    """There are keys for 33 clusters only."""
    record, assignments = load_run(run_folder, edited=False)
    journal = Journal(run_folder, State.of(assignments.labels, record.n_clusters))
    for number in range(40):
        journal.add(Move([number], 4 + number, f"kind {number}"))
    journal.close()
    explored = Explored(browser, run_folder)
    page = explored.page
    page.keyboard.press("r")
    expect(page.locator("#review-name")).not_to_be_empty()
    row = next(int(row) for row in np.argsort(assignments.confidence, kind="stable") if row >= 40)
    assert page.locator("#review-clusters kbd").count() == 33
    page.keyboard.press("/")
    page.keyboard.type("kind 39")
    page.keyboard.press("Enter")
    explored.says("Moved 1 image to kind 39.")
    assert explored.labels().labels[row] == 43
    page.keyboard.press("/")
    page.keyboard.type("something new")
    page.keyboard.press("Enter")
    explored.says("Moved 1 image to cluster 44 “something new”.")
    explored.close()
    assert explored.complaints == []


@pytest.mark.parametrize("target", ["Cluster 2", "Outliers", "New cluster"])
def test_images_are_dragged_to_a_cluster(explored: Explored, target: str) -> None:
    page, before = explored.page, explored.sizes()
    explored.images.nth(1).click()
    explored.images.nth(2).click(modifiers=["Shift"])
    place = page.locator("#clusters").get_by_role("button", name=target)
    explored.images.nth(2).drag_to(place)
    if target == "New cluster":
        page.get_by_label("Name", exact=True).fill("dropped")
        explored.button("Move").click()
    explored.says(re.compile("2 images"))
    named = "dropped" if target == "New cluster" else target
    assert explored.sizes()[named] == before.get(target, 0) + 2
    explored.images.nth(0).drag_to(page.locator("#clusters [data-view=all]"))  # no place to drop
    assert explored.sizes()[named] == before.get(target, 0) + 2


def test_a_single_image_is_dragged_without_selecting_it_first(explored: Explored) -> None:
    before = explored.sizes()
    explored.images.nth(4).drag_to(
        explored.page.locator("#clusters").get_by_role("button", name="Cluster 3")
    )
    explored.says("Moved 1 image to cluster 3.")
    assert explored.sizes()["Cluster 3"] == before["Cluster 3"] + 1


# Many at once


def test_all_pages_are_selected_and_moved_at_once(explored: Explored) -> None:
    page = explored.page
    explored.open_view("All images")
    explored.button("Select all 130").click()
    expect(page.locator("#selected")).to_have_text("130 selected")
    explored.button("Clear").click()
    page.keyboard.press("Control+a")
    expect(page.locator("#selected")).to_have_text("130 selected")
    explored.button("Next page").click()
    explored.ready()
    assert len(explored.selected) == 30
    page.keyboard.press("m")
    page.keyboard.type("everything")
    page.keyboard.press("Enter")
    explored.says("Moved 130 images to cluster 4 “everything”.")
    assert explored.sizes()["everything"] == 130


def test_thumbnails_grow_and_get_finer_pictures(explored: Explored) -> None:
    page = explored.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    small = explored.images.first.bounding_box()
    page.get_by_label("Size").fill("240")
    page.wait_for_function("document.querySelector('#grid [role=option]').offsetWidth >= 240")
    large = explored.images.first.bounding_box()
    assert small
    assert large
    assert large["width"] > 2 * small["width"]
    page.wait_for_timeout(200)
    assert any("fine=1" in address for address in asked)
    title = explored.images.first.get_attribute("title")
    assert title in load_run(explored.folder, edited=False)[1].names


def test_the_enlarged_view_steps_through_the_page(explored: Explored) -> None:
    page = explored.page
    explored.images.nth(0).dblclick()
    names = explored.images.evaluate_all("cells => cells.map((cell) => cell.title)")
    for place, key in ((0, "ArrowRight"), (1, "ArrowRight"), (2, "ArrowLeft"), (1, "Escape")):
        expect(page.locator("#viewer-name")).to_have_text(names[place])
        page.keyboard.press(key)
    explored.images.nth(0).dblclick()
    expect(explored.button("Previous ←")).to_be_disabled()
    assert page.locator("#viewer-examples .picture").count() == 5


def test_review_shows_progress_and_examples_to_compare_with(explored: Explored) -> None:
    page = explored.page
    page.keyboard.press("r")
    strips = page.locator("#review-compare .strip")
    expect(strips.first).to_contain_text("It is in")
    assert 1 <= strips.count() <= 3
    width = strips.first.locator(".picture").first.bounding_box()
    assert width
    assert width["width"] >= 64
    progress = page.get_by_role("progressbar", name="Reviewed")
    assert progress.evaluate("(bar) => [bar.value, bar.max]") == [0, 130]
    page.keyboard.press("Enter")
    explored.says("Accepted 1 image.")
    assert progress.evaluate("(bar) => [bar.value, bar.max]") == [1, 130]


# Similar images, the map, suggestions


@pytest.mark.parametrize("is_known", [True, False])
def test_similar_images_come_nearest_first(
    browser: Browser, run_folder: Path, is_known: bool
) -> None:
    """Vectors that are not there yet are computed and kept."""
    _, assignments = load_run(run_folder, edited=False)
    expected = load_vectors(run_folder, assignments)
    assert expected is not None
    if not is_known:
        (run_folder / VECTORS).unlink()
    explored = Explored(browser, run_folder)
    page = explored.page
    explored.images.nth(2).click()
    (row,) = [item_rows(explored)[2]]
    page.keyboard.press("n")
    expect(page.locator("#title")).to_have_text(re.compile("^Similar to "), timeout=60_000)
    explored.says("The most similar images of the whole set, the nearest first.")
    shown = item_rows(explored)
    vectors = load_vectors(run_folder, assignments)
    assert vectors is not None
    assert np.allclose(np.abs(vectors), np.abs(expected), atol=0.05)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    distances = ((units - units[row]) ** 2).sum(axis=1)[shown]
    assert shown[0] == row
    assert (np.diff(distances[1:]) >= -1e-6).all()
    assert page.locator("#count").inner_text() == "130 images"
    explored.close()
    assert explored.complaints == []


def test_a_lasso_on_the_map_selects_and_the_selection_is_moved(explored: Explored) -> None:
    page = explored.page
    page.keyboard.press("g")
    canvas = page.locator("#map")
    expect(canvas).to_be_visible()
    explored.says("Every image of the run is a dot. Draw a line around some to select them.")
    box = canvas.bounding_box()
    assert box
    left, top = box["x"] + 4, box["y"] + 4
    right, bottom = box["x"] + box["width"] - 4, box["y"] + box["height"] - 4
    page.mouse.move(left, top)
    page.mouse.down()
    for x, y in ((right, top), (right, bottom), (left, bottom), (left, top + 1)):
        page.mouse.move(x, y, steps=4)
    page.mouse.up()
    expect(page.locator("#selected")).to_have_text("130 selected")
    page.keyboard.press("o")
    explored.says("Marked 130 images as outlier.")
    page.keyboard.press("Control+z")
    explored.says("Undone: marked 130 images as outlier.")

    explored.open_view("Cluster 1")  # the others are faded, and no lasso takes them
    own = explored.sizes()["Cluster 1"]
    page.mouse.move(left, top)
    page.mouse.down()
    for x, y in ((right, top), (right, bottom), (left, bottom), (left, top + 1)):
        page.mouse.move(x, y, steps=4)
    page.mouse.up()
    expect(page.locator("#selected")).to_have_text(f"{own} selected")
    explored.button("Show selected").click()
    expect(page.locator("#title")).to_have_text("Selected images")
    explored.ready()
    assert explored.images.count() == min(own, 100)
    assert len(explored.selected) == min(own, 100)


def test_the_map_moves_zooms_and_enlarges(explored: Explored) -> None:
    page = explored.page
    explored.button("Map").click()
    explored.says("Every image of the run is a dot. Draw a line around some to select them.")
    canvas = page.locator("#map")

    def drawn() -> str:
        return str(canvas.evaluate("(canvas) => canvas.toDataURL()"))

    first = drawn()
    explored.button("Zoom in").click()
    page.wait_for_timeout(100)
    second = drawn()
    assert second != first
    explored.button("Lasso").click()
    box = canvas.bounding_box()
    assert box
    page.mouse.move(box["x"] + 300, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 340, box["y"] + 230, steps=4)
    page.mouse.up()
    page.wait_for_timeout(100)
    assert drawn() != second
    expect(page.locator("#selected")).to_have_text("none selected")
    canvas.focus()
    page.keyboard.press("0")
    page.keyboard.press("n")
    expect(page.locator("#map-tip")).to_contain_text("confidence")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Enlarged image")).to_be_visible()
    page.keyboard.press("Escape")
    explored.button("Map").click()
    expect(page.locator("#grid")).to_be_visible()


def two_kinds(folder: Path) -> None:
    """Vectors with which clusters 0 and 1 are one group, and cluster 2 is two."""
    _, assignments = load_run(folder, edited=False)
    generator = np.random.default_rng(0)
    centres = np.eye(6)[[0, 0, 1, 3]][assignments.labels]
    members = np.flatnonzero(assignments.labels == 2)
    centres[members[: len(members) // 2]] = np.eye(6)[2]
    noise = 0.1 * generator.normal(size=centres.shape)
    save_vectors(folder, (centres + noise).astype(np.float32), assignments)


def test_suggestions_say_why_and_are_followed(browser: Browser, run_folder: Path) -> None:
    two_kinds(run_folder)
    explored = Explored(browser, run_folder)
    page, before = explored.page, explored.sizes()
    explored.button("Suggestions…").click()
    cards = page.locator("#suggestions-list section")
    merge = cards.filter(has_text="look alike")
    expect(merge).to_have_count(1)
    expect(merge).to_contain_text(re.compile(r"\d+% of the nearest neighbours of the images in"))
    split = cards.filter(has_text="Cluster 2 holds two kinds")
    expect(split).to_contain_text(re.compile("falls into groups of"))
    assert split.locator(".picture").count() == 10
    split.get_by_role("button").click()
    explored.says("Split cluster 2 into 2.")
    after = explored.sizes()
    assert after["Cluster 2"] + after["Cluster 4"] == before["Cluster 2"]
    assert abs(after["Cluster 2"] - after["Cluster 4"]) <= 1
    explored.button("Suggestions…").click()
    cards.filter(has_text="look alike").get_by_role("button").click()
    explored.says(re.compile("^Merged cluster [01] into cluster [01].$"))
    explored.button("Suggestions…").click()
    expect(page.locator("#suggestions-list")).to_contain_text("Coarser: ")
    page.keyboard.press("Escape")
    explored.close()
    assert explored.complaints == []


def test_images_are_searched_and_odd_ones_listed(browser: Browser, run_folder: Path) -> None:
    record = json.loads((run_folder / "run.json").read_text())
    record["oddities"] = {"similar": [[8, 9, 10]]}
    (run_folder / "run.json").write_text(json.dumps(record))
    explored = Explored(browser, run_folder)
    page = explored.page
    explored.open_view("Nearly identical images")
    assert item_rows(explored) == [8, 9, 10]
    search = page.get_by_label("Search clusters; Enter searches images")
    search.fill("<img")
    search.press("Enter")
    expect(page.locator("#title")).to_have_text("Found: <img")
    explored.says("1 image with “<img” in the name or metadata.")
    assert explored.images.count() == 1
    explored.images.first.click()
    page.keyboard.press("o")
    explored.says("Marked 1 image as outlier.")
    expect(page.locator("#title")).to_have_text("Found: <img")
    explored.close()
    assert explored.complaints == []


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1400, "light"), (1400, "dark")])
def test_every_part_fits_the_screen_and_can_be_read(
    explored: Explored, width: int, scheme: str
) -> None:
    page = explored.page
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 800})

    def check(part: str) -> None:
        page.wait_for_timeout(250)  # colours change gradually
        screenshot(page, f"explore-{part}-{width}-{scheme}.png")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, part
        assert page.evaluate(CONTRAST) == [], part
        assert page.evaluate(UNNAMED) == [], part

    explored.images.nth(0).click()
    page.keyboard.press("m")
    expect(page.locator("#chooser-list button").first).to_be_visible()
    check("move")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    expect(page.locator("#viewer-examples .strip")).to_be_visible()
    check("viewer")
    page.keyboard.press("Escape")
    explored.button("Suggestions…").click()
    expect(page.get_by_role("dialog", name="Suggestions")).to_be_visible()
    check("suggestions")
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    expect(page.locator("#review-compare .strip").first).to_be_visible()
    check("review")
    page.keyboard.press("Escape")
    explored.ready()
    page.keyboard.press("g")
    explored.says("Every image of the run is a dot. Draw a line around some to select them.")
    check("map")
