"""The picture in docs/architecture.md is that of the code as it is."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))

from architecture import PICTURE, floors, imports, needed, render  # noqa: E402


def test_the_picture_is_up_to_date() -> None:
    assert PICTURE.read_text() == render(), "the packages have changed: make architecture-picture"


def test_imports_only_lead_down() -> None:
    floor_of = {name: number for number, floor in enumerate(floors()) for name in floor}
    edges = imports()
    assert ("method", "data") in edges
    assert all(floor_of[start] < floor_of[to] for start, to in edges)


def test_edges_that_follow_from_others_are_not_drawn() -> None:
    chain = {("method", "data"), ("data", "base")}
    assert needed(chain | {("method", "base")}) == chain


def test_no_module_is_too_long_to_read() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for path in (ROOT / "src").rglob("*.py")
    }
    assert {name: length for name, length in lengths.items() if length > 300} == {}
