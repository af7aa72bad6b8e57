"""The style sheets and scripts of the report; explore serves `base.css` and `dom.js` too."""

from importlib.resources import files


def read_static(name: str) -> str:
    """The text of one of them."""
    return files("selfsort.report").joinpath("assets", name).read_text(encoding="utf-8")
