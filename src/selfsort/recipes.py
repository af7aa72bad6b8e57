"""Recipes: named, complete configurations. To add one, add a line here."""

from selfsort.config import Config
from selfsort.errors import ConfigError

RECIPES: dict[str, Config] = {
    # Kilinc & Uysal, ICLR 2018, section 4.1: the defaults of `Config` are the paper's.
    "paper": Config(),
}

DEFAULT_RECIPE = "paper"


def get_recipe(name: str) -> Config:
    """The configuration called `name`.

    >>> get_recipe("paper").network.n_duplicates
    20
    """
    if name not in RECIPES:
        raise ConfigError(f"recipe={name!r} should be one of: {', '.join(RECIPES)}.")
    return RECIPES[name]
