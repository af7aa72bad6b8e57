"""The registry of methods, and `fit_model`, which fits by the one that the configuration names."""

from dataclasses import replace
from typing import Protocol

import numpy as np

from selfsort.config import Config
from selfsort.data.image_set import ImageSet
from selfsort.errors import ConfigError, DataError
from selfsort.method.encoders import settle_encoder
from selfsort.sorting.by_gar import fit_gar
from selfsort.sorting.ensemble import fit_selfsort
from selfsort.sorting.familiarity import learn_familiarity
from selfsort.sorting.model import Model
from selfsort.training.hooks import Hooks


class Method(Protocol):
    """Images to a model; `n_clusters=None` leaves the number to the method."""

    def __call__(
        self, images: ImageSet, *, n_clusters: int | None, config: Config, seed: int, hooks: Hooks
    ) -> Model: ...


METHODS: dict[str, Method] = {"selfsort": fit_selfsort, "gar": fit_gar}
"""To add a method, write a function in a module of its own and add a line here; from outside the
package: `METHODS["name"] = function`.
"""


def fit_model(
    images: ImageSet,
    *,
    n_clusters: int | str,
    config: Config,
    seed: int = 0,
    hooks: Hooks | None = None,
) -> Model:
    """Fit by the method that `config.method` names; `n_clusters="auto"` takes the number that the
    images show.
    """
    wanted = check_request(n_clusters, len(images), config)
    if not 0 <= seed < 2**32:  # what scikit-learn takes
        raise ConfigError(f"seed={seed} should be >= 0 and < 2**32.")
    config, _ = settle_encoder(config, images)
    hooks = hooks or Hooks()
    fit = METHODS[config.method]
    model = fit(images, n_clusters=wanted, config=config, seed=seed, hooks=hooks)
    return replace(model, familiarity=learn_familiarity(model.trained, images, hooks))


def check_request(n_clusters: int | str, n_samples: int, config: Config) -> int | None:
    """The number of clusters, None for `auto`; what cannot be is refused."""
    if config.method not in METHODS:
        raise ConfigError(f"method={config.method!r} should be one of: {', '.join(METHODS)}.")
    is_number = isinstance(n_clusters, int | np.integer) and n_clusters >= 1
    if not is_number and n_clusters != "auto":
        raise ConfigError(f"n_clusters={n_clusters!r} should be a whole number >= 1 or 'auto'.")
    if n_samples < 2:
        raise DataError("a single image cannot be sorted; give two or more.")
    if is_number and n_samples < int(n_clusters):
        raise DataError(
            f"{n_samples:,} images cannot fall into {n_clusters} clusters; ask for fewer "
            "(`n_clusters`), or give more images."
        )
    return int(n_clusters) if is_number else None
