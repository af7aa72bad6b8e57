"""At which size the image files of a job are read."""

from pathlib import Path

from selfsort.config import Config
from selfsort.data.folder import largest_side
from selfsort.data.sources import find_images
from selfsort.method.encoders import SIDE_ALONE, side_wanted
from selfsort.runs.job import FitJob

MANY = 20_000
"""Folders of more files are read at the size of the network: all images are held in memory."""


def reading_size(config: Config, job: FitJob) -> int | None:
    """As much detail as some part of the fit can use, and as the files have."""
    size = config.images.size
    if size is not None and config.refinement.rounds:
        size = max(size, config.refinement.max_size)
    folder = Path(job.source)
    if job.size or not config.sources.max_images or not folder.is_dir():
        return size
    files = find_images(folder).files
    if not files or len(files) > MANY:
        return size
    is_small = len(files) <= config.sources.max_images
    wanted = side_wanted(config.sources) if is_small else SIDE_ALONE
    return max(size or 0, min(wanted, largest_side(files)))
