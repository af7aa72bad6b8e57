"""The paper's experiments: each runs, trainings are shared and resumed, results and page say the
same.
"""

import json
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from numpy.typing import NDArray

from selfsort.cli import reproduce as command
from selfsort.cli.main import main
from selfsort.cli.options import parse_changes
from selfsort.container import load_container
from selfsort.data.datasets import load_dataset
from selfsort.errors import ModelFileError, SelfsortError
from selfsort.files import locked
from selfsort.reproduce import EXPERIMENTS, clusters_k
from selfsort.reproduce import result as record
from selfsort.reproduce.page import get_experiment, render_page
from selfsort.reproduce.paper import ACCURACY
from selfsort.reproduce.result import load_results, save_result
from selfsort.reproduce.style import need_matplotlib
from selfsort.reproduce.training import Lab, Spec, milestones

ROOT = Path(__file__).parents[2]
SMALL = {
    "network.width": 4,
    "network.latent_width": 32,
    "network.n_duplicates": 4,
    "clustering.n_init": 1,
}
SPEC = Spec("digits", epochs=2, quick=True, settings=SMALL)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trainings that the tests of this module share."""
    return tmp_path_factory.mktemp("reproduce")


def run(*arguments: object, work: Path, settings: dict[str, Any] = SMALL) -> Result:
    """The command on digits, with a network that trains in a moment."""
    places = [
        "--work",
        work / "trainings",
        "--out",
        work / "results",
        "--page",
        work / "docs" / "page.md",
    ]
    changes = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    common = ["--dataset", "digits", "--epochs", 2, "--threads", 1, *places, *changes]
    return CliRunner().invoke(main, ["reproduce", *map(str, [*arguments, *common])])


def fail(*arguments: object, work: Path) -> str:
    outcome = run(*arguments, work=work)
    assert outcome.exit_code != 0
    assert isinstance(outcome.exception, SystemExit), outcome.exception
    *_, last = outcome.stderr.splitlines()
    assert last.startswith("Error: ")
    return last


def leading_axes(points: NDArray[np.float32], **options: Any) -> NDArray[np.float32]:
    """In place of t-SNE, which has tests of its own and takes a second for each map."""
    return points[:, :2]


@pytest.mark.parametrize(
    "name", [*EXPERIMENTS, pytest.param("spaces", marks=pytest.mark.slow, id="spaces with t-SNE")]
)
def test_an_experiment_leaves_result_picture_and_page(
    name: str, work: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if hasattr(get_experiment(name), "project") and "with t-SNE" not in request.node.name:
        monkeypatch.setattr(get_experiment(name), "project", leading_axes)
    if hasattr(get_experiment(name), "N_SAMPLES"):
        monkeypatch.setattr(get_experiment(name), "N_SAMPLES", 120)
    outcome = run(
        name, "--quick", "--json", *(["--seeds", "0,1"] if name == "dimensions" else []), work=work
    )
    assert outcome.exit_code == 0, outcome.output
    result_file, picture, page = (Path(path) for path in json.loads(outcome.stdout)["written"])
    assert picture.read_bytes().startswith(b"\x89PNG")
    content = json.loads(result_file.read_text())
    assert content.keys() == {entry.name for entry in fields(record.Result)}
    assert (content["experiment"], content["dataset"], content["epochs"], content["seeds"]) == (
        name,
        "digits",
        2,
        [0],
    )
    assert content["quick"]
    assert content["settings"] == SMALL
    assert content["config"]["network"]["latent_width"] == 32
    assert {"torch", "selfsort"} <= content["versions"].keys()
    assert content["machine"].keys() == {"system", "processor", "vectors", "cores", "threads"}
    assert str(work) not in result_file.read_text()
    assert result_file.stat().st_size < 200_000
    text = page.read_text()
    assert f"](../results/{name}/{picture.name})" in text
    assert content["command"] in text
    assert "quick run" in text


def test_the_list_and_bad_arguments_take_one_line(tmp_path: Path) -> None:
    listed = CliRunner().invoke(main, ["reproduce", "--list"])
    assert [line.split()[0] for line in listed.output.splitlines()] == list(EXPERIMENTS)
    assert "NAME tables should be one of: table, training-tsne" in fail("tables", work=tmp_path)
    assert "NAME is missing; it should be one of: table" in fail(work=tmp_path)
    for seeds in ("0,x", "1,1", "0,00", "-1", "", "2147483648", "9" * 5000):
        assert f"--seeds '{seeds}' should be different whole numbers" in fail(
            "table", "--seeds", seeds, work=tmp_path
        )
    assert "should look like training.batch_size=200" in fail("table", "--set", "x", work=tmp_path)
    assert "'network.depth' is not a setting" in fail(
        "table", "--set", "network.depth=3", work=tmp_path
    )
    assert "recipe='best' should be one of: paper" in fail(
        "table", "--recipe", "best", work=tmp_path
    )
    assert not list(tmp_path.iterdir())
    bad = CliRunner().invoke(main, ["reproduce", "table", "--dataset", "photos"])
    assert "--dataset 'photos' should be one of: digits, mnist" in bad.stderr


def test_missing_matplotlib_is_said_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SelfsortError, match=r"pip install 'selfsort\[reproduce\]'"):
        need_matplotlib()
    assert "pictures need matplotlib" in fail("table", work=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_stopped_run_goes_on_with_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def stopping() -> Iterator[list[int]]:
        yield [2]

    monkeypatch.setattr(command, "stop_signal", stopping)
    assert "step 1 of 5. What is done is kept in" in fail("table", work=tmp_path)
    monkeypatch.undo()
    assert run("table", work=tmp_path).exit_code == 0


def test_a_training_that_broke_off_ends_as_one_that_did_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELFSORT_CHECKPOINT_SECONDS", "0")
    [whole] = Lab(SPEC, work=tmp_path / "whole").by_seed()
    steps = 0

    def kill(progress: Any) -> None:
        nonlocal steps
        steps += 1
        if steps in (3, 6, 8):
            raise KeyboardInterrupt

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            Lab(SPEC, work=tmp_path / "broken", on_progress=kill).first()
    broken = Lab(SPEC, work=tmp_path / "broken").first()
    assert steps == 8
    for epoch in (1, 2):
        first, second = (
            load_container(place.folder / f"epoch-{epoch:04}.safetensors").arrays
            for place in (whole, broken)
        )
        assert all(np.array_equal(first[name], second[name]) for name in first)
    assert whole.score(2) == broken.score(2)
    assert json.loads((broken.folder / "scores.json").read_text()) == {
        "2 latent": asdict(whole.score(2))
    }


def test_trainings_are_shared_and_done_once(work: Path) -> None:
    lab = Lab(SPEC, work=work / "shared")
    jobs: list[tuple[int, dict[str, Any]]] = [
        (0, {}),
        (0, {"transforms": "dihedral"}),
        (0, {"transforms": "T1,T3"}),
        (1, {}),
    ]
    folders = [trained.folder.name for trained in lab.trainings(jobs)]
    assert folders[0] == folders[1]
    assert len(set(folders)) == 3
    assert folders[0].startswith("digits_paper_2-epochs_seed-0_")
    assert "transforms-T1-T3" in folders[2]

    def refuse(progress: Any) -> None:
        raise AssertionError("trained again")

    again = Lab(SPEC, work=work / "shared", on_progress=refuse)
    files = sorted((work / "shared").rglob("*.safetensors"))
    before = [(path.stat().st_ino, path.stat().st_mtime_ns) for path in files]
    with locked(work / "shared" / folders[0]):  # another process may look at it, too
        list(again.trainings(jobs))
    assert [(path.stat().st_ino, path.stat().st_mtime_ns) for path in files] == before, (
        "nothing is written again"
    )


def test_a_test_split_is_also_predicted_from_the_training_images(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = load_dataset("digits")
    test = replace(images.take(np.arange(300)), source="digits:test")
    monkeypatch.setattr(
        "selfsort.reproduce.training.load_splits", lambda dataset, data_dir: (images, test)
    )
    lab = Lab(SPEC, work=work / "split")
    result = record.make_result("table", lab, get_experiment("table").measure(lab))
    assert set(result.findings["runs"][0]["final"]) == {"latent", "logits", "softmax", "predicted"}
    assert "digits:full (1,797 images), scored on digits:test (300); recipe paper" in result.caption
    assert "test images predicted" in get_experiment("table").describe(result)


def test_seeds_are_added_to_those_that_a_result_has(tmp_path: Path) -> None:
    assert run("table", "--seeds", "3", work=tmp_path).exit_code == 0
    shutil.rmtree(tmp_path / "trainings")
    outcome = run("table", "--seeds", "1", "--add", "--json", work=tmp_path)
    assert outcome.exit_code == 0, outcome.output
    [result] = load_results(tmp_path / "results")
    assert result.seeds == [run["seed"] for run in result.findings["runs"]] == [1, 3]
    assert "--seeds 1,3 " in result.command
    assert "machine" in result.findings["runs"][1], "it may have been made on another one"
    assert not list((tmp_path / "trainings").glob("*seed-3*")), "seed 3 was not trained again"
    path = Path(json.loads(outcome.stdout)["written"][0])
    path.write_text(path.read_text().replace('"batch_size": 400', '"batch_size": 399'))
    assert "has another configuration; run its seeds again" in fail(
        "table", "--seeds", "2", "--add", work=tmp_path
    )
    for arguments in (("graph", "--add"), ("table", "--add", "--redraw")):
        assert "--add should go with table" in fail(*arguments, work=tmp_path)


def test_other_readings_stand_beside_the_recipe_as_it_is() -> None:
    def table(latent: float, logits: float, epochs: int, **settings: Any) -> record.Result:
        curve = [
            {"epoch": epoch, "accuracy": latent - 1 / epoch, "purity": 1.0} for epoch in (50, 400)
        ]
        scores = {"latent": latent, "logits": logits, "softmax": 0.5}
        final = {
            name: {"accuracy": value, "purity": 1.0, "nmi": 0.0, "ari": 0.0}
            for name, value in scores.items()
        }
        images = {
            "trained": "usps:full",
            "n_trained": 9298,
            "scored": "usps:full",
            "n_scored": 9298,
        }
        findings = {"runs": [{"seed": 0, "curve": curve, "final": final}]}
        return record.Result(
            "table",
            "usps",
            "paper",
            epochs,
            [0],
            False,
            settings,
            images,
            {},
            {},
            {},
            "…",
            findings,
        )

    as_it_is = table(0.94, 0.52, 400)
    page = render_page(
        [as_it_is, table(0.97, 0.965, 50, **{"objective.frobenius": "all"})], PurePosixPath(".")
    )
    assert "| usps:full | `objective.frobenius=all` | 50 | 1 | 97.00 | 96.50 | 92.00 (1) |" in page
    assert (
        "usps with `objective.frobenius=all`: as in the paper Z is as good as F (96.50 against "
        "97.00 after 50 epochs)."
    ) in page
    assert (
        "usps as it is: unlike in the paper Z and F differ (52.00 against 94.00 after 400 epochs)."
        in page
    )
    assert (
        "closest** to the paper's 96.51 ± 0.26 on usps:full: `objective.frobenius=all`, 97.00 "
        "after 50 epochs"
    ) in page
    assert "### usps:full, objective.frobenius=all, 50 epochs" in page
    assert "Read otherwise" not in render_page([as_it_is], PurePosixPath("."))


def test_milestones_and_names_stay_what_they_are(work: Path) -> None:
    assert milestones(400) == [1, 2, 3, 5, 10, 20, 30, 50, 75, 100, 150, 200, 250, 300, 350, 400]
    assert milestones(1) == [1]
    trained = Lab(Spec("digits"), work=work)._trained(3, {})
    assert trained.folder.name == "digits_paper_400-epochs_seed-3"


def test_a_result_is_drawn_again_without_the_data(tmp_path: Path) -> None:
    for name in ("table", "clusters-k"):
        assert run(name, work=tmp_path).exit_code == 0
    (tmp_path / "results" / "mine").mkdir()
    (tmp_path / "results" / "mine" / "run.json").write_text(
        "{}"
    )  # no result, and none of our business
    for path in (tmp_path / "results").glob("*/*.json"):
        path.write_text(path.read_text().replace('"dataset": "digits"', '"dataset": "usps"'))
    redraw = ("--redraw", "--data-dir", tmp_path)
    outcome = run("table", *redraw, "--json", work=tmp_path)
    assert outcome.exit_code == 0, outcome.output
    assert "usps.bz2 is neither in" in fail("clusters-k", *redraw, work=tmp_path)


def test_other_scores_that_came_meanwhile_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = Lab(SPEC, work=tmp_path).first()
    file = trained.folder / "scores.json"
    file.write_text("[]")
    clusters = trained.clusters

    def slow(*arguments: Any) -> Any:
        file.write_text('{"7 latent": {}}')
        return clusters(*arguments)

    monkeypatch.setattr(trained, "clusters", slow)
    trained.score(2)
    assert list(json.loads(file.read_text())) == ["7 latent", "2 latent"]


def test_clusters_without_an_order_divide_no_class() -> None:
    draw = np.random.default_rng(0)
    assert not clusters_k._divided(
        [{"counts": draw.integers(50, 100, 10).tolist()} for _ in range(20)]
    )
    assert clusters_k._divided(
        [{"counts": [90, 10]}, {"counts": [50, 50]}, {"counts": [70, 0]}]
    ) == {0: 2}


def test_the_recorded_command_can_be_given_again(tmp_path: Path) -> None:
    spec = replace(
        SPEC,
        settings={
            **SMALL,
            "network.batch_norm": True,
            "images.size": None,
            "images.normalise": "image",
        },
    )
    words = shlex.split(record.make_result("table", Lab(spec, work=tmp_path), {}).command)
    given = [words[place + 1] for place, word in enumerate(words) if word == "--set"]
    assert parse_changes(given) == spec.settings


def test_a_damaged_snapshot_or_result_is_named(work: Path, tmp_path: Path) -> None:
    trained = Lab(SPEC, work=tmp_path).first()
    shutil.copy(
        trained.folder / "epoch-0001.safetensors", trained.folder / "epoch-0002.safetensors"
    )
    with pytest.raises(
        ModelFileError, match=r"epoch-0002.safetensors: damaged \(it is of another epoch\)"
    ):
        trained.network(2)
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "x.json").write_text('{"a": 1}')
    with pytest.raises(ModelFileError, match=r"x\.json: damaged"):
        load_results(tmp_path)


# The results of this repository


def test_the_page_is_what_the_results_say() -> None:
    results = load_results(ROOT / "results")
    page = render_page(results, PurePosixPath("../results"))
    assert (ROOT / "docs" / "reproduction.md").read_text() == page, "selfsort reproduce --redraw"
    assert render_page(list(results), PurePosixPath("../results")) == page
    for result in results:
        assert (ROOT / "results" / result.experiment / f"{result.stem}.png").exists()


def test_results_are_saved_as_they_were_loaded(tmp_path: Path) -> None:
    for result in load_results(ROOT / "results"):
        path = save_result(tmp_path, result)
        assert path.read_text() == (ROOT / "results" / result.experiment / path.name).read_text()


@pytest.mark.parametrize(
    ("accuracy", "words"),
    [(0.9651, "It agrees"), (0.90, "It does not agree"), (0.99, "+2.49 points")],
)
def test_the_verdict_follows_the_figures(accuracy: float, words: str) -> None:
    scores = {"accuracy": accuracy, "purity": accuracy, "nmi": 0.0, "ari": 0.0}
    final = dict.fromkeys(("latent", "logits", "softmax"), scores)
    run = {
        "seed": 0,
        "curve": [{"epoch": 400, "accuracy": accuracy, "purity": accuracy}],
        "final": final,
    }
    images = {"trained": "usps:full", "n_trained": 9298, "scored": "usps:full", "n_scored": 9298}
    result = record.Result(
        "table",
        "usps",
        "paper",
        400,
        [0],
        False,
        {},
        images,
        {},
        {},
        {},
        "selfsort …",
        {"runs": [run]},
    )
    shorter = replace(result, epochs=40, command="a waypoint")
    page = render_page([result, shorter, replace(shorter, quick=True)], PurePosixPath("."))
    assert words in page
    assert "a waypoint" not in page
    assert f"{ACCURACY['usps']}" in page
    assert (
        f"**selfsort, recipe `paper`, 400 epochs** | 10 | – | {100 * accuracy:.2f} (1 seed) | –"
        in page
    )
