"""At which size image files and pictures are read."""

from collections.abc import Callable

from selfsort.config import Config
from selfsort.data.folder import find_files, largest_side
from selfsort.data.kinds import Reading, get_kind, is_named
from selfsort.method.encoders import SIDE_ALONE, side_wanted

MANY = 20_000
"""More files are read at the size of the network: all images are held in memory."""


def reading_size(config: Config, n_images: int, largest: Callable[[], int]) -> int | None:
    """As much detail as some part of the fit can use, and as the images have; None: any size will
    do. `largest` answers their longest side.
    """
    size = config.images.size
    if size is not None and config.refinement.rounds:
        size = max(size, config.refinement.max_size)
    if not config.sources.max_images or not 0 < n_images <= MANY:
        return size
    is_small = n_images <= config.sources.max_images
    wanted = side_wanted(config.sources) if is_small else SIDE_ALONE
    return max(size or 0, min(wanted, largest()))


def source_size(config: Config, reading: Reading) -> int | None:
    """The same for whatever files a source stands for."""
    is_settled = reading.size or is_named(reading.source)
    if is_settled or not get_kind(reading.kind).has_files:
        return reading_size(config, 0, int)
    with find_files(reading.source) as found:
        files = found.files if found else []
        return reading_size(config, len(files), lambda: largest_side(files))
