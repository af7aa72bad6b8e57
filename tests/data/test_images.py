"""Folders, files and arrays, friendly and hostile, to one `ImageSet`."""

import io
import os
import struct
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from forging import png
from selfsort.data import arrays, decode
from selfsort.data.folder import load_images
from selfsort.data.image_set import as_image_set
from selfsort.errors import DataError
from selfsort.method.preparation import Preparation

GIB = 2**30


def one_line(error: pytest.ExceptionInfo[DataError]) -> str:
    message = str(error.value)
    assert len(message.splitlines()) == 1
    return message


def grey(path: Path, value: int = 100, size: tuple[int, int] = (9, 9)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size, value).save(path)
    return path


def npy_header(shape: Any, descr: str = "|u1") -> bytes:
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) + 1) + text + b"\n"


def npz(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


# Arrays


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((5, 8, 9), (5, 1, 8, 9)),
        ((5, 8, 9, 3), (5, 3, 8, 9)),
        ((5, 8, 8, 1), (5, 1, 8, 8)),
        ((5, 3, 8, 9), (5, 3, 8, 9)),
        ((5, 1, 8, 3), (5, 1, 8, 3)),
        ((5, 8, 8, 12), (5, 12, 8, 8)),
        ((5, 12, 8, 8), (5, 12, 8, 8)),
        ((5, 3, 3, 3), (5, 3, 3, 3)),
    ],
)
def test_channels_are_found(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    pixels = np.arange(np.prod(shape), dtype=np.uint16).reshape(shape)
    found = as_image_set(pixels).pixels
    assert found.shape == expected
    channels_last = shape[1:] == expected[2:] + expected[1:2]
    assert np.array_equal(
        found, np.moveaxis(pixels, 3, 1) if channels_last else pixels.reshape(expected)
    )
    assert np.shares_memory(found, pixels)


def test_tensors_are_taken_like_arrays() -> None:
    tensor = torch.arange(2 * 3 * 8 * 8, dtype=torch.uint8).reshape(2, 3, 8, 8)
    images = as_image_set(tensor)
    assert np.array_equal(images.pixels, tensor.numpy())
    assert (images.low, images.high) == (0, 255)


@pytest.mark.parametrize("shape", [(5,), (5, 8, 8, 3, 1), (5, 9, 8, 7)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"shape \(5.*should be \(n,h,w"):
        as_image_set(np.zeros(shape))


@pytest.mark.parametrize("shape", [(0, 8, 8), (3, 0, 8), (3, 8, 8, 0)])
def test_empty_arrays_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="holds no images"):
        as_image_set(np.zeros(shape))


@pytest.mark.parametrize(
    ("dtype", "values", "limits"),
    [
        ("uint8", [0, 7], (0, 255)),
        ("uint16", [0, 7], (0, 65535)),
        ("bool", [0, 1], (0, 1)),
        ("float32", [0, 1], (0, 1)),
        ("float16", [0.2, 0.5], (0, 1)),
        ("float64", [0, 254.5], (0, 255)),
        ("int64", [0, 255], (0, 255)),
        ("float64", [0, 16], (0, 16)),
        ("float32", [0, 1.5], (0, 1.5)),
        ("float32", [-1, 1], (-1, 1)),
        ("int16", [-5, 300], (-5, 300)),
    ],
)
def test_the_range_of_pixels_is_found(
    dtype: str, values: list[float], limits: tuple[float, float]
) -> None:
    images = as_image_set(np.array(values, dtype=dtype).repeat(64).reshape(-1, 8, 8))
    assert (images.low, images.high) == limits
    prepared = Preparation(1, 8, images.low, images.high, "unit")(images.pixels).numpy()
    assert prepared.min() >= 0
    assert prepared.max() <= 1
    assert list(images.names) == ["0", "1"]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 5000, 8999])
def test_nan_is_refused_with_the_index_of_its_image(bad: float, row: int) -> None:
    pixels = np.zeros((9000, 2, 2), dtype=np.float32)
    pixels[row:, 1, 1] = bad
    with pytest.raises(DataError, match=rf"in image {row};"):
        as_image_set(pixels)


@pytest.mark.parametrize(
    "array",
    [np.array([["a"]]), np.zeros((2, 8, 8), dtype=complex), np.zeros((2, 8, 8), dtype=object)],
)
def test_what_is_not_numbers_is_refused(array: Any) -> None:
    with pytest.raises(DataError, match="should be integers, floats or booleans"):
        as_image_set(array)


def test_truth_is_numbered() -> None:
    images = as_image_set(np.zeros((3, 8, 8)), truth=["dog", "cat", "dog"])
    assert images.truth is not None
    assert images.truth.tolist() == [1, 0, 1]
    assert images.truth_names == ["cat", "dog"]


@pytest.mark.parametrize("truth", [[1, 2], 3, np.eye(3), [object()] * 3])
def test_truth_that_does_not_fit_is_refused(truth: Any) -> None:
    with pytest.raises(DataError, match="should be one number or text for each of 3 images"):
        as_image_set(np.zeros((3, 8, 8)), truth=truth)


# Folders


def modes(folder: Path) -> dict[str, list[int]]:
    """One file per Pillow mode, each with a colour all over; returns the bytes that should be
    seen.
    """
    clear = Image.new("RGBA", (9, 9), (255, 0, 0, 0))
    palette = Image.new("P", (9, 9), 1)
    palette.putpalette([0, 0, 0, 10, 20, 30])
    frames = [Image.new("RGB", (9, 9), colour) for colour in ("red", "blue")]
    for name, image, options in (
        ("1.png", Image.new("1", (9, 9), 1), {}),
        ("L.bmp", Image.new("L", (9, 9), 77), {}),
        ("I16.png", Image.fromarray(np.full((9, 9), 32896, dtype=np.uint16)), {}),
        ("F.tif", Image.new("F", (9, 9), 0.6), {}),
        ("LA.png", Image.new("LA", (9, 9), (0, 0)), {}),
        ("RGB.png", Image.new("RGB", (9, 9), (1, 2, 3)), {}),
        ("RGBA.png", clear, {}),
        ("P.png", palette, {}),
        ("P-clear.png", palette, {"transparency": 1}),
        ("CMYK.tif", Image.new("CMYK", (9, 9), (255, 0, 0, 0)), {}),
        ("moving.gif", frames[0], {"save_all": True, "append_images": frames[1:]}),
    ):
        image.save(folder / name, **options)
    return {
        "1.png": [255] * 3, "L.bmp": [77] * 3, "I16.png": [128] * 3, "F.tif": [153] * 3,
        "LA.png": [255] * 3, "RGB.png": [1, 2, 3], "RGBA.png": [255] * 3, "P.png": [10, 20, 30],
        "P-clear.png": [255] * 3, "CMYK.tif": [0, 255, 255], "moving.gif": [255, 0, 0],
    }  # fmt: skip


def test_every_mode_becomes_the_colours_one_sees(tmp_path: Path) -> None:
    expected = modes(tmp_path)
    images = load_images(tmp_path, size=10)
    assert images.pixels.shape == (len(expected), 3, 10, 10)
    seen = {
        name: pixels[:, 5, 5].tolist()
        for name, pixels in zip(images.names, images.pixels, strict=True)
    }
    assert seen == expected
    assert (images.pixels == images.pixels[:, :, :1, :1]).all()


def test_a_folder_of_grey_images_has_one_channel(tmp_path: Path) -> None:
    for number, size in enumerate([(5, 5), (40, 40), (300, 300)]):
        grey(tmp_path / f"{number}.png", 10 * number, size)
    images = load_images(tmp_path)
    assert images.pixels.shape == (3, 1, 32, 32)
    assert images.pixels[:, 0, 0, 0].tolist() == [0, 10, 20]
    assert (images.low, images.high, images.root) == (0, 255, tmp_path)


def test_photos_are_turned_upright(tmp_path: Path) -> None:
    pixels = np.zeros((20, 20), dtype=np.uint8)
    pixels[:10] = 255
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif, quality=100)
    upright = load_images(tmp_path, size=20).pixels[0, 0]
    assert upright[:9].max() < 5
    assert upright[11:].min() > 250


def test_other_than_square_is_padded_with_the_colour_of_the_border(tmp_path: Path) -> None:
    pixels = np.full((8, 16), 60, dtype=np.uint8)
    pixels[2:6, 4:12] = 200
    Image.fromarray(pixels).save(tmp_path / "wide.png")
    Image.fromarray(pixels.T).save(tmp_path / "tall.png")
    tall, wide = load_images(tmp_path, size=16).pixels[:, 0]
    assert np.array_equal(wide[4:12], pixels)
    assert (np.delete(wide, range(4, 12), axis=0) == 60).all()
    assert np.array_equal(tall, wide.T)


def test_sub_folders_can_be_truth(tmp_path: Path) -> None:
    for name in ("dog/1.png", "cat/deep/er/2.png", "cat/1.PNG"):
        grey(tmp_path / name)
    images = load_images(tmp_path, truth_from_folders=True)
    assert [Path(name).as_posix() for name in images.names] == [
        "cat/1.PNG",
        "cat/deep/er/2.png",
        "dog/1.png",
    ]
    assert images.truth is not None
    assert [images.truth_names[label] for label in images.truth] == ["cat", "cat", "dog"]
    grey(tmp_path / "stray.png")
    assert load_images(tmp_path).truth is None
    with pytest.raises(DataError, match=r"stray\.png: not in a sub-folder"):
        load_images(tmp_path, truth_from_folders=True)


def broken_files(folder: Path) -> list[str]:
    whole = io.BytesIO()
    Image.effect_noise((64, 64), 50).save(whole, "PNG")
    contents = {
        "empty.png": b"",
        "text.jpg": b"hello",
        "truncated.png": whole.getvalue()[:1000],
        "gigabytes.png": png(60_000, 60_000),
        "terabytes.png": png(2**31 - 1, 2**31 - 1),
        "below-pillows-limit.png": png(12_000, 12_000),
        "postscript.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n",
        "strange.gif": b"GIF89a" + b"\xff" * 20,
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "loop.png").symlink_to(folder / "loop.png")
    (folder / "gone.png").symlink_to(folder / "nowhere.png")
    os.mkfifo(folder / "pipe.png")
    return sorted([*contents, "pipe.png"])


def test_broken_files_are_named_or_skipped(tmp_path: Path) -> None:
    broken = broken_files(tmp_path)
    grey(tmp_path / "whole.png")
    calls: list[tuple[int, int]] = []
    images = load_images(tmp_path, skip_broken=True, on_file=lambda *call: calls.append(call))
    assert images.names == ["whole.png"]
    assert [Path(file).name for file in images.skipped] == broken
    assert "2 dangling links" in images.notes[-1]
    assert calls == [(done, len(broken) + 1) for done in range(1, len(broken) + 2)]
    for name in broken:
        with pytest.raises(
            DataError, match=f"{name}: not a re(adable image .*use `skip_broken=True`|gular file)"
        ) as caught:
            load_images(tmp_path / name if (tmp_path / name).exists() else tmp_path)
        one_line(caught)
        (tmp_path / name).unlink()
    assert len(load_images(tmp_path)) == 1


def test_a_folder_in_which_nothing_can_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no image files in it"):
        load_images(tmp_path)
    (tmp_path / "a.png").write_bytes(b"")
    with pytest.raises(DataError, match="none of its 1 image files can be read"):
        load_images(tmp_path, skip_broken=True)
    with pytest.raises(DataError, match=r"none\.png: no such file"):
        load_images(tmp_path / "none.png")


def test_other_files_hidden_files_and_links_to_folders_are_passed_over(tmp_path: Path) -> None:
    grey(tmp_path / "a" / "1.png")
    grey(tmp_path / ".hidden" / "2.png")
    grey(tmp_path / "a" / ".3.png")
    for name in (
        "notes.txt",
        "Thumbs.db",
        "table.h5",
        "film.mpg",
        "figure.eps",
        "figure.pdf",
        "png",
    ):
        (tmp_path / name).write_text("x")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    assert load_images(tmp_path).names == [os.path.join("a", "1.png")]


def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0)
    tmp_path.chmod(0o755)
    code = (
        "import os; from pathlib import Path; from selfsort.data.folder import load_images;"
        "os.getuid() or os.setuid(65534); load_images(Path('.'))"  # to root no folder is locked
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr.endswith(
        "DataError: ./locked: cannot be listed (Permission denied); check its permissions.\n"
    )


NAMES = [
    b"new\nline.png",
    b'quo"te.png',
    b"com,ma.png",
    b"=cmd.png",
    b"caf\xe9.png",
    b"-rf .png",
    b"\r.png",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_file_name_is_kept(tmp_path: Path, name: bytes) -> None:
    grey(tmp_path / "class" / "x.png").rename(tmp_path / "class" / os.fsdecode(name))
    images = load_images(tmp_path, truth_from_folders=True)
    assert [os.fsencode(Path(found).name) for found in images.names] == [name]


def test_too_many_images_for_memory_are_refused_before_any_is_read(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(b"")
    with pytest.raises(DataError, match="use a smaller `size`"):
        load_images(tmp_path, size=100_000, skip_broken=True)


def test_warning_filters_are_left_alone(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number}.png").write_bytes(png(9500, 9500))  # Pillow warns of it
    filters = list(warnings.filters)
    with pytest.raises(DataError, match="none of its 50"):
        load_images(tmp_path, skip_broken=True)
    assert warnings.filters == filters


def limited(tmp_path: Path, statement: str, extra: int = GIB) -> str:
    """Run a statement in a process that may take only `extra` bytes of memory more; returns its
    error.
    """
    code = (
        "import resource, PIL.Image; from pathlib import Path; from selfsort.data.folder import "
        "load_images; PIL.Image.init();"
        "size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize();"
        f"resource.setrlimit(resource.RLIMIT_AS, (size + {extra}, size + {extra})); {statement}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    return done.stderr.splitlines()[-1] if done.returncode else ""


def test_a_long_line_of_pixels_does_not_become_a_huge_square(tmp_path: Path) -> None:
    (tmp_path / "line.png").write_bytes(png(60_000, 1, bytes(60_001)))
    (tmp_path / "whole.png").write_bytes(png(3000, 3000, bytes(3000 * 3001)))
    assert limited(tmp_path, "assert load_images(Path('.')).pixels.shape == (2, 1, 32, 32)") == ""


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lossless": True},
        {"exif": b"Exif"},
        {"save_all": True, "append_images": [Image.new("L", (70, 50))]},
    ],
)
def test_a_webp_file_says_its_size_before_it_takes_memory(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    Image.new("RGB", (70, 50), "red").save(tmp_path / "a.webp", **options)
    content = (tmp_path / "a.webp").read_bytes()
    assert decode._webp_size(content[:30]) == (70, 50)
    assert load_images(tmp_path / "a.webp").pixels.shape == (1, 3, 32, 32)
    if content[12:16] == b"VP8X":
        (tmp_path / "a.webp").write_bytes(content[:24] + b"\xff\x3f\x00\xff\x3f\x00" + content[30:])
        assert "declares 16384×16384 pixels" in limited(
            tmp_path, "load_images(Path('a.webp'))", 2**27
        )
    assert decode._webp_size(b"RIFF") == decode._webp_size(b"\x89PNG") == (0, 0)


# Arrays in files


def test_npy_is_mapped_and_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(3 * 64, dtype=np.uint8).reshape(3, 8, 8))
    images = load_images(path)
    assert isinstance(images.pixels, np.memmap)
    assert images.pixels[2, 0, 7, 7] == 191
    with open(path, "wb") as file:  # 20 GB, of which the disk holds almost nothing
        file.write(npy_header((20_000, 1000, 1000)))
        file.truncate(file.tell() + 20 * 10**9)
    # kilobytes
    little = "assert int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) < 500_000"
    assert (
        limited(
            tmp_path, f"assert len(load_images(Path('a.npy'))) == 20_000; {little}", extra=21 * GIB
        )
        == ""
    )


def test_what_a_caller_wrote_into_a_map_is_kept(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 64, 64), dtype=np.uint8))
    written = np.load(tmp_path / "a.npy", mmap_mode="c")  # changes are in memory only
    written[:] = 7
    view = written[:]
    view.flags.writeable = False
    images = as_image_set(view)
    assert [int(images.read(slice(0, 3)).min()) for _ in range(2)] == [7, 7]
    assert written.min() == 7


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"not an array",
        npy_header((10**12, 8, 8)),
        npy_header((-1, 8, 8)),
        npy_header((2, 8, 8), "|O") + b"cos\nsystem\n(S'touch hacked'\ntR.",
        npy_header("(" * 200),
        b"\x93NUMPY\x01\x00" + struct.pack("<H", 4000) + b"(" * 4000,
        b"\x93NUMPY\x09\x00" + b"x" * 100,
    ],
)
def test_a_broken_npy_or_npz_member_is_one_line_that_names_the_file(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    for path in (tmp_path / "a.npy", npz(tmp_path / "a.npz", images=content)):
        with pytest.raises(DataError) as caught:
            load_images(path)
        assert one_line(caught).startswith(str(path))
    assert not Path("hacked").exists()


def test_npz_called_npy_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 8, 8)))
    (tmp_path / "a.npz").rename(tmp_path / "a.npy")
    with pytest.raises(DataError, match=r"a\.npy: not a readable \.npy array"):
        load_images(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("key", "label_key"),
    [("images", "truth"), ("x", "y"), ("X", "labels"), ("arr_0", None), ("mine", "y")],
)
def test_npz_with_truth_beside(tmp_path: Path, key: str, label_key: str | None) -> None:
    pixels = np.asfortranarray(np.random.default_rng(0).random((4, 8, 8)))
    truth = {label_key: np.array(["b", "a", "b", "a"])} if label_key else {}
    np.savez_compressed(tmp_path / "a.npz", **truth, **{key: pixels})  # type: ignore[arg-type]
    images = load_images(tmp_path / "a.npz")
    assert np.array_equal(images.pixels[:, 0], pixels)
    assert (images.truth is None) == (label_key is None)
    if images.truth is not None:
        assert images.truth.tolist() == [1, 0, 1, 0]


def test_npz_without_clear_images(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", a=np.zeros((2, 8, 8)), b=np.zeros((2, 8, 8)))
    with pytest.raises(
        DataError,
        match=r"two\.npz: holds the arrays \['a', 'b'\]; the images should be called images",
    ):
        load_images(tmp_path / "two.npz")
    np.savez(tmp_path / "truth.npz", y=np.zeros(2))
    with pytest.raises(DataError, match=r"holds the arrays \[\]"):
        load_images(tmp_path / "truth.npz")
    (tmp_path / "no.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError, match=r"no\.npz: not a readable \.npz file"):
        load_images(tmp_path / "no.npz")


def test_a_header_that_lies_costs_no_memory(tmp_path: Path) -> None:
    npz(tmp_path / "short.npz", images=npy_header((7 * GIB // 64, 8, 8)) + bytes(1000))
    npz(tmp_path / "long.npz", images=npy_header((10**15, 8, 8)) + bytes(1000))
    assert "declares 64,000,000,000,000,000 bytes" in limited(
        tmp_path, "load_images(Path('long.npz'))"
    )
    short = limited(tmp_path, "load_images(Path('short.npz'))")
    assert "bytes too early" in short or "bytes, more than" in short


def test_a_zip_bomb_is_refused_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "MAX_ARRAY_BYTES", 2**20)
    npz(tmp_path / "bomb.npz", images=npy_header((2**20, 8, 8)) + bytes(2**26))
    assert (tmp_path / "bomb.npz").stat().st_size < 2**17
    with pytest.raises(DataError, match="declares 67,108,864 bytes"):
        load_images(tmp_path / "bomb.npz")
    npz(
        tmp_path / "more.npz", images=npy_header((2, 8, 8)) + bytes(2**26)
    )  # what follows the array is not read
    assert len(load_images(tmp_path / "more.npz")) == 2
