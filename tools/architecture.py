"""Draws docs/architecture.svg: the packages on their floors, and who imports whom.

Floors come from the import contract in pyproject.toml, arrows from the imports in the source.
"""

import ast
import textwrap
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

import grimp

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "architecture.svg"
SOURCE = ROOT / "src" / "selfsort"

WIDTH = 960
MARGIN = 16
GAP = 24
FLOOR_GAP = 40
LINE = 17
COLUMNS = {"sorting": (0, 2), "report": (2, 3), "method": (0, 2)}
"""Learning stands on the left, reading and drawing on the right; other floors are even."""

STYLE = """
  rect { fill: #f6f7f9; stroke: #c3cad2; }
  .light { fill: #e3edf9; }
  text { font: 13px system-ui, "Segoe UI", Roboto, Arial, sans-serif; fill: #16191d; }
  .name { font-size: 16px; font-weight: 700; }
  .modules { fill: #565d66; }
  path { fill: none; stroke: #005bb4; stroke-width: 1.6; marker-end: url(#head); }
  #head path { fill: #005bb4; stroke: none; }
  @media (prefers-color-scheme: dark) {
    rect { fill: #1e2328; stroke: #4a535d; }
    .light { fill: #1f3550; }
    text { fill: #e8eaed; }
    .modules { fill: #a4acb5; }
    path { stroke: #86bdf0; }
    #head path { fill: #86bdf0; }
  }
"""

Edge = tuple[str, str]


class Box(NamedTuple):
    """One package on the picture; `base` stands for the single modules at the bottom."""

    name: str
    summary: list[str]
    modules: list[str]
    left: float
    right: float
    top: int
    bottom: int
    is_light: bool


def contracts() -> list[dict[str, object]]:
    """The import contracts of pyproject.toml."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: list[dict[str, object]] = content["tool"]["importlinter"]["contracts"]
    return found


def floors() -> list[list[str]]:
    """The packages from top to bottom; the last floor is `base`."""
    return [floor for floor in _layers()[:-1] if floor != ["__main__"]] + [["base"]]


def _layers() -> list[list[str]]:
    layers = contracts()[0]["layers"]
    assert isinstance(layers, list)
    return [layer.replace("|", " ").replace(":", " ").split() for layer in layers]


def imports() -> set[Edge]:
    """Who imports whom, package by package."""
    graph = grimp.build_graph("selfsort", cache_dir=None)
    packages = {name for floor in floors() for name in floor}
    edges = set()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            ends = [_package(name, packages) for name in (module, imported)]
            if ends[0] and ends[1] and ends[0] != ends[1]:
                edges.add((ends[0], ends[1]))
    return edges


def _package(module: str, packages: set[str]) -> str:
    name = module.split(".")[1] if "." in module else ""
    if name in ("", "__main__"):  # both only pass on what stands below
        return ""
    return name if name in packages else "base"


def needed(edges: set[Edge]) -> set[Edge]:
    """The edges that do not follow from others."""
    below: dict[str, set[str]] = {}
    for floor in reversed(floors()):
        for name in floor:
            direct = {to for start, to in edges if start == name}
            below[name] = direct | {far for near in direct for far in below.get(near, set())}
    return {
        (start, to)
        for start, to in edges
        if not any(to in below[near] for near in below[start] if (start, near) in edges)
    }


def boxes() -> Iterator[Box]:
    """Every package in its place."""
    torch_free = contracts()[1]["source_modules"]
    assert isinstance(torch_free, list)
    step = (WIDTH - 2 * MARGIN + GAP) / 3
    top = MARGIN
    for floor in floors():
        row = []
        for place, name in enumerate(floor):
            spans = 3 / len(floor)
            first, last = COLUMNS.get(name, (place * spans, (place + 1) * spans))
            left = MARGIN + first * step
            right = MARGIN + last * step - GAP
            letters = int((right - left - 24) / 6.6)
            summary = textwrap.wrap(_summary(name), letters)
            modules = textwrap.wrap(" · ".join(_modules(name)), letters)
            is_light = name == "base" or f"selfsort.{name}" in torch_free
            row.append(Box(name, summary, modules, left, right, top, 0, is_light))
        n_lines = max(len(box.summary) + len(box.modules) for box in row)
        bottom = top + 34 + LINE * n_lines
        for box in row:
            yield box._replace(bottom=bottom)
        top = bottom + FLOOR_GAP


def _summary(name: str) -> str:
    """The first sentence of a package's or module's docstring."""
    if name == "base":
        return "What everything may use."
    path = SOURCE / name / "__init__.py"
    tree = ast.parse((path if path.exists() else SOURCE / f"{name}.py").read_text())
    words = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())
    return words.partition(". ")[0].rstrip(".") + "."


def _modules(name: str) -> list[str]:
    if name == "base":
        return sorted(_layers()[-1])
    return sorted(path.stem for path in (SOURCE / name).glob("*.py") if path.stem != "__init__")


def render() -> str:
    """The picture as SVG. Its description lists every edge, also those that are not drawn."""
    edges = imports()
    placed = {box.name: box for box in boxes()}
    listed = ", ".join(f"{start} → {to}" for start, to in sorted(edges))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="0 0 {WIDTH} {placed["base"].bottom + MARGIN}">',
        "<title>The packages of selfsort</title>",
        f"<desc>{listed}</desc>",
        f"<style>{STYLE}</style>",
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8z"/></marker>',
    ]
    for box in placed.values():
        lines.extend(_drawn(box))
    lines += [_arrow(placed[start], placed[to]) for start, to in sorted(needed(edges))]
    return "\n".join([*lines, "</svg>\n"])


def _drawn(box: Box) -> Iterator[str]:
    shade = ' class="light"' if box.is_light else ""
    x = round(box.left + 12)
    y = box.top + 23
    yield (
        f'<rect x="{box.left:.0f}" y="{box.top}" width="{box.right - box.left:.0f}" '
        f'height="{box.bottom - box.top}" rx="8"{shade}/>'
    )
    yield f'<text class="name" x="{x}" y="{y}">{escape(box.name)}</text>'
    for kind, texts in (("summary", box.summary), ("modules", box.modules)):
        for text in texts:
            y += LINE
            yield f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>'


def _arrow(start: Box, to: Box) -> str:
    """From the lower edge of a box to the upper edge of another, as upright as both allow."""
    x = _between((to.left + to.right) / 2, start)
    goal = _between(x, to)
    middle = (start.bottom + to.top) / 2
    curve = f"C{x:.0f} {middle:.0f} {goal:.0f} {middle:.0f} {goal:.0f} {to.top}"
    return f'<path d="M{x:.0f} {start.bottom}{curve}"/>'


def _between(x: float, box: Box) -> float:
    return max(box.left + 40, min(box.right - 40, x))


if __name__ == "__main__":
    PICTURE.write_text(render())
    print(f"wrote {PICTURE.relative_to(ROOT)}")
