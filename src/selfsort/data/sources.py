"""Where image files are: below a folder, behind a pattern, in a table or in an archive; and what to
do about what is none of these.
"""

import glob
import os
import re
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from selfsort.data.decode import FORMATS
from selfsort.data.hearing import SUFFIXES as SOUNDS
from selfsort.data.tables import read_table
from selfsort.errors import DataError, first_line
from selfsort.files import MAX_ARRAY_BYTES

VIDEOS = (".mp4", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg", ".m4v", ".3gp", ".wmv")
ARCHIVES = (".zip", ".tar", ".tgz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz")
HEIF = "HEIF"
IGNORED = {
    "HEIC": FORMATS[HEIF],
    "SVG": (".svg", ".svgz"),
    "videos": VIDEOS,
    "raw photographs": (".cr2", ".cr3", ".nef", ".arw", ".dng", ".raf", ".orf", ".rw2"),
    "icons": (".ico", ".icns", ".cur"),
    "images of other kinds": (
        ".psd",
        ".eps",
        ".ai",
        ".fits",
        ".fit",
        ".dds",
        ".pcx",
        ".xcf",
        ".jxl",
    ),
    "PDF": (".pdf",),
    "sounds": SOUNDS,
    "archives": ARCHIVES,
}
"""What a folder may hold that somebody could take for images to be sorted."""


@dataclass(frozen=True)
class Found:
    """Image files with the names they go by; `root` and a name make the file, if `root` is given.
    `ignored` counts what else is there, `columns` is what a table says of each file.
    """

    files: list[Path]
    names: list[str]
    root: Path | None
    ignored: Mapping[str, int]
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)


def readable_suffixes() -> set[str]:
    """How the names of files end that can be read here."""
    has_heif = find_spec("pillow_heif") is not None
    return {
        suffix
        for kind, suffixes in FORMATS.items()
        if kind != HEIF or has_heif
        for suffix in suffixes
    }


class Wanted(NamedTuple):
    """Files of a kind: what one of them is, and how the names of those that can be read end."""

    thing: str
    suffixes: Callable[[], set[str]]


IMAGES = Wanted("image", readable_suffixes)
SOUND_FILES = Wanted("sound", lambda: set(SOUNDS))


def find_below(folder: Path, wanted: Wanted) -> Found:
    """Every such file below `folder`, in a stable order; hidden ones are left out, links to folders
    not followed.
    """
    known = wanted.suffixes()
    files: list[Path] = []
    ignored: Counter[str] = Counter()
    for place, folders, names in os.walk(folder, onerror=_refuse_folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(place, name)
            if name.startswith("."):
                continue
            if path.suffix.lower() not in known:
                ignored[_kind(name)] += 1
            elif path.is_symlink() and not path.exists():
                ignored["dangling links"] += 1
            else:
                files.append(path)
    files.sort()
    return Found(files, [str(file.relative_to(folder)) for file in files], folder, ignored)


def _refuse_folder(error: OSError) -> None:
    raise DataError(
        f"{error.filename}: cannot be listed ({error.strerror}); check its permissions."
    ) from error


def _kind(name: str) -> str:
    lower = name.lower()
    return next((kind for kind, ends in IGNORED.items() if lower.endswith(ends)), "other files")


def list_ignored(ignored: Mapping[str, int]) -> str:
    """`3 HEIC, 1 SVG, 2 videos`, with what reads the first.

    >>> list_ignored({"videos": 2, "SVG": 1})
    '2 videos, 1 SVG'
    """
    text = ", ".join(f"{count:,} {kind}" for kind, count in ignored.items())
    install = "; pip install 'selfsort[heic]' reads HEIC" if "HEIC" in ignored else ""
    hear = "; `kind='sounds'` sorts sounds" if "sounds" in ignored else ""
    return text + install + hear


def find_pattern(pattern: str, wanted: Wanted) -> Found:
    """The files that a pattern such as `photos/**/*.jpg` stands for."""
    matching = sorted(Path(name) for name in glob.glob(pattern, recursive=True))
    known = wanted.suffixes()
    files = [path for path in matching if path.is_file() and path.suffix.lower() in known]
    if not files:
        raise DataError(f"{pattern}: no {wanted.thing} file matches it; check the pattern.")
    return find_listed(files, len(matching) - len(files))


def find_in_table(table: Path) -> Found:
    """The files that a table names, with its other columns."""
    named = read_table(table)
    return replace(find_listed(named.files), columns=named.columns)


def find_listed(files: Sequence[Path], n_ignored: int = 0) -> Found:
    """Files that are known by their paths, with names below the folder that has them all."""
    root = Path(os.path.commonpath([os.path.abspath(file.parent) for file in files]))
    names = [os.path.relpath(file, root) for file in files]
    return Found(list(files), names, root, {"other files": n_ignored} if n_ignored else {})


def is_archive(path: Path) -> bool:
    """Whether its name says that it is a zip or tar file."""
    return path.name.lower().endswith(ARCHIVES)


@contextmanager
def unpack(path: Path, wanted: Wanted) -> Iterator[Found]:
    """The wanted files in a zip or tar file, in a temporary folder under numbers, so that no name
    in it can lead anywhere.
    """
    with tempfile.TemporaryDirectory(prefix="selfsort-") as place:
        try:
            yield _unpack_into(path, Path(place), wanted.suffixes())
        except (zipfile.BadZipFile, tarfile.TarError, OSError, EOFError, RuntimeError) as error:
            raise DataError(f"{path}: not a readable archive ({first_line(error)}).") from error


def _unpack_into(path: Path, place: Path, known: set[str]) -> Found:
    files: list[Path] = []
    names: list[str] = []
    ignored: Counter[str] = Counter()
    room = MAX_ARRAY_BYTES
    for name, content in _members(path):
        parts = PurePosixPath(name).parts
        if any(part.startswith(".") or part == "__MACOSX" for part in parts):
            continue
        suffix = PurePosixPath(name).suffix.lower()
        if suffix not in known:
            ignored[_kind(name)] += 1
            continue
        file = place / f"{len(files)}{suffix}"
        with open(file, "xb") as target:
            while piece := content.read(1 << 20):
                room -= len(piece)
                if room < 0:
                    raise DataError(
                        f"{path}: unpacks to more than {MAX_ARRAY_BYTES >> 30} GiB; unpack it "
                        "yourself and give the folder."
                    )
                target.write(piece)
        files.append(file)
        names.append(name)
    order = sorted(range(len(names)), key=names.__getitem__)
    return Found([files[row] for row in order], [names[row] for row in order], None, ignored)


def _members(path: Path) -> Iterator[tuple[str, IO[bytes]]]:
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if not entry.is_dir():
                    with archive.open(entry) as content:
                        yield entry.filename, content
        return
    with tarfile.open(path) as bundle:
        for member in bundle:
            file = bundle.extractfile(member) if member.isfile() else None
            if file is not None:
                yield member.name, file


def what_to_do(source: str) -> str | None:
    """A sentence for those who give what cannot be read."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", source):
        return "is an address on the net; download the files and give their folder"
    if os.name != "nt" and re.match(r"[A-Za-z]:[\\/]|\\\\", source):
        return "is a Windows path; give the path that this system has for it, such as /mnt/c/…"
    if source.lower().endswith(VIDEOS):
        return (
            "is a video; take pictures out of it and give their folder, as with: "
            "ffmpeg -i VIDEO -vf fps=1 FOLDER/%05d.png"
        )
    if source.lower().endswith((".tsv", ".ts")):
        return "is a table of series; to sort these use `kind='series'`"
    return None
