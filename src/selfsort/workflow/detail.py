"""At which size the image files of a job are read."""

from pathlib import Path

from selfsort.config import Config
from selfsort.data.folder import largest_side
from selfsort.data.sources import find_images
from selfsort.method.encoders import side_wanted
from selfsort.runs.job import FitJob


def reading_size(config: Config, job: FitJob) -> int | None:
    """As much detail as some part of the fit can use, and as the files have."""
    size = config.images.size
    if size is not None and config.refinement.rounds:
        size = max(size, config.refinement.max_size)
    folder = Path(job.source)
    if job.size or not config.sources.max_images or not folder.is_dir():
        return size
    files = find_images(folder).files
    if not files or len(files) > config.sources.max_images:
        return size
    return max(size or 0, min(side_wanted(config.sources), largest_side(files)))
