"""How a run was started: `job.json`, from which an interrupted one is resumed; no torch."""

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from selfsort.data.kinds import Reading
from selfsort.errors import ConfigError, SelfsortError
from selfsort.files import read_file, save_json
from selfsort.recipes import DEFAULT_RECIPE
from selfsort.runs.folder import JOB, RunFolder
from selfsort.runs.limits import MAX_JSON_BYTES, MAX_SEED, MAX_THREADS
from selfsort.schema import check, limits


@dataclass(frozen=True)
class FitJob:
    """Everything that decides the result of a fit, as plain values; paths are absolute."""

    source: str
    kind: str | None = None
    image_shape: list[int] | None = None
    images: str | None = None
    n_clusters: int | str | None = None
    recipe: str = DEFAULT_RECIPE
    settings: dict[str, Any] = field(default_factory=dict)
    epochs: int | None = field(default=None, metadata=limits(low=1))
    transforms: str | None = None
    encoder: str | None = None
    size: int | None = field(default=None, metadata=limits(low=8, high=1024))
    seed: int = field(default=0, metadata=limits(low=0, high=MAX_SEED))
    test_source: str | None = None
    align_to: str | None = None
    report: bool = True
    data_dir: str | None = None
    folder_truth: bool = False
    skip_broken: bool = False
    drop_duplicates: bool = False
    labels: str | None = None
    parents: str | None = None
    folder_parents: bool = False
    device: str = "auto"
    threads: int | None = field(default=None, metadata=limits(low=1, high=MAX_THREADS))

    def __post_init__(self) -> None:
        check(self, error=ConfigError)
        is_number = type(self.n_clusters) is int and self.n_clusters >= 1
        is_each = isinstance(self.n_clusters, str) and "=" in self.n_clusters and self.has_parents
        if not is_number and not is_each and self.n_clusters not in (None, "auto"):
            raise ConfigError(
                f"n_clusters={self.n_clusters!r} should be a whole number >= 1 or 'auto'."
            )
        if self.parents and self.folder_parents:
            raise ConfigError("parents come from a table or from the sub-folders, not from both.")

    @property
    def has_parents(self) -> bool:
        """Whether the images have coarse labels."""
        return bool(self.parents) or self.folder_parents

    def changes(self) -> dict[str, Any]:
        """All changes to the recipe but `epochs`."""
        given = {
            "transforms": self.transforms,
            "sources.encoder": self.encoder,
            "images.size": self.size,
        }
        return self.settings | {name: value for name, value in given.items() if value is not None}

    def reading(self) -> Reading:
        """How the images can be read again."""
        return Reading(**{option.name: getattr(self, option.name) for option in fields(Reading)})


def save_job(folder: RunFolder, job: FitJob) -> None:
    """Write `job.json`."""
    save_json(folder.job, asdict(job))


def load_job(folder: RunFolder) -> FitJob:
    """How the interrupted run in the folder was started."""
    try:
        content = json.loads(read_file(folder.job, limit=MAX_JSON_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        is_finished = folder.record.exists() and not folder.job.exists()
        if is_finished:
            folder.remove_state()  # what is left if a process was killed while it did this
        reason = "its run is finished" if is_finished else f"it has no readable {JOB}"
        raise SelfsortError(f"{folder.path}: nothing to resume, {reason}.") from error
    try:
        if content.keys() != {option.name for option in fields(FitJob)}:
            raise TypeError("other fields than a job has")
        return FitJob(**content)
    except (TypeError, AttributeError, ConfigError) as error:
        raise SelfsortError(
            f"{folder.job}: damaged or of another version; start again with `overwrite=True`."
        ) from error
