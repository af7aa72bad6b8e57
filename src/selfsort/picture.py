"""Draws `clusters.png`: a row of the most typical images for each cluster."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from selfsort.images import ImageSet

CELL, GAP, MARGIN, MAX_ROWS = 44, 3, 118, 256
INK, PAPER, GREY = (20, 20, 20), (255, 255, 255), (120, 120, 120)


def most_typical(labels: NDArray[np.int64], confidence: NDArray[np.float32], cluster: int, count: int) -> NDArray[np.intp]:
    """The images of a cluster that belong to it most clearly, the clearest first."""
    members = np.flatnonzero(labels == cluster)
    return members[np.argsort(-confidence[members], kind="stable")[:count]]


def render_clusters(
    images: ImageSet, labels: NDArray[np.int64], confidence: NDArray[np.float32], n_clusters: int, *, per_row: int = 16
) -> bytes:
    """A PNG picture with one row per cluster (the largest 256): its number, its size and its most typical images."""
    step, n_rows = CELL + GAP, min(n_clusters, MAX_ROWS)
    canvas = Image.new("RGB", (MARGIN + per_row * step + GAP, n_rows * step + GAP), PAPER)
    draw = ImageDraw.Draw(canvas)
    large, small = ImageFont.load_default(16), ImageFont.load_default(12)
    for cluster in range(n_rows):
        top = GAP + cluster * step
        size = int((labels == cluster).sum())
        draw.text((8, top + 3), f"cluster {cluster}", fill=INK, font=large)
        draw.text((8, top + 24), f"{size:,} image{'s' if size != 1 else ''}", fill=GREY, font=small)
        for column, index in enumerate(most_typical(labels, confidence, cluster, per_row)):
            canvas.paste(thumbnail(images, int(index)), (MARGIN + column * step, top))
    buffer = io.BytesIO()
    canvas.save(buffer, "PNG")
    return buffer.getvalue()


def as_picture(images: ImageSet, index: int) -> Image.Image:
    """One image as it is: grey stays grey, more than three channels show the first three."""
    pixels: NDArray[Any] = np.asarray(images.pixels[index], dtype=np.float32)
    scaled = np.clip((pixels - images.low) / max(images.high - images.low, 1e-12), 0, 1) * 255
    values = scaled.round().astype(np.uint8)
    return Image.fromarray(np.ascontiguousarray(np.moveaxis(values[:3], 0, 2)) if len(values) >= 3 else values[0])


def thumbnail(images: ImageSet, index: int, side: int = CELL) -> Image.Image:
    """One image as a square RGB picture."""
    picture = as_picture(images, index).convert("RGB")
    ratio = side / max(picture.size)
    shape = max(1, round(picture.width * ratio)), max(1, round(picture.height * ratio))
    resized = picture.resize(shape, Image.Resampling.NEAREST if ratio >= 2 else Image.Resampling.BICUBIC)
    square = Image.new("RGB", (side, side), PAPER)
    square.paste(resized, ((side - shape[0]) // 2, (side - shape[1]) // 2))
    return square
