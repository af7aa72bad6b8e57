"""Where a Chromium is: on the PATH, or where Playwright puts its own; also a script that prints it
and fails without one.
"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
"""As root in a container, and without requests of its own."""


def find_browser() -> str | None:
    """The program to start, or none."""
    if found := next(filter(None, map(shutil.which, NAMES)), None):
        return found
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


if __name__ == "__main__":
    sys.stdout.write(f"{find_browser() or sys.exit('no Chromium found')}\n")
