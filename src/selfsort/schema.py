"""One schema for settings, model files and run records: values are checked against type hints and
declared limits.
"""

import dataclasses
from collections.abc import Mapping
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

LARGEST = 1e300
"""Numbers beyond it are refused: they overflow in the next computation."""


def limits(
    *, low: float | None = None, high: float | None = None, choices: tuple[str | int, ...] = ()
) -> dict[str, Any]:
    """Metadata of a dataclass field: what `check` enforces besides its type hint."""
    return {"low": low, "high": high, "choices": choices}


def check(record: Any, *, prefix: str = "", error: type[Exception] = ValueError) -> None:
    """Raise `error` for the first value of a dataclass that breaks its type hint or its limits.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Size:
    ...     width: int = dataclasses.field(metadata=limits(low=1))
    >>> check(Size(0))
    Traceback (most recent call last):
    ValueError: width=0 should be >= 1.
    """
    hints = get_type_hints(type(record))
    for option in dataclasses.fields(record):
        value = getattr(record, option.name)
        if fault := _fault(value, hints[option.name], option.metadata):
            raise error(f"{prefix}{option.name}={_shown(value)} should be {fault}.")


def fits(value: Any, hint: Any) -> bool:
    """Whether a plain value is of a type such as `dict[str, list[float]]`; an int is also a float.

    >>> fits({"loss": [1, 0.5]}, dict[str, list[float]]), fits(True, int), fits(float("nan"), float)
    (True, False, False)
    """
    if hint is Any:
        return True
    if isinstance(hint, UnionType):
        return any(fits(value, one) for one in get_args(hint))
    if hint is float or hint is int:
        is_number = isinstance(value, int | hint) and not isinstance(value, bool)
        return is_number and abs(value) < LARGEST
    if get_origin(hint) is list:
        return isinstance(value, list) and all(fits(entry, get_args(hint)[0]) for entry in value)
    if get_origin(hint) is dict:
        key, entry = get_args(hint)
        return isinstance(value, dict) and all(
            fits(name, key) and fits(content, entry) for name, content in value.items()
        )
    return isinstance(value, hint)


def _fault(value: Any, hint: Any, metadata: Mapping[str, Any]) -> str | None:
    """What the value should be instead; None if it is good."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    if is_number and not abs(value) < LARGEST and {int, float} & set(kinds):
        return "a finite number"
    if not fits(value, hint):
        names = ["none" if kind is type(None) else _name(kind) for kind in kinds]
        return f"of type {' or '.join(names)}"
    low, high, choices = (metadata.get(name) for name in ("low", "high", "choices"))
    if choices and value not in choices:
        return f"one of: {', '.join(map(str, choices))}"
    if is_number and low is not None and value < low:
        return f">= {low}"
    if is_number and high is not None and value > high:
        return f"<= {high}"
    return None


def _shown(value: Any) -> str:
    """A value in a message, however long it is; Python refuses to write very large numbers."""
    try:
        text = repr(value)
    except ValueError:
        return "(a huge number)"
    return text if len(text) <= 80 else f"{text[:77]}…"


def _name(kind: Any) -> str:
    return str(kind) if get_origin(kind) else str(kind.__name__)
