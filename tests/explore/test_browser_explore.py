"""Every action of `selfsort explore` in a real browser, through the real command.

SELFSORT_SCREENSHOTS names a folder for pictures of the page.
"""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from conftest import HOSTILE_NAMES
from exploring import CONTRAST, UNNAMED, Explored, Server, screenshot
from selfsort.runs.edits import Accept
from selfsort.runs.folder import JOURNAL
from selfsort.runs.journal import Journal
from selfsort.runs.results import load_run
from selfsort.runs.state import State


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
        return list(csv.DictReader(file))


# Browsing


def test_browse_search_sort_page_and_enlarge(explored: Explored) -> None:
    page, (_, assignments) = explored.page, load_run(explored.folder, edited=False)
    sizes = explored.sizes()
    assert sizes == {
        **{
            f"Cluster {cluster}": int((assignments.labels == cluster).sum()) for cluster in range(4)
        },
        "All images": 130,
        "Outliers": 0,
        "Blank images": 1,
    }
    assert explored.images.count() == min(100, sizes["Cluster 0"])
    shown = [
        int(re.findall(r"(\d+) %$", cell.get_attribute("aria-label") or "")[0])
        for cell in explored.images.all()
    ]
    assert shown == sorted(shown, reverse=True)
    page.get_by_label("Order").select_option("ascending")
    expect(explored.images.first).to_have_attribute(
        "aria-label", re.compile(f"confidence {shown[-1]} %")
    )
    explored.ready()

    page.get_by_label("Search clusters; Enter searches images").fill("ster 2")
    assert list(explored.sizes()) == ["Cluster 2", "All images", "Outliers", "Blank images"]
    page.get_by_label("Search clusters; Enter searches images").fill("")

    explored.open_view("All images")
    assert explored.images.count() == 100
    first = set(explored.images.evaluate_all("cells => cells.map((cell) => cell.title)"))
    explored.button("Next page").click()
    expect(page.locator("#page")).to_have_text("Page 2 of 2")
    explored.ready()
    second = set(explored.images.evaluate_all("cells => cells.map((cell) => cell.title)"))
    assert len(first | second) == 130
    assert explored.button("Next page").is_disabled()
    explored.images.first.focus()
    page.keyboard.press("PageUp")
    expect(page.locator("#page")).to_have_text("Page 1 of 2")
    explored.ready()
    assert set(explored.images.evaluate_all("cells => cells.map((cell) => cell.title)")) == first

    name = "turned.jpg"
    explored.button("Last page").click() if name in second else None
    explored.ready()
    page.get_by_role("option", name=name).dblclick()
    viewer = page.get_by_role("dialog", name="Enlarged image")
    expect(viewer.get_by_role("img", name=name)).to_be_visible()
    assert viewer.locator("img").evaluate(
        "async (image) => (await image.decode(), [image.naturalWidth, image.naturalHeight])"
    ) == [30, 90]
    page.keyboard.press("Escape")
    expect(viewer).to_be_hidden()


def test_hostile_names_are_only_text(explored: Explored) -> None:
    explored.open_view("All images")
    shown = set(explored.images.evaluate_all("cells => cells.map((cell) => cell.title)"))
    explored.button("Next page").click()
    expect(explored.page.locator("#page")).to_have_text("Page 2 of 2")
    explored.ready()
    shown |= set(explored.images.evaluate_all("cells => cells.map((cell) => cell.title)"))
    for name in HOSTILE_NAMES:
        assert name.encode(errors="surrogateescape").decode(errors="replace") in {
            text.replace("\udce9", "�") for text in shown
        }
    assert explored.page.locator("#grid img, #grid script").count() == 0
    explored.open_view("Cluster 0")
    explored.button("Name…").click()
    explored.page.get_by_label("Name", exact=True).fill("<img src=x onerror=alert(1)>")
    explored.button("Save name").click()
    explored.says("Named cluster 0 “<img src=x onerror=alert(1)>”.")
    explored.page.reload()
    explored.ready()
    assert "<img src=x onerror=alert(1)>" in explored.sizes()
    assert explored.page.locator("#clusters img").count() == 0


# Edits


def test_name_merge_undo_and_redo(explored: Explored) -> None:
    page, before = explored.page, explored.sizes()
    expect(explored.button("Undo")).to_be_disabled()
    explored.button("Name…").click()
    page.get_by_label("Name", exact=True).fill("zeros")
    page.keyboard.press("Enter")
    explored.says("Named cluster 0 “zeros”.")
    expect(page.locator("#title")).to_have_text("zeros")

    explored.open_view("Cluster 1")
    explored.button("Name…").click()
    page.get_by_label("Name", exact=True).fill("Zeros")
    explored.button("Save name").click()
    explored.says(re.compile("belongs to cluster 0; merge the two"))
    assert page.locator("#status").evaluate("(status) => status.classList.contains('error')")

    explored.button("Merge…").click()
    explored.choose("zeros")
    explored.says("Merged cluster 1 into zeros.")
    expect(page.locator("#title")).to_have_text("zeros")
    after = explored.sizes()
    assert after["zeros"] == before["Cluster 0"] + before["Cluster 1"]
    assert "Cluster 1" not in after

    assert explored.button("Undo").get_attribute("title") == "Undo: merged cluster 1 into zeros"
    explored.button("Undo").click()
    explored.says("Undone: merged cluster 1 into zeros.")
    page.keyboard.press("Control+z")
    explored.says("Undone: named cluster 0 “zeros”.")
    assert explored.sizes() == before
    explored.button("Redo").click()
    explored.says("Done again: named cluster 0 “zeros”.")
    page.keyboard.press("Control+Shift+Z")
    explored.says("Done again: merged cluster 1 into zeros.")
    assert explored.sizes() == after
    expect(explored.button("Redo")).to_be_disabled()
    page.evaluate(
        "() => { for (const _ of [1, 2]) document.getElementById('undo').click(); }"
    )  # faster than the server
    explored.says("Undone: named cluster 0 “zeros”.")
    assert explored.sizes() == before


def test_cancelled_dialogs_change_nothing(explored: Explored) -> None:
    for name in ("Name…", "Merge…", "Split…", "Export…"):
        explored.button(name).click()
        expect(explored.page.get_by_role("dialog")).to_be_visible()
        if name == "Name…":
            explored.button("Cancel").click()
        else:
            explored.page.keyboard.press("Escape")
        expect(explored.page.get_by_role("dialog")).to_be_hidden()
    explored.says("Ready.")
    assert not (explored.folder / JOURNAL).exists()


def test_select_move_and_mark_with_the_mouse(explored: Explored) -> None:
    page, before = explored.page, explored.sizes()
    explored.images.nth(2).click()
    explored.images.nth(5).click(modifiers=["Shift"])
    explored.images.nth(3).click(modifiers=["Control"])
    assert explored.selected == [2, 4, 5]
    expect(page.locator("#selected")).to_have_text("3 selected")
    names = [explored.images.nth(place).get_attribute("title") for place in (2, 4, 5)]
    explored.button("Move to…").click()
    explored.choose("Cluster 3")
    explored.says("Moved 3 images to cluster 3.")
    assert explored.selected == []
    after = explored.sizes()
    assert (after["Cluster 0"], after["Cluster 3"]) == (
        before["Cluster 0"] - 3,
        before["Cluster 3"] + 3,
    )
    stored = load_run(explored.folder, edited=False)[1].names
    decided = np.flatnonzero(explored.labels().reviewed).tolist()
    moved = [
        stored[row].encode(errors="surrogateescape").decode(errors="replace") for row in decided
    ]
    assert sorted(moved) == sorted(name.replace("\udce9", "�") for name in names if name)

    explored.images.nth(0).click()
    explored.button("Move to…").click()
    explored.choose("New cluster")
    explored.says("Moved 1 image to cluster 4.")
    assert explored.sizes()["Cluster 4"] == 1

    explored.images.nth(1).click()
    explored.button("Mark as outlier").click()
    explored.says("Marked 1 image as outlier.")
    assert explored.sizes()["Outliers"] == 1
    explored.open_view("Outliers")
    assert explored.images.count() == 1
    explored.button("Select page").click()
    explored.button("Not an outlier").click()
    explored.says("Put 1 image back into the clusters.")
    assert (explored.sizes()["Outliers"], explored.images.count()) == (0, 0)
    explored.open_view("Cluster 0")
    explored.button("Select page").click()
    expect(page.locator("#selected")).to_have_text(f"{explored.images.count()} selected")
    explored.button("Clear").click()
    assert explored.selected == []


def test_select_move_and_mark_with_the_keyboard(explored: Explored) -> None:
    page, before = explored.page, explored.sizes()
    explored.images.nth(0).focus()
    for key in ("ArrowRight", "Space", "Shift+ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(key)
    assert explored.selected == [1, 2, 3]
    for key in ("ArrowDown", "ArrowUp", "Home", "End", "Home"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement === document.querySelector('#grid [role=option]')")
    page.keyboard.press("Escape")
    assert explored.selected == []
    page.keyboard.press("Space")
    page.keyboard.press("m")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.type("2")
    page.keyboard.press("Enter")
    explored.says("Moved 1 image to cluster 2.")
    page.wait_for_function(
        "document.activeElement?.getAttribute('role') === 'option'"
    )  # the keyboard can go on
    explored.ready()
    page.keyboard.press("Control+a")
    expect(page.locator("#grid [role=option][aria-selected=true]")).to_have_count(
        before["Cluster 0"] - 1
    )
    assert len(explored.selected) == explored.images.count()
    page.keyboard.press("Escape")
    page.keyboard.press("Space")
    page.keyboard.press("o")
    explored.says("Marked 1 image as outlier.")
    page.wait_for_function("document.activeElement?.getAttribute('role') === 'option'")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Enlarged image")).to_be_visible()
    page.keyboard.press("Escape")
    for text in ("Undone: marked 1 image as outlier.", "Undone: moved 1 image to cluster 2."):
        page.keyboard.press("Control+z")
        explored.says(text)
    assert explored.sizes() == before


def split_and_merge(explored: Explored) -> None:
    page = explored.page
    explored.button("Name…").click()
    page.get_by_label("Name", exact=True).fill("mixed")
    page.keyboard.press("Enter")
    explored.says("Named cluster 0 “mixed”.")
    explored.button("Split…").click()
    page.get_by_label("Number of parts").fill("3")
    explored.button("Split").click()
    explored.says("Split mixed into 3.")
    explored.open_view("Cluster 1")
    explored.button("Merge…").click()
    explored.choose("Cluster 2")
    explored.says("Merged cluster 1 into cluster 2.")


def test_split(explored: Explored) -> None:
    before = explored.sizes()
    split_and_merge(explored)
    after = explored.sizes()
    assert sum(after[name] for name in ("mixed", "Cluster 4", "Cluster 5")) == before["Cluster 0"]
    for text in (
        "Undone: merged cluster 1 into cluster 2.",
        "Undone: split mixed into 3.",
        "Undone: named cluster 0 “mixed”.",
    ):
        explored.page.keyboard.press("Control+z")
        explored.says(text)
    assert explored.sizes() == before


@pytest.mark.slow
def test_predict_afterwards(explored: Explored, tmp_path: Path) -> None:
    split_and_merge(explored)
    source = json.loads((explored.folder / "run.json").read_text())["reading"]["source"]
    command = [
        sys.executable,
        "-m",
        "selfsort",
        "predict",
        str(explored.folder),
        source,
        "--out",
        str(tmp_path / "new.csv"),
    ]
    subprocess.run(
        [*command, "--copy-to", str(tmp_path / "copies")], check=True, capture_output=True
    )
    predicted = rows(tmp_path / "new.csv")
    assert [int(row["cluster"]) for row in predicted] == explored.labels().labels.tolist()
    assert {row["cluster_name"] for row in predicted if row["cluster"] == "0"} == {"mixed"}
    assert len(list((tmp_path / "copies" / "mixed").iterdir())) == explored.sizes()["mixed"]


def test_review_with_the_keyboard(explored: Explored) -> None:
    page, (_, assignments) = explored.page, load_run(explored.folder, edited=False)
    order = np.argsort(assignments.confidence, kind="stable").tolist()
    clean = [
        name.encode(errors="surrogateescape").decode(errors="replace") for name in assignments.names
    ]
    name = page.locator("#review-name")

    def shows(row: int) -> None:
        page.wait_for_function(
            "([id, text]) => document.getElementById(id).textContent.replace('\\udce9', '�') === "
            "text",
            arg=["review-name", clean[row]],
        )

    page.keyboard.press("r")
    shows(order[0])
    expect(page.locator("#review-left")).to_have_text(re.compile("^130 images"))
    target = (int(assignments.labels[order[0]]) + 1) % 4
    page.keyboard.press(str(target))
    explored.says(f"Moved 1 image to cluster {target}.")
    shows(order[1])
    page.keyboard.press("Enter")
    explored.says("Accepted 1 image.")
    shows(order[2])
    page.keyboard.press("o")
    explored.says("Marked 1 image as outlier.")
    shows(order[3])
    page.keyboard.press("ArrowRight")
    shows(order[4])
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    shows(order[2])
    expect(page.locator("#review-facts")).to_have_text(re.compile("^outlier, "))
    page.keyboard.press("Enter")  # accepted after all
    explored.says("Put 1 image back into the clusters.")
    shows(order[3])
    page.locator("#review-clusters").get_by_role("button", name="Cluster 2").click()
    explored.says("Moved 1 image to cluster 2.")
    shows(order[4])
    page.keyboard.press("Control+z")
    explored.says("Undone: moved 1 image to cluster 2.")
    shows(order[3])
    state = explored.labels()
    assert sorted(np.flatnonzero(state.reviewed).tolist()) == sorted(order[:3])
    assert state.labels[order[0]] == target
    assert not state.outliers.any()
    page.keyboard.press("Escape")
    expect(page.locator("#browse")).to_be_visible()
    expect(name).to_be_hidden()


def test_reviewing_everything_ends_in_words(browser: Browser, run_folder: Path) -> None:
    record, assignments = load_run(run_folder, edited=False)
    journal = Journal(run_folder, State.of(assignments.labels, record.n_clusters))
    journal.add(Accept(list(range(3, 130))))
    journal.close()
    explored = Explored(browser, run_folder)
    explored.page.keyboard.press("r")
    for left in (3, 2, 1):
        expect(explored.page.locator("#review-left")).to_have_text(
            re.compile(f"^{left} images? to")
        )
        explored.page.keyboard.press("Enter")
    expect(explored.page.locator("#review-name")).to_have_text("All images have been reviewed.")
    expect(explored.button("Accept Enter")).to_be_disabled()
    assert explored.labels().reviewed.all()
    explored.close()
    assert explored.complaints == []


def test_export_each_form(explored: Explored) -> None:
    page, folder = explored.page, explored.folder
    original = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    explored.button("Name…").click()
    page.get_by_label("Name", exact=True).fill("a/b")
    page.keyboard.press("Enter")
    explored.says("Named cluster 0 “a/b”.")
    explored.images.nth(0).click()
    page.keyboard.press("o")
    explored.says("Marked 1 image as outlier.")
    for kind, place in (
        ("assignments.csv", "assignments.csv"),
        ("Labels for training", "labels"),
        ("Folders of copies", "folders"),
    ):
        explored.button("Export…").click()
        page.get_by_role("radio", name=kind).check()
        explored.button("Export").click()
        explored.says(f"Wrote {folder / 'export' / place}")
    state = explored.labels()
    table = rows(folder / "export" / "assignments.csv")
    assert [int(row["cluster"]) for row in table] == state.labels.tolist()
    assert [row["outlier"] for row in table] == [str(int(flag)) for flag in state.outliers]
    assert {row["cluster_name"] for row in table if row["cluster"] == "0"} == {"a/b"}
    assert len(rows(folder / "export" / "labels" / "labels.csv")) == 129
    assert (np.load(folder / "export" / "labels" / "labels.npy") == -1).sum() == 1
    assert len(list((folder / "export" / "folders" / "a_b").iterdir())) == len(state.members(0))
    assert len(list((folder / "export" / "folders" / "outliers").iterdir())) == 1
    assert {name: (folder / name).read_bytes() for name in original if name != JOURNAL} == original


# Crashes and strangers


def test_a_killed_server_loses_no_edit(explored: Explored) -> None:
    explored.button("Name…").click()
    explored.page.get_by_label("Name", exact=True).fill("survives")
    explored.page.keyboard.press("Enter")
    explored.says("Named cluster 0 “survives”.")
    explored.images.nth(0).click()
    explored.page.keyboard.press("o")
    explored.says("Marked 1 image as outlier.")
    explored.server.end(signal.SIGKILL)
    explored.images.nth(0).click()
    explored.page.keyboard.press("o")
    explored.says(re.compile("does not answer; is it still running"))
    explored.complaints.clear()  # the browser's own words about it

    with open(explored.folder / JOURNAL, "ab") as file:
        file.write(b'{"crc":"1234')  # an entry cut off by the crash
    explored.server = Server(explored.folder, "--no-browser")
    explored.open()
    assert (explored.sizes()["Outliers"], "survives" in explored.sizes()) == (1, True)
    explored.page.keyboard.press("Control+z")
    explored.says("Undone: marked 1 image as outlier.")
    explored.page.keyboard.press("Control+Shift+Z")
    explored.says("Done again: marked 1 image as outlier.")


def test_another_tab_cannot_undo_what_it_does_not_show(explored: Explored) -> None:
    other = explored.context.new_page()
    other.goto(explored.server.address)
    expect(other.locator("#status")).to_have_text("Ready.")
    explored.images.nth(0).click()
    explored.page.keyboard.press("o")
    explored.says("Marked 1 image as outlier.")
    other.locator("#grid [role=option]").nth(1).click()
    other.keyboard.press("o")
    expect(other.locator("#status")).to_have_text(re.compile("changed elsewhere meanwhile"))
    assert explored.labels().outliers.sum() == 1
    other.close()


def test_another_site_can_neither_read_nor_change(explored: Explored, tmp_path: Path) -> None:
    """Even one that has learned the address: its requests come with another Origin, or from another
    site.
    """
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("<!doctype html><title>another site</title>")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "site"))
    handler.log_message = lambda *args: None  # type: ignore[attr-defined]
    site = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=site.serve_forever)
    thread.start()
    try:
        stranger = explored.context.new_page()
        stranger.goto(f"http://localhost:{site.server_port}/")
        tried = stranger.evaluate(
            """async (address) => {
              const edit = JSON.stringify(
                { op: "rename", cluster: 0, name: "taken over", version: 0 });
              const ask = (path, options) => fetch(address + path, options)
                .then((answer) => answer.type, () => "refused");
              const headers = { "Content-Type": "application/json" };
              const image = new Image();
              const shown = new Promise((resolve) => {
                image.onload = () => resolve("shown");
                image.onerror = () => resolve("refused");
              });
              image.src = address + "api/image/0";
              return [
                await ask("api/edit", { method: "POST", body: edit, mode: "no-cors" }),
                await ask("api/edit", { method: "POST", body: edit, headers }),
                await ask("api/state", {}),
                await shown,
              ];
            }""",
            explored.server.address,
        )
        assert tried[1:] == ["refused"] * 3
        assert tried[0] in (
            "opaque",
            "refused",
        )  # sent without being able to read the answer, which is 403
        stranger.close()
    finally:
        site.shutdown()
        thread.join()
        site.server_close()
    assert not (explored.folder / JOURNAL).exists()
    assert len([line for line in explored.server.log if line.startswith("refused: ")]) >= 3


# For everyone


def test_the_picture_in_the_readme(browser: Browser, photos_run: Path, tmp_path: Path) -> None:
    """Names a cluster and selects images; SELFSORT_SHOWN_RUN is the run to show (a copy of it, so
    that it stays as it is).
    """
    shown = Path(os.environ.get("SELFSORT_SHOWN_RUN") or photos_run)
    explored = Explored(browser, shutil.copytree(shown, tmp_path / "shown" / shown.name))
    page = explored.page
    explored.button("Name…").click()
    page.get_by_label("Name", exact=True).fill("ones")
    page.keyboard.press("Enter")
    explored.says("Named cluster 0 “ones”.")
    explored.open_view("Cluster 2")
    page.get_by_label("Order").select_option("ascending")
    page.wait_for_timeout(500)
    explored.ready()
    explored.images.nth(2).click()
    for place in (4, 5):
        explored.images.nth(place).click(modifiers=["Control"])
    expect(page.locator("#selected")).to_have_text("3 selected")
    page.mouse.move(0, 0)
    page.wait_for_timeout(300)
    screenshot(page, "explore.png")
    page.emulate_media(color_scheme="dark")
    page.keyboard.press("r")
    expect(page.locator("#review-name")).not_to_be_empty()
    page.wait_for_timeout(500)
    screenshot(page, "explore-review.png")
    explored.close()
    assert explored.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_and_names_for_screen_readers(explored: Explored, scheme: str) -> None:
    page = explored.page
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    explored.images.nth(1).click()
    page.wait_for_timeout(300)  # colours change gradually
    for key in ("", "r"):
        if key:
            page.keyboard.press(key)
            expect(page.locator("#review-name")).not_to_be_empty()
            page.wait_for_timeout(300)
        assert page.evaluate(CONTRAST) == []
        assert page.evaluate(UNNAMED) == []
    page.keyboard.press("Escape")
    explored.button("Export…").click()
    page.wait_for_timeout(300)
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(UNNAMED) == []
    tree = page.get_by_role("dialog").aria_snapshot()
    assert "Labels for training" in tree


FRAME = """(image) => {
  const box = (element) => element.getBoundingClientRect().toJSON();
  const { naturalWidth: width, naturalHeight: height } = image;
  const fit = getComputedStyle(image).objectFit;
  return { image: box(image), frame: box(image.parentElement), fit, shape: [width, height] };
}"""


@pytest.mark.parametrize("width", [400, 1400])
def test_the_whole_picture_fits_its_frame(explored: Explored, width: int) -> None:
    """Of a tall picture nothing is cut off while somebody judges it."""
    page = explored.page
    page.set_viewport_size({"width": width, "height": 800})
    explored.open_view("All images")
    while not page.get_by_role("option", name="turned.jpg").count():
        explored.button("Next page").click()
        explored.ready()
    page.get_by_role("option", name="turned.jpg").dblclick()
    page.locator("#viewer-image").evaluate("(image) => image.decode()")
    enlarged = page.locator("#viewer-image").evaluate(FRAME)
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    expect(page.locator("#review-name")).not_to_be_empty()
    page.evaluate(
        """async (source) => {
          const image = document.getElementById("review-image");
          image.src = source;
          await image.decode();
        }""",
        page.locator("#viewer-image").get_attribute("src"),
    )
    for found in (enlarged, page.locator("#review-image").evaluate(FRAME)):
        image = found["image"]
        frame = found["frame"]
        assert found["shape"] == [30, 90]
        assert found["fit"] == "contain"
        assert image["top"] >= frame["top"]
        assert image["bottom"] <= frame["bottom"]
        assert image["left"] >= frame["left"]
        assert image["right"] <= frame["right"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [320, 400, 768, 1400])
def test_the_page_fits_every_screen(explored: Explored, width: int) -> None:
    page = explored.page
    page.set_viewport_size({"width": width, "height": 800})
    for key in ("", "r"):
        if key:
            page.keyboard.press(key)
            expect(page.locator("#review-name")).not_to_be_empty()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_control_can_be_reached_with_tab(explored: Explored) -> None:
    page = explored.page
    explored.images.nth(0).click()
    wanted = {
        "search",
        "undo",
        "redo",
        "start-review",
        "export",
        "rename",
        "merge",
        "split",
        "order",
        "move",
        "outlier",
        "next",
    }
    disabled = set(
        page.evaluate(
            "() => [...document.querySelectorAll(':disabled')].map((element) => element.id)"
        )
    )
    page.evaluate("() => document.activeElement.blur()")
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "() => document.activeElement.id || document.activeElement.getAttribute('role')"
            )
        )
    assert wanted - disabled <= reached
    assert "option" in reached
