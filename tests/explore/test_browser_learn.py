"""Teaching in a real browser: from a bad clustering to a good one, undo, going back, and a kill."""

import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from answering import clusters_of_classes, fit_digits, rows_of_digits
from exploring import Explored, screenshot
from selfsort.metrics import score
from selfsort.runs.results import load_run
from selfsort.runs.versions import list_versions

_, TRUTH = rows_of_digits()


@pytest.fixture(scope="module")
def sorted_digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit_digits(tmp_path_factory.mktemp("digits"), "-k", 4)


@pytest.fixture
def taught(browser: Browser, sorted_digits: Path, tmp_path: Path) -> Iterator[Explored]:
    shutil.copytree(sorted_digits, tmp_path / "run")
    explored = Explored(browser, tmp_path / "run")
    yield explored
    explored.close()
    assert explored.complaints == []


LESSON = 10
"""Answers after which the run learns."""


def accuracy(folder: Path) -> float:
    return score(TRUTH, load_run(folder).assignments.labels).accuracy


def answer(taught: Explored, clusters: list[int], count: int) -> None:
    """Press the key of the right cluster for so many images."""
    page = taught.page
    for left in range(count, 0, -1):
        name = page.locator("#review-name")
        expect(name).to_have_text(re.compile(r"^\d+$"), timeout=60_000)  # the model is loaded first
        shown = name.inner_text()
        page.keyboard.press(str(clusters[int(TRUTH[int(shown)])]))
        if left > 1 or count % LESSON:  # else it learns now
            expect(name).not_to_have_text(shown, timeout=20_000)


def test_ask_me_makes_bad_clusters_good_and_go_back_brings_them_back(taught: Explored) -> None:
    page = taught.page
    folder = taught.folder
    before = accuracy(folder)
    clusters = clusters_of_classes(load_run(folder).assignments.labels)
    expect(page.locator("#rollback")).to_be_hidden()
    page.keyboard.press("a")
    for version in (2, 3, 4):
        answer(taught, clusters, 10)
        taught.says(f"It has learned: the run is version {version} now.")
        screenshot(page, f"ask-{version}.png")
    page.keyboard.press("Escape")
    taught.ready()
    assert accuracy(folder) > before + 0.05
    expect(page.locator("#undo")).to_be_disabled()  # a new version begins without edits
    for version in (3, 2, 1):
        page.locator("#rollback").click()
        taught.button("Go back").click()
        taught.says(f"The run is version {version} now.")
    expect(page.locator("#rollback")).to_be_hidden()
    page.keyboard.press("Control+z")  # the answers of the first version are there to be undone
    taught.says(re.compile("^Undone: "))


@pytest.mark.slow
def test_learn_shows_what_moves_and_waits_for_a_decision(taught: Explored) -> None:
    page = taught.page
    folder = taught.folder
    taught.button("Learn from my changes").click()
    taught.says(re.compile("there is nothing to learn from"))
    labels = load_run(folder).assignments.labels
    clusters = clusters_of_classes(labels)
    page.keyboard.press("a")
    answer(taught, clusters, 5)
    page.keyboard.press("Escape")
    taught.says("Review ended.")
    sizes = taught.sizes()
    taught.button("Learn from my changes").click()
    dialog = page.locator("#changes")
    expect(dialog).to_be_visible(timeout=60_000)
    expect(page.locator("#changes-text")).to_contain_text("would go elsewhere")
    expect(dialog.locator("h3").first).to_have_text(re.compile(r"image.*: cluster \d → cluster \d"))
    screenshot(page, "changes.png")
    page.locator("#changes-reject").click()
    taught.says("What was learned is removed.")
    assert taught.sizes() == sizes
    assert list_versions(folder) == []
    taught.button("Learn from my changes").click()
    expect(dialog).to_be_visible(timeout=60_000)
    page.locator("#changes-accept").click()
    taught.says("The run is version 2 now.")
    assert taught.sizes() != sizes
    assert load_run(folder).run.version == 2


@pytest.mark.slow
def test_a_server_that_is_killed_while_it_learns_loses_nothing(
    taught: Explored, browser: Browser
) -> None:
    page = taught.page
    folder = taught.folder
    clusters = clusters_of_classes(load_run(folder).assignments.labels)
    page.keyboard.press("a")
    answer(taught, clusters, 4)
    page.keyboard.press("Escape")
    taught.says("Review ended.")
    known = load_run(folder)
    taught.button("Learn from my changes").click()
    taught.says(re.compile("Learning: "))
    taught.server.end(signal.SIGKILL)
    after = load_run(folder)
    assert after.run == known.run
    assert (after.assignments.labels == known.assignments.labels).all()
    taught.complaints.clear()  # that nobody answers any more
    again = Explored(browser, folder)
    again.button("Learn from my changes").click()
    expect(again.page.locator("#changes")).to_be_visible(timeout=60_000)
    again.page.locator("#changes-accept").click()
    again.says(re.compile(r"The run is version \d now\."))
    again.close()
    assert again.complaints == []
    taught.complaints.clear()
