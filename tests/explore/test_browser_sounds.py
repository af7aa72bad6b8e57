"""Sounds in `selfsort explore`, in a real browser: seen, played, moved, and safely served."""

import urllib.error
import urllib.request
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from exploring import Explored, screenshot
from selfsort.workflow.fit import sort_folder
from sounding import write_clips

QUICK = {"training.min_steps": 2, "training.min_images": 0, "network.width": 4}


@pytest.fixture(scope="module")
def sound_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sounds")
    write_clips(folder / "clips", 6)
    sort_folder(
        folder / "clips",
        out=folder / "run",
        kind="sounds",
        n_clusters=3,
        settings=QUICK,
        report=False,
    )
    return folder / "run"


def fetch(address: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    request = urllib.request.Request(address, headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


def test_each_format_is_played_and_a_clip_can_be_moved(browser: Browser, sound_run: Path) -> None:
    explored = Explored(browser, sound_run)
    try:
        page = explored.page
        assert explored.sizes()["All images"] == 18
        explored.open_view("All images")
        screenshot(page, "sounds.png")
        player = page.locator("#viewer-clip")
        heard = set()
        explored.images.first.dblclick()
        for _ in range(18):
            expect(page.locator("#viewer-image")).to_be_visible()
            page.wait_for_function(
                "() => { const clip = document.getElementById('viewer-clip');"
                " return clip.duration > 0.2 && clip.readyState >= 2 && !clip.error; }"
            )
            heard.add(page.locator("#viewer-name").inner_text().rpartition(".")[2])
            page.keyboard.press("ArrowRight")
        assert heard == {"wav", "flac", "ogg"}
        screenshot(page, "sound.png")
        player.evaluate("clip => { clip.pause(); clip.currentTime = 0; }")
        page.keyboard.press("p")
        page.wait_for_function("() => document.getElementById('viewer-clip').currentTime > 0")
        page.keyboard.press("Escape")
        page.wait_for_function("() => document.getElementById('viewer-clip').paused")
        explored.images.first.click()
        page.keyboard.press("o")
        explored.says("Marked 1 image as outlier.")
        page.keyboard.press("r")
        expect(page.locator("#review-clip")).to_be_visible()
        page.wait_for_function("() => document.getElementById('review-clip').readyState >= 2")
        screenshot(page, "review-sound.png")
        assert not explored.complaints
    finally:
        explored.server.end()
        explored.context.close()


def test_clips_are_sent_in_parts_and_to_nobody_else(browser: Browser, sound_run: Path) -> None:
    explored = Explored(browser, sound_run)
    try:
        clip = f"{explored.server.address}api/clip/0"
        original = sound_run.parent / "clips" / "0" / "000.wav"
        status, headers, content = fetch(clip)
        assert (status, content) == (200, original.read_bytes())
        assert headers["content-type"] == "audio/wav"
        assert headers["x-content-type-options"] == "nosniff"
        status, headers, part = fetch(clip, Range="bytes=100-199")
        assert (status, part) == (206, content[100:200])
        assert headers["content-range"] == f"bytes 100-199/{len(content)}"
        assert fetch(clip, Range="bytes=99999999-")[0] == 416
        assert fetch(clip, Range="bytes=" + ",".join(["0-1"] * 5000))[0] in (200, 206, 400, 431)
        assert fetch(clip, Origin="http://evil.example")[0] == 403
        assert fetch(clip, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
        assert fetch(f"{explored.server.origin}/api/clip/0")[0] == 403
        assert fetch(f"{explored.server.address}api/clip/18")[0] == 400
        assert fetch(f"{explored.server.address}api/clip/..%2f..%2frun.json")[0] in (400, 403, 404)
        gone = original.rename(original.with_suffix(".away"))
        try:
            assert fetch(clip)[0] == 410
            original.symlink_to("/etc/passwd")
            assert fetch(clip)[0] == 410
        finally:
            original.unlink(missing_ok=True)
            gone.rename(original)
    finally:
        explored.server.end()
        explored.context.close()
