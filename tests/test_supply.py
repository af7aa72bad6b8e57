"""The supply chain: every version is pinned, every pin has hashes, every licence is listed, nothing
unpickles.
"""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "tools"))

from licences import needed, stated  # noqa: E402
from lock import LEFT_OUT, normal, normal_file, pins  # noqa: E402

UNPICKLERS = (
    r"\bpickle\b|torch\.load(?!\(.*weights_only=True\))|allow_pickle=True|joblib\.load|(?<!\.)\beval\(|\bexec\("
    r"|yaml\.load|shelve|marshal|shell=True"
)


def test_every_dependency_is_pinned() -> None:
    pinned = pins(ROOT / "constraints.txt")
    for requirement in stated("") + stated("reproduce") + stated("dev") + stated("supply"):
        name = normal(requirement.name)
        assert name in pinned, name
        assert requirement.specifier.contains(pinned[name]), requirement
    assert not needed("") - pinned.keys()


def test_every_pin_has_hashes() -> None:
    text = (ROOT / "requirements.lock").read_text()
    locked = dict(
        re.findall(r"^([a-z0-9-]+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}", text, re.M)
    )
    wanted = {
        name: version
        for name, version in pins(ROOT / "constraints.txt").items()
        if name not in LEFT_OUT
    }
    assert locked == wanted, "constraints.txt has changed: make lock"


def test_every_licence_is_listed() -> None:
    text = (ROOT / "docs" / "licences.md").read_text()
    listed = dict(re.findall(r"^\| ([a-z0-9-]+) \| \S* \| (.*) \|$", text, re.M))
    assert needed("") <= listed.keys(), "make licences"
    assert not [name for name in needed("") if re.search(r"\b[AL]?GPL", listed[name])]


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=lambda path: path.stem)
def test_nothing_that_is_read_can_be_code(path: Path) -> None:
    assert not re.findall(UNPICKLERS, path.read_text())


def test_file_names_are_told_apart() -> None:
    assert normal_file("Jinja2-3.1.6-py3-none-any.whl") == "jinja2-3.1.6-py3-none-any.whl"
    assert normal_file("typing_extensions-4.16.0.tar.gz") == "typing-extensions-4.16.0.tar.gz"
