"""What the things to be sorted are: the registry of kinds, and how a source of each is read."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from selfsort.data.datasets import DATASETS, load_dataset
from selfsort.data.features import as_feature_set, load_features
from selfsort.data.folder import OnFile, load_images
from selfsort.data.image_set import ImageSet, as_image_set
from selfsort.data.oddities import drop_copies
from selfsort.data.series import as_series_set, load_series
from selfsort.data.sound import as_sound_set, load_sounds
from selfsort.errors import DataError
from selfsort.schema import check, limits

IMAGES = "images"
SERIES = "series"
SOUNDS = "sounds"
FEATURES = "features"


@dataclass(frozen=True)
class Reading:
    """How a source is read, as plain values; a run keeps it, so that it can read it again.

    `kind`: an entry of `KINDS`; None: images. `images`: where those that rows of features stand for
    are.
    """

    source: str
    kind: str | None = None
    data_dir: str | None = None
    size: int | None = field(default=None, metadata=limits(low=8, high=1024))
    folder_truth: bool = False
    skip_broken: bool = False
    image_shape: list[int] | None = None
    drop_duplicates: bool = False
    images: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be, as a record may hold it."""
        check(self, error=DataError)


class Kind(NamedTuple):
    """How things of one kind come in: from a source, and from an array in memory with the shape
    that its rows have, if that is known. `has_files`: each is an image file with a size of its own.
    """

    from_source: Callable[[Reading, OnFile | None], ImageSet]
    from_array: Callable[[Any, tuple[int, ...] | None], ImageSet]
    has_files: bool = False


def _read_images(reading: Reading, on_file: OnFile | None) -> ImageSet:
    """A named data set such as `mnist:test`, or whatever `load_images` reads."""
    source = reading.source
    if is_named(source):
        name, _, split = source.partition(":")
        data_dir = Path(reading.data_dir) if reading.data_dir else None
        return load_dataset(name, split or None, data_dir=data_dir)
    return load_images(
        source,
        size=reading.size,
        truth_from_folders=reading.folder_truth,
        skip_broken=reading.skip_broken,
        image_shape=reading.image_shape,
        on_file=on_file,
    )


def is_named(source: str) -> bool:
    """Whether a source is a named data set, such as `mnist` or `mnist:test`."""
    return source.partition(":")[0] in DATASETS and not Path(source).exists()


KINDS: dict[str, Kind] = {
    IMAGES: Kind(_read_images, lambda array, shape: as_image_set(array, image_shape=shape), True),
    SERIES: Kind(
        lambda reading, on_file: load_series(reading.source),
        lambda array, shape: as_series_set(array),
    ),
    SOUNDS: Kind(
        lambda reading, on_file: load_sounds(
            reading.source,
            truth_from_folders=reading.folder_truth,
            skip_broken=reading.skip_broken,
            on_file=on_file,
        ),
        as_sound_set,
    ),
    FEATURES: Kind(
        lambda reading, on_file: load_features(
            reading.source, reading.images, reading.size, reading.skip_broken, on_file
        ),
        lambda array, shape: as_feature_set(array),
    ),
}
"""By the name that `kind` gives; to add one, write how it is read and add a line here."""


def get_kind(name: str | None) -> Kind:
    """The kind called `name`; None: images."""
    if name is not None and name not in KINDS:
        raise DataError(f"kind={name!r} should be one of: {', '.join(KINDS)}.")
    return KINDS[name or IMAGES]


def load_source(
    source: str,
    *,
    kind: str | None = None,
    data_dir: Path | None = None,
    size: int | None = None,
    truth_from_folders: bool = False,
    skip_broken: bool = False,
    image_shape: tuple[int, ...] | None = None,
    drop_duplicates: bool = False,
    on_file: OnFile | None = None,
) -> ImageSet:
    """What the command line calls SOURCE: `mnist`, `mnist:test`, or whatever `load_images` reads;
    of another `kind`, what that is read from.
    """
    reading = Reading(
        source=source,
        kind=kind,
        data_dir=str(data_dir) if data_dir else None,
        size=size,
        folder_truth=truth_from_folders,
        skip_broken=skip_broken,
        image_shape=list(image_shape) if image_shape else None,
        drop_duplicates=drop_duplicates,
    )
    return read(reading, on_file)


def read(reading: Reading, on_file: OnFile | None = None) -> ImageSet:
    """All that a source holds, without copies if they are to be dropped."""
    images = get_kind(reading.kind).from_source(reading, on_file)
    return drop_copies(images) if reading.drop_duplicates else images
