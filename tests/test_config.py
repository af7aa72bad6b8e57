"""Settings: what may be given, what is refused and how."""

import json
from pathlib import Path
from typing import Any

import pytest

from selfsort.config import Config, load_toml, parse_value
from selfsort.errors import ConfigError
from selfsort.recipes import RECIPES, get_recipe


@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [
        ("training.epochs", 0, ">= 1"),
        ("training.epochs", 10**7, "<= 1000000"),
        ("training.epochs", 1.5, "type int"),
        ("training.epochs", True, "type int"),
        ("training.epochs", None, "type int"),
        ("training.learning_rate", -1e-9, ">= 0"),
        ("training.learning_rate", float("nan"), "finite"),
        ("training.learning_rate", "fast", "type float"),
        ("objective.affinity_weight", float("inf"), "finite"),
        ("objective.affinity_weight", 10**400, "finite"),
        ("network.dropout_1", 1, "<= 0.95"),
        ("images.size", 7, ">= 8"),
        ("images.size", 1025, "<= 1024"),
        ("images.size", "a\nb", "int or none"),
        ("images.normalise", "both", "unit, image"),
        ("images.normalise", ["unit"], "type str"),
        ("clustering.space", None, "type str"),
        ("transforms", 3, "type str"),
        ("training.epoch", 3, "not a setting"),
        ("training", 3, "not a setting"),
        ("transforms.x", 3, "not a setting"),
        ("", 3, "not a setting"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line_that_names_value_and_limit(
    name: str, value: Any, limit: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Config().replace({name: value})
    message = str(caught.value)
    assert limit in message
    assert name in message
    assert len(message.splitlines()) == 1
    if limit != "not a setting":
        assert f"{name}={value!r}"[:60] in message, "a value that is very long is cut"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("training.epochs", 1),
        ("network.dropout_1", 0),
        ("images.size", None),
        ("images.size", 8),
        ("transforms", "T1,T3"),
    ],
)
def test_a_setting_at_its_limit_is_taken(name: str, value: Any) -> None:
    config = Config().replace({name: value})
    assert {key: setting for key, setting, _ in config.settings()}[name] == value


def test_a_change_leaves_everything_else_and_the_original() -> None:
    changed = Config().replace({"network.width": 5})
    assert changed != Config()
    assert changed.replace({"network.width": 32}) == Config()


@pytest.mark.parametrize("recipe", RECIPES)
def test_json_round_trip(recipe: str) -> None:
    config = get_recipe(recipe).replace({"images.size": 16, "transforms": "T1,T3"})
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@pytest.mark.parametrize(
    "tree", [{"network": 3}, {"network": {"wide": 3}}, {"nets": {}}, {"transforms": None}]
)
def test_a_tree_with_strange_parts_is_refused(tree: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Config.from_dict(tree)


def test_the_paper_recipe_is_the_papers() -> None:
    config = get_recipe("paper")
    assert (config.network.n_duplicates, config.network.latent_width, config.transforms) == (
        20,
        2048,
        "dihedral",
    )
    assert (config.training.epochs, config.training.batch_size, config.objective.gar) == (
        400,
        400,
        "modified",
    )
    with pytest.raises(ConfigError, match=r"recipe='papier' should be one of: .*paper"):
        get_recipe("papier")


def test_toml_gives_flat_changes(tmp_path: Path) -> None:
    file = tmp_path / "changes.toml"
    file.write_text('transforms = "scaling"\n[training]\nepochs = 3\n[network]\ndropout_1 = 0\n')
    changes = load_toml(file)
    assert changes == {"transforms": "scaling", "training.epochs": 3, "network.dropout_1": 0}
    assert Config().replace(changes).transforms == "scaling"


@pytest.mark.parametrize(
    "content",
    [
        b"epochs = ",
        b"\xff\xfe",
        b"x = " + b"[" * 5000,
        b"x = " + b"9" * 5000,
        b"a = 1\na = 2",
        None,
    ],
)
def test_toml_that_cannot_be_read_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "broken.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"broken\.toml: cannot be read as TOML .*$") as caught:
        load_toml(file)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("1e-3", 0.001),
        ("none", None),
        ("None", None),
        ("true", True),
        ("T1,T3", "T1,T3"),
        ("[" * 5000, "[" * 5000),
    ],
)
def test_values_of_the_command_line(text: str, value: Any) -> None:
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)
