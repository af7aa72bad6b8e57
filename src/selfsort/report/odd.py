"""Images that somebody would want to know of, as the pages list them: copies, blank, dark, …"""

from collections.abc import Mapping
from typing import Any

TITLES = {
    "identical": "Identical images",
    "similar": "Nearly identical images",
    "blank": "Blank images",
    "dark": "Very dark images",
    "blurred": "Blurred images",
}


def odd_rows(oddities: Mapping[str, Any]) -> dict[str, list[int]]:
    """The images of each kind that was found; those of a group follow each other.

    >>> odd_rows({"identical": [[4, 7], [1, 2]], "blank": [3]})
    {'identical': [4, 7, 1, 2], 'blank': [3]}
    """
    found = {}
    for kind in TITLES:
        rows = oddities.get(kind, [])
        is_grouped = kind in ("identical", "similar")
        found[kind] = [row for group in rows for row in group] if is_grouped else list(rows)
    return {kind: rows for kind, rows in found.items() if rows}
