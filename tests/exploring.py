"""Starts the real `selfsort explore` for tests and talks to it, also through a browser."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from playwright.sync_api import Browser, Locator, Page, expect

from selfsort.runs.journal import load_history
from selfsort.runs.results import load_run
from selfsort.runs.state import State


class Server:
    """`selfsort explore` in a process of its own; `address` holds the token, `log` what it wrote to
    standard error.
    """

    def __init__(
        self, folder: Path, *options: str, environment: dict[str, str] | None = None
    ) -> None:
        command = [sys.executable, "-m", "selfsort", "explore", str(folder), *options]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        )
        assert self.process.stdout
        assert self.process.stderr
        line, self.log = self.process.stdout.readline(), list[str]()
        found = re.search(r"(http://127\.0\.0\.1:(\d+))/([\w-]{20,})/$", line.strip())
        assert found, line + self.process.stderr.read()
        self.address, self.origin, self.port, self.token = (
            found[0],
            found[1],
            int(found[2]),
            found[3],
        )
        self.reader = threading.Thread(
            target=lambda stream: self.log.extend(stream), args=[self.process.stderr]
        )
        self.reader.start()

    def end(self, number: int = signal.SIGINT) -> int:
        """Send a signal, wait, answer the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        self.reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream
            stream.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.end(signal.SIGKILL)


def screenshot(page: Page, name: str) -> None:
    if folder := os.environ.get("SELFSORT_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / name)


class Explored:
    """A page on a run; whatever the browser complains about fails the test."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self.folder, self.server = folder, Server(folder, "--no-browser")
        self.context = browser.new_context(viewport={"width": 1280, "height": 800})
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.complaints: list[str] = []
        self.page.on(
            "console", lambda message: self.note(message.text) if message.type == "error" else None
        )
        self.page.on("pageerror", lambda error: self.note(str(error)))
        self.page.on("dialog", lambda dialog: self.note(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.foreign(request.url))
        try:
            self.open()
        except BaseException:
            self.server.end(signal.SIGKILL)
            raise

    def note(self, complaint: str) -> None:
        if "status of 400" not in complaint:  # an edit that was refused, which the page explains
            self.complaints.append(complaint)

    def foreign(self, address: str) -> None:
        if not address.startswith((self.server.address, "data:")):
            self.complaints.append(f"asked for {address}")

    def open(self) -> None:
        self.page.goto(self.server.address)
        self.ready()

    def ready(self) -> None:
        expect(self.page.locator("#grid")).to_have_attribute("aria-busy", "false", timeout=20_000)

    def says(self, text: str | re.Pattern[str]) -> None:
        expect(self.page.locator("#status")).to_have_text(text, timeout=60_000)
        if not self.page.locator("#browse").is_hidden():
            self.ready()

    @property
    def images(self) -> Locator:
        return self.page.locator("#grid [role=option]")

    @property
    def selected(self) -> list[int]:
        marks = self.images.evaluate_all("cells => cells.map((cell) => cell.ariaSelected)")
        return [place for place, mark in enumerate(marks) if mark == "true"]

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def open_view(self, name: str) -> None:
        self.page.locator("#clusters").get_by_role("button", name=name).click()
        expect(self.page.locator("#title")).to_have_text(name)
        self.ready()

    def sizes(self) -> dict[str, int]:
        """The list on the left: how many images each entry has."""
        found = {}
        for entry in self.page.locator("#clusters button").all():
            if entry.get_attribute("data-view") == "new":
                continue
            facts = entry.locator(".facts").inner_text()
            found[entry.locator(".label").inner_text()] = (
                0 if facts == "empty" else int(facts.split(" ")[0].replace(",", ""))
            )
        return found

    def choose(self, label: str) -> None:
        """Click a cluster in the dialog that asks for one."""
        button = self.page.locator(
            "#chooser-list button", has=self.page.get_by_text(label, exact=True)
        )
        button.click()

    def labels(self) -> Any:
        """What the journal on disk says, read by another process's means."""
        run, assignments = load_run(self.folder, edited=False)
        return load_history(self.folder, State.of(assignments.labels, run.n_clusters)).state

    def close(self) -> None:
        self.context.close()
        if self.server.process.poll() is None:
            self.server.end(signal.SIGKILL)


CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) =>
    0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes]
      .some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility()) continue;
    if (element.closest(":disabled, script, noscript")) continue;
    const [a, b] = [light(rgb(getComputedStyle(element).color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const shown = element.textContent.slice(0, 20);
    if (ratio < 4.5) found.push(`${element.tagName} ${shown} ${ratio.toFixed(2)}`);
  }
  return found;
}"""

UNNAMED = """() => [...document.querySelectorAll(
    "button, input, select, img, [role=option], [role=img]")]
  .filter((element) => element.checkVisibility())
  .filter((element) => !(element.ariaLabel || element.labels?.length || element.textContent.trim()))
  .filter((element) => !element.hasAttribute("alt"))
  .map((element) => element.outerHTML.slice(0, 80))"""
