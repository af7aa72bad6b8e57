"""One tree of frozen dataclasses holds every setting; TOML in, JSON out."""

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from selfsort.errors import ConfigError, first_line
from selfsort.files import read_file
from selfsort.schema import check
from selfsort.settings import (
    ClusteringConfig,
    ImagesConfig,
    JitterConfig,
    NetworkConfig,
    ObjectiveConfig,
    Part,
    ReclusterConfig,
    RefinementConfig,
    SourcesConfig,
    TrainingConfig,
    part_name,
    setting,
)

MAX_TOML_BYTES = 2**20


@dataclass(frozen=True)
class Config:
    """A complete configuration; a *recipe* is a named one.

    >>> Config().replace({"training.epochs": 5}).training.epochs
    5
    """

    method: str = setting("selfsort", "how clusters are found: selfsort, or a registered one")
    transforms: str = setting(
        "dihedral", "the transformations that define the parents: dihedral, T1,T3, scaling, …"
    )
    precision: int | str = setting(
        "auto",
        "bits that layers compute with: 32, 16 (bfloat16), or auto: 16 where that is faster",
        choices=("auto", 16, 32),
    )
    images: ImagesConfig = ImagesConfig()
    jitter: JitterConfig = JitterConfig()
    network: NetworkConfig = NetworkConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    training: TrainingConfig = TrainingConfig()
    sources: SourcesConfig = SourcesConfig()
    clustering: ClusteringConfig = ClusteringConfig()
    recluster: ReclusterConfig = ReclusterConfig()
    refinement: RefinementConfig = RefinementConfig()
    refinement_jitter: JitterConfig = JitterConfig()

    def __post_init__(self) -> None:
        """Check what stands outside the parts; the parts have checked themselves."""
        check(self, error=ConfigError)

    def replace(self, changes: Mapping[str, Any]) -> Self:
        """A copy with some settings changed, each named as `part.setting` (or `transforms`)."""
        tree = self.to_dict()
        for name, value in changes.items():
            part, _, option = name.rpartition(".")
            place = tree.get(part) if part else tree
            if (
                not isinstance(place, dict)
                or option not in place
                or isinstance(place[option], dict)
            ):
                raise ConfigError(f"{name!r} is not a setting; `selfsort config` lists them all.")
            place[option] = value
        return self.from_dict(tree)

    def to_dict(self) -> dict[str, Any]:
        """Nested plain values, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; missing settings keep their defaults, unknown ones are
        refused.
        """
        parts: dict[str, Any] = {}
        for name, value in tree.items():
            default = (
                cls.__dataclass_fields__[name].default if name in cls.__dataclass_fields__ else None
            )
            if isinstance(default, Part):
                known = {option.name for option in dataclasses.fields(default)}  # type: ignore[arg-type]
                if not isinstance(value, Mapping) or (unknown := sorted(set(value) - known)):
                    stray = f"{name}.{unknown[0]}" if isinstance(value, Mapping) else name
                    raise ConfigError(
                        f"{stray!r} is not a setting; `selfsort config` lists them all."
                    )
                try:
                    parts[name] = type(default)(**value)
                except ConfigError as error:  # a part may stand in two places
                    raise ConfigError(
                        str(error).replace(part_name(type(default)), name, 1)
                    ) from error
            elif name in cls.__dataclass_fields__:
                parts[name] = value
            else:
                raise ConfigError(
                    f"{name}={value!r} is not a setting; `selfsort config` lists them all."
                )
        return cls(**parts)

    def settings(self) -> Iterator[tuple[str, Any, str]]:
        """Every setting as (name, value, explanation); those outside the parts first."""
        for option in dataclasses.fields(self):
            value = getattr(self, option.name)
            if not isinstance(value, Part):
                yield option.name, value, option.metadata["explanation"]
        for option in dataclasses.fields(self):
            part = getattr(self, option.name)
            for entry in dataclasses.fields(part) if isinstance(part, Part) else ():  # type: ignore[arg-type]
                yield (
                    f"{option.name}.{entry.name}",
                    getattr(part, entry.name),
                    entry.metadata["explanation"],
                )


def parse_value(text: str) -> Any:
    """A value as TOML would read it; anything else is a string, and `none` is None.

    >>> parse_value("0.5"), parse_value("image"), parse_value("none")
    (0.5, 'image', None)
    """
    if text.lower() == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def load_toml(path: Path) -> dict[str, Any]:
    """Changes to a recipe from a TOML file, flattened to `part.setting` names."""
    try:
        tree = tomllib.loads(read_file(path, limit=MAX_TOML_BYTES).decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read as TOML ({first_line(error)}).") from error
    changes: dict[str, Any] = {}
    for name, value in tree.items():
        changes |= (
            {f"{name}.{key}": entry for key, entry in value.items()}
            if isinstance(value, dict)
            else {name: value}
        )
    return changes
