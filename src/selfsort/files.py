"""Writes files so that each appears whole or not at all."""

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfsort.errors import SelfsortError


def save_bytes(path: Path, content: bytes) -> None:
    """Write `content` to `path`: temporary file beside it, fsync, rename."""
    temporary = path.with_name(f".selfsort-{secrets.token_hex(8)}")  # not path.name, which may be as long as names can be
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise SelfsortError(f"cannot write {path}: {error.strerror or error}; free some space or choose another place") from error


def save_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8; bytes of file names that are not UTF-8 come out as they were."""
    save_bytes(path, text.encode("utf-8", "surrogateescape"))


def save_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write `content` as indented JSON."""
    save_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")
