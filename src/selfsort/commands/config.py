"""`selfsort config`: the settings of a recipe."""

import json

import click


@click.command("config")
@click.argument("recipe", required=False)
def config_command(recipe: str | None) -> None:
    """Print the settings of a RECIPE as TOML; `fit --config FILE` reads such a file, or any part of it."""
    from selfsort.recipes import DEFAULT_RECIPE, RECIPES, get_recipe

    config, part = get_recipe(recipe or DEFAULT_RECIPE), ""
    click.echo(f"# recipe {recipe or DEFAULT_RECIPE}; all recipes: {', '.join(RECIPES)}")
    for name, value, explanation in config.settings():
        prefix, _, option = name.rpartition(".")
        if prefix != part:
            click.echo(f"\n[{prefix}]")
            part = prefix
        text = f"{option} = {json.dumps(value)}" if value is not None else f"# {option} ="
        click.echo(f"{text:32} # {explanation}")
