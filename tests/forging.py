"""Image files as a forger would write them, for the tests and the fuzzer."""

import io
import os
import socket
import struct
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from PIL import Image


def png(width: int, height: int, content: bytes = b"") -> bytes:
    """A PNG file whose header may say anything."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(content))
        + chunk(b"IEND", b"")
    )


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"


def iptc(inner: bytes, width: int = 9, height: int = 9, compression: int = 5) -> bytes:
    """An IPTC file around another image."""

    def field(record: int, number: int, content: bytes) -> bytes:
        return struct.pack(">BBBH", 0x1C, record, number, len(content)) + content

    head = field(3, 20, struct.pack(">H", width)) + field(3, 30, struct.pack(">H", height))
    head += field(3, 60, b"\x01\x00") + field(3, 120, bytes([compression]))
    return head + b"".join(
        field(8, 10, inner[start : start + 30_000]) for start in range(0, len(inner), 30_000)
    )


def every_format() -> dict[str, bytes]:
    """A file of each format that Pillow registers, whole where it can write it, else its mark."""
    Image.init()
    marks = {
        "EPS": EPS, "IPTC": iptc(EPS), "FITS": b"SIMPLE  =                    T".ljust(80),
        "WMF": b"\xd7\xcd\xc6\x9a\x00\x00" + bytes(60), "MPEG": b"\x00\x00\x01\xb3" + bytes(60),
        "PSD": b"8BPS\x00\x01" + bytes(60), "GBR": b"\x00\x00\x00\x1c\x00\x00\x00\x02" + bytes(40),
        "FLI": bytes(4) + b"\x11\xaf" + bytes(200), "XPM": b"/* XPM */\n",
        "BLP": b"BLP1" + bytes(99),
        "XVTHUMB": b"P7 332\n#END_OF_COMMENTS\n9 9 255\n" + bytes(81), "FTEX": b"FTEX" + bytes(99),
        "PIXAR": b"\x80\xe8\x00\x00" + bytes(999), "DCX": b"\xb1\x68\xde\x3a" + bytes(99),
        "CUR": b"\x00\x00\x02\x00\x01\x00" + bytes(99), "MCIDAS": bytes(8) + b"\x00\x00\x00\x04",
    }  # fmt: skip
    files = {}
    for kind in Image.OPEN:
        content = marks.get(kind)
        for mode in ("RGB", "L", "1", "F", "RGBA") if content is None else ():
            buffer = io.BytesIO()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # some formats are to be removed
                    Image.new(mode, (9, 9)).save(buffer, kind)
            except (KeyError, OSError, ValueError):
                continue
            content = buffer.getvalue()
            break
        files[kind] = content or kind.encode() + bytes(99)
    return files


def archives() -> list[bytes]:
    """Archives under the name of an image, and images with an archive inside, before or behind."""
    picture = png(9, 9, bytes(90))
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../../etc/a.png", picture)
        archive.writestr("images.npy", bytes(10_000))
    with tarfile.open(fileobj=tarred, mode="w:gz") as bundle:
        entry = tarfile.TarInfo("/tmp/a.png")
        entry.size = len(picture)
        bundle.addfile(entry, io.BytesIO(picture))
    plain = [zipped.getvalue(), tarred.getvalue()]
    inside = [
        picture[:33] + struct.pack(">I", len(content)) + b"zTXt" + content
        + struct.pack(">I", zlib.crc32(b"zTXt" + content)) + picture[33:]
        for content in plain
    ]  # fmt: skip
    return [
        *plain,
        *inside,
        *(picture + content for content in plain),
        *(content + picture for content in plain),
        iptc(picture),
        iptc(iptc(plain[0])),
    ]


def _listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        place = os.open(path.parent, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{place}/{path.name}")  # the name of a socket must be short
        os.close(place)


SPECIAL: list[Callable[[Path], None]] = [
    os.mkfifo,
    Path.mkdir,
    _listen,
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to("/dev/full"),
    lambda path: path.symlink_to("/dev/tty"),
    lambda path: path.symlink_to("/proc/self/mem"),
    lambda path: path.symlink_to("/proc/kmsg"),
    lambda path: path.symlink_to(path),
    lambda path: path.symlink_to(path.parent),
    lambda path: path.symlink_to("nowhere"),
    Path.touch,
]
"""What may be in the place of a file."""
