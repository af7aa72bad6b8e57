"""What people give first: folders full of other things, archives, tables, patterns, addresses."""

import io
import os
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from forging import png
from selfsort.data import sources
from selfsort.data.folder import load_images
from selfsort.data.kinds import load_source
from selfsort.errors import DataError

PICTURE = png(9, 9, bytes(90))


def test_a_folder_says_what_becomes_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "find_spec", lambda name: None)  # as if pillow-heif were not here
    for name in ("a.HEIC", "b.heic", "c.svg", "d.mp4", "e.mov", "f.txt", "g.cr2", ".hidden.svg"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataError, match=r"no image files in it but .*2 HEIC.*; pip install 'self"):
        load_images(tmp_path)
    Image.new("RGB", (40, 30)).save(tmp_path / "small.png")
    Image.new("RGB", (80, 90)).save(tmp_path / "large.jpg")
    pages = [Image.new("RGB", (50, 50)) for _ in range(3)]
    pages[0].save(tmp_path / "pages.tif", save_all=True, append_images=pages[1:])
    (tmp_path / "gone.png").symlink_to("nowhere")
    images = load_images(tmp_path, size=16)
    assert len(images) == 3
    first, second, third = images.notes
    assert first == "40×30 to 80×90 pixels → 3×16×16, filled up to squares by mirroring"
    assert second == "1 files have several pages; the first is read"
    counted = set(third.removeprefix("ignored: ").partition(";")[0].split(", "))
    assert counted == {
        "2 HEIC", "1 SVG", "2 videos", "1 other files", "1 raw photographs", "1 dangling links"
    }  # fmt: skip


def test_images_of_one_size_are_said_shortly(tmp_path: Path) -> None:
    Image.new("L", (20, 20)).save(tmp_path / "a.png")
    assert load_images(tmp_path, size=16).notes == ["20×20 pixels → 1×16×16"]


def test_broken_files_are_listed_with_reasons(tmp_path: Path) -> None:
    (tmp_path / "good.png").write_bytes(PICTURE)
    (tmp_path / "text.png").write_bytes(b"hello")
    (tmp_path / "large.png").write_bytes(png(20_000, 20_000))
    skipped = load_images(tmp_path, skip_broken=True).skipped
    assert skipped[str(tmp_path / "text.png")].startswith("it is none of JPEG, PNG")
    assert skipped[str(tmp_path / "large.png")].startswith("declares 20000×20000 pixels")


def archive(path: Path, members: dict[str, bytes]) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as target:
            for name, content in members.items():
                target.writestr(name, content)
    else:
        with tarfile.open(path, "w" if path.suffix == ".tar" else "w:gz") as bundle:
            for name, content in members.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                bundle.addfile(entry, io.BytesIO(content))
    return path


@pytest.mark.parametrize("kind", ["a.zip", "a.tar", "a.tar.gz", "a.tgz"])
def test_archives_are_read(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    members = {
        "cats/2.png": PICTURE, "dogs/1.png": PICTURE, "../../dogs/escaped.png": PICTURE,
        "/dogs/absolute.png": PICTURE, "__MACOSX/cats/._2.png": b"x", "readme.txt": b"x",
    }  # fmt: skip
    path = archive(tmp_path / kind, members)
    before = set(tmp_path.rglob("*"))
    images = load_source(str(path))
    assert images.names == sorted(["cats/2.png", "dogs/1.png", "/dogs/absolute.png"])
    assert images.root is None
    assert "ignored: 1 other files" in images.notes
    assert set(tmp_path.rglob("*")) == before, "nothing is written beside it"
    monkeypatch.setattr(sources, "MAX_ARRAY_BYTES", 100)
    with pytest.raises(DataError, match="unpacks to more than"):
        load_images(path)


def test_a_broken_archive_or_member_is_one_line(tmp_path: Path) -> None:
    for name in ("a.zip", "a.tar", "a.tar.gz"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 not really")
        with pytest.raises(DataError, match=rf"{name}: not a readable archive"):
            load_images(tmp_path / name)
    path = archive(tmp_path / "b.zip", {"x/bad.png": b"hello", "good.png": PICTURE})
    with pytest.raises(DataError, match=r"b\.zip: x/bad\.png: it is none of JPEG"):
        load_images(path)
    images = load_images(path, skip_broken=True)
    assert images.names == ["good.png"]
    assert list(images.skipped) == ["x/bad.png"]


def test_patterns_and_tables_name_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("in/cats/1.png", "in/dogs/2.png", "in/dogs/3.gif", "other/4.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (9, 9)).save(tmp_path / name)
    (tmp_path / "in" / "dogs" / "x.txt").write_text("x")
    by_pattern = load_source(f"{tmp_path}/in/**/*", truth_from_folders=True)
    assert by_pattern.names == ["cats/1.png", "dogs/2.png", "dogs/3.gif"]
    assert by_pattern.truth_names == ["cats", "dogs"]
    assert by_pattern.root == tmp_path / "in"
    monkeypatch.chdir(tmp_path)
    assert load_source("in/dogs/*.png").names == ["2.png"]
    with pytest.raises(DataError, match="no image file matches it"):
        load_source("in/*.webp")

    table = tmp_path / "list.csv"
    table.write_text(f"id,Path\n1,in/cats/1.png\n2,{tmp_path}/other/4.png\n", encoding="utf-8-sig")
    by_table = load_source(str(table))
    assert by_table.names == [os.path.join("in", "cats", "1.png"), os.path.join("other", "4.png")]
    assert by_table.root == tmp_path
    assert by_table.columns == {"id": ["1", "2"]}
    table.write_text("id,colour\n1,red\n")
    with pytest.raises(DataError, match="has no column with paths; it should be called path, file"):
        load_source(str(table))
    table.write_text("path\nin/cats/none.png\n")
    with pytest.raises(DataError, match=r"none\.png: not a readable image \(.*No such file"):
        load_source(str(table))
    for content in (b"", b"path\n", b"path\n\xff\xfe\n", b'path\n"' + b"x" * 200_000):
        table.write_bytes(content)
        with pytest.raises(DataError):
            load_source(str(table))


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        ("https://example.org/photos.zip", "is an address on the net; download the files"),
        ("s3://bucket/photos", "is an address on the net"),
        (r"C:\Users\me\Pictures", "is a Windows path"),
        ("C:/Users/me/Pictures", "is a Windows path"),
        ("holiday.MP4", "is a video; take pictures out of it"),
        ("nosuch", "no such file or folder, and the data sets are: digits"),
    ],
)
def test_what_cannot_be_read_gets_advice(source: str, advice: str) -> None:
    with pytest.raises(DataError, match=advice):
        load_source(source)


def test_heic_is_read_where_pillow_heif_is(tmp_path: Path) -> None:
    pillow_heif = pytest.importorskip("pillow_heif")
    draw = np.random.default_rng(0)
    picture = Image.fromarray(draw.integers(0, 256, (20, 30, 3), dtype=np.uint8))
    pillow_heif.from_pillow(picture).save(tmp_path / "a.heic", quality=90)
    images = load_images(tmp_path, size=16)
    assert images.notes == ["30×20 pixels → 3×16×16, filled up to squares by mirroring"]


def test_lists_and_parquet_tables_name_files(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    for name in ("a.png", "b.png", "c.png"):
        Image.new("L", (9, 9)).save(tmp_path / name)
    (tmp_path / "list.txt").write_text("c.png\n\n  a.png\n")
    assert load_source(str(tmp_path / "list.txt")).names == ["c.png", "a.png"]
    table = pandas.DataFrame(
        {"file": ["b.png", None, "gone.png", "a.png"], "camera": ["x", "y", "z", None]}
    )
    table["year"] = [1999, 2000, 2001, 2002]
    table.to_parquet(tmp_path / "table.parquet")
    images = load_source(str(tmp_path / "table.parquet"), skip_broken=True)
    assert images.names == ["b.png", "a.png"]
    assert images.columns == {"camera": ["x", ""], "year": ["1999", "2002"]}
    assert list(images.skipped) == [str(tmp_path / "gone.png")]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match=r"bad\.parquet: not a readable table"):
        load_source(str(tmp_path / "bad.parquet"))
