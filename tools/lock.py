"""Writes requirements.lock: every version of constraints.txt with the hashes of all its
files, as pip's index has them.

torch is left out: its CPU build comes from another place than the build that the index has.
"""

import re
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = {"torch"}
HEAD = """\
# Written by `make lock` from constraints.txt; `make verify` fetches these files and checks \
them. Without torch, whose CPU build
# is not the one of the index.
"""


def pins(path: Path) -> dict[str, str]:
    """The exact versions in a constraints file, by normalised name."""
    lines = (line.split("#")[0].split(";")[0].strip() for line in path.read_text().splitlines())
    return {
        normal(name): version
        for name, _, version in (line.partition("==") for line in lines if "==" in line)
    }


def normal(name: str) -> str:
    """A project's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def hashes(index: str, name: str, version: str) -> list[str]:
    """SHA-256 of every file of a release."""
    with urllib.request.urlopen(f"{index.rstrip('/')}/{name}/", timeout=60) as answer:
        links = re.findall(r'href="[^"]*/([^"/#]+)#sha256=([0-9a-f]{64})"', answer.read().decode())
    start = re.compile(rf"{re.escape(normal(name))}-{re.escape(version)}(-|\.tar|\.zip)")
    return sorted({digest for file, digest in links if start.match(normal_file(file))})


def normal_file(file: str) -> str:
    """A file's name with its project's part normalised."""
    project, dash, rest = (
        re.split(r"(-)(?=\d)", file, maxsplit=1) if re.search(r"-\d", file) else (file, "", "")
    )
    return f"{normal(project)}{dash}{rest}"


def main() -> int:
    """Write the file; fails if a version has no files."""
    from pip._internal.models.index import PyPI  # the index that pip itself would ask

    lines, missing = [HEAD], []
    for name, version in sorted(pins(ROOT / "constraints.txt").items()):
        if name in LEFT_OUT:
            continue
        found = hashes(PyPI.simple_url, name, version)
        missing += [] if found else [name]
        lines.append(
            f"{name}=={version} \\\n"
            + " \\\n".join(f"    --hash=sha256:{digest}" for digest in found)
            + "\n"
        )
    if missing:
        print(f"no files for: {', '.join(missing)}", file=sys.stderr)
        return 1
    (ROOT / "requirements.lock").write_text("".join(lines))
    print(f"wrote requirements.lock, {len(lines) - 1} projects")
    return 0


if __name__ == "__main__":
    sys.exit(main())
