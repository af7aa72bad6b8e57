"""`selfsort config`: the settings of a recipe."""

import click

from selfsort.cli.console import echo


@click.command("config")
@click.argument("recipe", required=False)
def command(recipe: str | None) -> None:
    """Print the settings of a RECIPE as a TOML file for `fit --config FILE`.

    Every setting is a comment: remove the # before those that you want to change.
    """
    from selfsort.recipes import DEFAULT_RECIPE, recipe_toml

    echo(*recipe_toml(recipe or DEFAULT_RECIPE).splitlines())
