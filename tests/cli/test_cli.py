"""The command line, as a user meets it."""

import csv
import gzip
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from PIL import Image
from safetensors.numpy import load_file

from selfsort.cli.console import print_scores, say
from selfsort.cli.main import _one_line_errors, main
from selfsort.cli.options import base_name
from selfsort.config import Config
from selfsort.errors import TrainingStopped
from selfsort.method.objective import objective
from selfsort.metrics import Scores
from selfsort.progress import progress_bars
from selfsort.recipes import resolve_config
from selfsort.runs.results import load_run
from selfsort.training.loop import EpochRecord, Progress

FILES = ["assignments.csv", "clusters.png", "model.safetensors", "run.json"]
TINY = ["--recipe", "paper", "--threads", "1", "--epochs", "1"]
for setting in (
    "network.width=4",
    "network.latent_width=32",
    "network.n_duplicates=4",
    "clustering.n_init=1",
):
    TINY += ["--set", setting]
FAST = [*TINY, "--no-report"]


def run(*arguments: object) -> Result:
    """The command in this process; whatever escapes as a traceback fails the test."""
    return CliRunner().invoke(
        main, [os.fspath(part) if isinstance(part, Path) else str(part) for part in arguments]
    )


def succeed(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def fail(*arguments: object) -> str:
    """The one line on standard error of a command that ends with an error."""
    result = run(*arguments)
    assert result.exit_code in (1, 2), result.output
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.stdout == ""
    line = result.stderr.splitlines()[-1]
    assert line.startswith("Error: ")
    return line


def spawn(*arguments: object, cwd: Path) -> "subprocess.Popen[str]":
    """The command in a process of its own."""
    command = [sys.executable, "-m", "selfsort", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="surrogateescape",
    )


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on digits."""
    folder = tmp_path_factory.mktemp("runs") / "digits"
    succeed("fit", "digits", *FAST, "--out", folder)
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 PNG files of digits in mixed sizes, most of them in sub-folders of their class, and three
    broken ones among them.
    """
    from selfsort.data.datasets import load_dataset

    folder, images = tmp_path_factory.mktemp("photos"), load_dataset("digits")
    assert images.truth is not None
    for number in range(297):
        place = folder / str(images.truth[number]) if number % 10 else folder
        place.mkdir(exist_ok=True)
        picture = Image.fromarray((images.pixels[number, 0] * 255).astype(np.uint8))
        picture = picture.resize((8 + number % 30, 8 + number % 17)).convert(
            "RGB" if number % 50 == 7 else "L"
        )
        picture.save(place / f"{number}.png")
    (folder / "empty.png").write_bytes(b"")
    (folder / "5" / "=cmd\n,'[b]\".png").write_bytes(b"not an image")
    (folder / "3" / os.fsdecode(b"caf\xe9.png")).write_bytes((folder / "0.png").read_bytes()[:60])
    return folder


# Finished runs


def test_fit_writes_its_files_and_prints_scores_and_paths(tmp_path: Path) -> None:
    with spawn("fit", "digits", *TINY, cwd=tmp_path) as process:
        output, errors = process.communicate()
    assert process.returncode == 0, errors
    out = tmp_path / "digits-sorted"
    files = sorted([*FILES, "map.npz", "report.html", "vectors.npz"])
    assert sorted(os.listdir(out)) == files
    assert all(os.path.join("digits-sorted", file) in output for file in files)
    assert re.search(r"digits:full, clusters fitted on these images.*\d+\.\d\d %", output)
    assert "silhouette" in output
    assert "training 1/1  loss" in errors
    content = json.loads((out / "run.json").read_text())
    assert (content["source"], content["n_samples"], content["seed"], len(content["history"])) == (
        "digits:full",
        1797,
        0,
        1,
    )
    assert content["config"]["network"]["width"] == 4
    assert content["versions"]["torch"]
    table = rows(out / "assignments.csv")
    assert [row["name"] for row in table] == [str(number) for number in range(1797)]
    assert {row["cluster"] for row in table} <= {str(number) for number in range(10)}
    with Image.open(out / "clusters.png") as picture:
        assert picture.format == "PNG"


def test_json_and_the_same_seed_the_same_files(digits_run: Path, tmp_path: Path) -> None:
    report = json.loads(succeed("fit", "digits", *FAST, "--out", tmp_path / "again", "--json"))
    assert report["written"] == [
        str(tmp_path / "again" / file) for file in ("model.safetensors", "run.json", *FILES[:2])
    ]
    assert set(report["scores"]["digits:full, clusters fitted on these images"]) == {
        "accuracy",
        "purity",
        "nmi",
        "ari",
    }
    for file in ("assignments.csv", "clusters.png", "model.safetensors"):
        assert (digits_run / file).read_bytes() == (tmp_path / "again" / file).read_bytes()
    other = tmp_path / "other"
    succeed("fit", "digits", *FAST, "--out", other, "--seed", 1)
    assert (other / "assignments.csv").read_bytes() != (digits_run / "assignments.csv").read_bytes()


def test_predict_gives_what_fit_gave(
    digits_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "1,797 images assigned" in succeed("predict", digits_run, "digits")
    found = rows(tmp_path / "digits-assignments.csv")
    marked = [int(row.pop("unlike")) for row in found]
    assert found == rows(digits_run / "assignments.csv")
    assert 0.01 < sum(marked) / len(marked) < 0.1
    np.save("few.npy", np.zeros((3, 8, 8), dtype=np.float32))
    assert "3 of them (100%) look unlike" in succeed("predict", digits_run, "few.npy")
    report = json.loads(succeed("predict", digits_run, "few.npy", "--json", "--out", "few.csv"))
    assert report["written"] == ["few.csv"]
    assert report["unlike"] == [True] * 3
    assert report["clusters"] == [int(row["cluster"]) for row in rows(Path("few.csv"))]
    assert len(set(report["clusters"])) == 1
    assert "truth" not in rows(Path("few.csv"))[0]


def test_embed_writes_f(digits_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "1,797 × 32 numbers" in succeed("embed", digits_run, "digits")
    latent = np.load("digits-embedding.npy")
    assert (latent.shape, latent.dtype.name) == ((1797, 32), "float32")
    assert latent.std() > 0
    report = json.loads(succeed("embed", digits_run, "digits", "--out", "f.npy", "--json"))
    assert report == {"shape": [1797, 32], "written": ["f.npy"]}
    assert np.array_equal(np.load("f.npy"), latent)


def test_score_against_every_kind_of_truth(digits_run: Path, tmp_path: Path) -> None:
    own = json.loads(succeed("score", digits_run, "--json"))
    fitted = json.loads((digits_run / "run.json").read_text())["scores"]
    assert {
        **fitted["digits:full, clusters fitted on these images"],
        "n_samples": 1797,
        "without_truth": 0,
    } == own
    assert json.loads(succeed("score", digits_run / "assignments.csv", "digits", "--json")) == own
    assert json.loads(succeed("score", digits_run, digits_run / "assignments.csv", "--json")) == own
    assert f"{100 * own['accuracy']:.2f} %" in succeed("score", digits_run)

    table, truth = tmp_path / "a.csv", tmp_path / "t.csv"
    table.write_text("name,cluster,confidence\n'=1.png,0,1\nb,1,1\nc,1,1\nd,1,1\n")
    truth.write_text("name,truth\n'=1.png,x\nb,y\nc,x\nd,\n")
    found = json.loads(succeed("score", table, truth, "--json"))
    assert (found["accuracy"], found["n_samples"], found["without_truth"]) == (
        pytest.approx(2 / 3),
        3,
        1,
    )

    for name in ("x/1.png", "x/2.png", "y/1.png"):
        (tmp_path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8)).save(tmp_path / "folder" / name)
    table.write_text("name,cluster,confidence\nx/1.png,0,1\nx/2.png,0,1\ny/1.png,1,1\n")
    assert json.loads(succeed("score", table, tmp_path / "folder", "--json"))["accuracy"] == 1
    assert "has truth for none of the 3 names" in fail("score", table)
    assert "has truth for none of the 3 names" in fail("score", table, "digits")
    truth.write_text("name,label\nb,y\n")
    assert "t.csv: a row has no truth; the columns should be name, truth." in fail(
        "score", table, truth
    )


def test_earlier_results_are_not_overwritten_unasked(digits_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    succeed("fit", "digits", *FAST, "--out", out)
    before = {file: (out / file).stat().st_mtime_ns for file in FILES}
    assert "holds the results of an earlier run; choose another folder, or use --overwrite" in fail(
        "fit", "digits", *FAST, "--out", out
    )
    assert before == {file: (out / file).stat().st_mtime_ns for file in FILES}
    assert "nothing to resume, its run is finished" in fail("fit", "--resume", out)
    succeed("fit", "digits", *FAST, "--out", out, "--overwrite", "--seed", 3)
    assert json.loads((out / "run.json").read_text())["seed"] == 3


# Interrupted runs


def test_interrupted_and_resumed_is_the_same_as_never_interrupted(tmp_path: Path) -> None:
    settings = [*FAST, "--epochs", "10", "--set", "training.batch_size=100"]
    with spawn("fit", "digits", *settings, "--out", "stopped out", cwd=tmp_path) as process:
        assert process.stderr
        while not process.stderr.readline().startswith("training 1/"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 1, errors
    assert "Traceback" not in errors
    last = errors.splitlines()[-1]
    assert re.match(
        r"Error: training stopped in epoch \d+ of 10, step \d+ of 18\. Resume with: selfsort fit "
        r"--resume 'stopped out'$",
        last,
    )
    out = tmp_path / "stopped out"
    assert sorted(os.listdir(out)) == ["checkpoint", "job.json"]
    assert "holds an interrupted run; continue it with --resume" in fail(
        "fit", "digits", "--out", out
    )
    assert "--resume takes no epochs" in fail("fit", "--resume", out, "--epochs", 3)
    assert "--resume takes no source" in fail("fit", "digits", "--resume", out)

    succeed("fit", "--resume", out)
    succeed("fit", "digits", *settings, "--out", tmp_path / "whole")
    assert sorted(os.listdir(out)) == FILES
    assert (out / "assignments.csv").read_bytes() == (
        tmp_path / "whole" / "assignments.csv"
    ).read_bytes()
    resumed, whole = (
        load_file(folder / "model.safetensors") for folder in (out, tmp_path / "whole")
    )
    assert resumed.keys() == whole.keys()
    assert all(np.array_equal(resumed[name], whole[name]) for name in whole)
    histories = [
        json.loads((folder / "run.json").read_text())["history"]
        for folder in (out, tmp_path / "whole")
    ]
    assert histories[0] == histories[1]


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"source": "digits"}', "[" * 100_000])
def test_a_job_that_cannot_be_resumed_is_one_line(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "job.json").write_text(content)
    assert re.search(r"nothing to resume|job\.json: damaged", fail("fit", "--resume", tmp_path))


def test_ctrl_c_after_training_stops_as_well() -> None:
    with progress_bars(say) as bars, pytest.raises(TrainingStopped):
        bars.stage("k-means", 1, 2, stopped=[signal.SIGINT])


def test_a_loss_that_is_no_number_keeps_the_last_good_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, steps = tmp_path / "out", list[object]()
    monkeypatch.setenv("SELFSORT_CHECKPOINT_SECONDS", "0")

    def diverging(*values: Any, **options: Any) -> Any:
        terms = objective(*values, **options)
        steps.append(options)
        return terms._replace(loss=terms.loss * float("nan")) if len(steps) == 4 else terms

    monkeypatch.setattr("selfsort.training.pretrain.objective", diverging)
    line = fail("fit", "digits", *TINY, "--out", out)
    assert "the loss is nan in epoch 1; use a smaller learning_rate" in line
    assert line.endswith(f"resume with: selfsort fit --resume {out} --set training.learning_rate=…")
    assert "only a learning_rate may change" in fail(
        "fit", "--resume", out, "--set", "training.epochs=2"
    )
    succeed("fit", "--resume", out, "--set", "training.learning_rate=0.0001")
    content = json.loads((out / "run.json").read_text())
    assert content["config"]["training"]["learning_rate"] == 0.0001
    assert len(steps) == 6, "five steps and the one that failed"


# The numbers of clusters


@pytest.mark.parametrize(
    "k",
    [10, pytest.param(7, marks=pytest.mark.slow), pytest.param(13, marks=pytest.mark.slow)],
)
def test_a_refit_takes_over_earlier_numbers(digits_run: Path, tmp_path: Path, k: int) -> None:
    common = ["fit", "digits", *TINY, "--seed", 5, "-k", k]
    succeed(*common, "--out", tmp_path / "plain")
    report = json.loads(
        succeed(*common, "--align-to", digits_run, "--out", tmp_path / "aligned", "--json")
    )
    earlier, plain, aligned = (
        np.array([int(row["cluster"]) for row in rows(folder / "assignments.csv")])
        for folder in (digits_run, tmp_path / "plain", tmp_path / "aligned")
    )
    assert len(set(zip(plain.tolist(), aligned.tolist(), strict=True))) == k, (
        "the same clusters with other numbers"
    )
    assert sorted(set(aligned.tolist())) == list(range(k))
    same = float((aligned == earlier).mean())
    assert same > (plain == earlier).mean()
    assert report["alignment"] == {"to": str(digits_run), "common": 1797, "same": same}
    assert report["label_free"]["cluster_sizes"] == np.bincount(aligned).tolist()
    succeed("predict", tmp_path / "aligned", "digits", "--out", tmp_path / "again.csv")
    again = [{**row} for row in rows(tmp_path / "again.csv")]
    assert {row.pop("unlike") for row in again} <= {"0", "1"}
    assert again == rows(tmp_path / "aligned" / "assignments.csv")


def test_what_cannot_be_aligned_to_is_said_before_training(
    digits_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("name,cluster,confidence\nx,0,1\n")
    out = tmp_path / "out"
    assert "has no image in common" in fail(
        "fit", "digits", *TINY, "--align-to", tmp_path / "a.csv", "--out", out
    )
    assert "no such file" in fail(
        "fit", "digits", *TINY, "--align-to", tmp_path / "none", "--out", out
    )
    assert not out.exists()


# What is inside


def test_inspect_shows_what_is_there_without_torch(digits_run: Path, tmp_path: Path) -> None:
    output = succeed("inspect", digits_run)
    for text in (
        "selfsort model, format 3",
        "checked",
        "recipe: paper",
        "n_clusters: 10",
        "network.head.linear.weight",
        "1,797",
    ):
        assert text in output
    report = json.loads(succeed("inspect", digits_run / "model.safetensors", "--json"))
    assert report["files"][0]["tensors"]["network.encoder.0.weight"] == {
        "dtype": "F32",
        "shape": [4, 1, 3, 3],
    }
    code = (
        "import sys; from selfsort.cli.main import main; main(['inspect', "
        f"{str(digits_run)!r}], standalone_mode=False)"
    )
    code += "; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_inspect_notices_files_of_another_run(digits_run: Path, tmp_path: Path) -> None:
    shutil.copytree(digits_run, tmp_path / "run")
    succeed("fit", "digits", *TINY, "--seed", 1, "--out", tmp_path / "other")
    shutil.copy(tmp_path / "other" / "model.safetensors", tmp_path / "run")
    result = run("inspect", tmp_path / "run")
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert "model.safetensors: not the file that run.json was written with" in result.stderr
    (tmp_path / "run" / "model.safetensors").write_bytes(b"x")
    assert "model.safetensors: damaged" in run("inspect", tmp_path / "run").stderr
    assert "neither a model nor a checkpoint" in fail("inspect", tmp_path)


# Errors


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["fit"], "Missing argument 'SOURCE'"),
        (
            ["fit", "nowhere"],
            "nowhere: no such file or folder, and the data sets are: digits, mnist, usps, svhn.",
        ),
        (["fit", "x" * 5000], "File name too long"),
        (["fit", "digits", "--recipe", "soup"], "recipe='soup' should be one of: paper"),
        (
            ["fit", "digits", "--set", "training.epochs"],
            "should look like training.batch_size=200.",
        ),
        (["fit", "digits", "--set", "training.epoch=3"], "'training.epoch' is not a setting"),
        (
            ["fit", "digits", "--set", "training.batch_size=1"],
            "training.batch_size=1 should be >= 2.",
        ),
        (["fit", ".", "--set", "images.size=-5"], "images.size=-5 should be >= 8."),
        (
            ["fit", "digits", "--set", "images.size=many"],
            "images.size='many' should be of type int or none.",
        ),
        (["fit", "digits", "--config", "none.toml"], "none.toml: cannot be read as TOML"),
        (["fit", "digits", "--transforms", "T1,T99"], "T99"),
        (
            ["fit", "digits", "-k", "1798"],
            "1,797 images cannot fall into 1798 clusters; ask for fewer (-k)",
        ),
        (["fit", "digits", "-k", "0"], "should be a whole number >= 1, or auto"),
        (["fit", "digits", "--epochs", "many"], "'many' is not a valid integer"),
        (["fit", "digits", "--size", "7"], "7 is not in the range 8<=x<=1024"),
        (["fit", "digits:train"], "digits:train: the splits of digits are: full."),
        (["fit", "digits", "--test", "nowhere"], "nowhere: no such file or folder"),
        (["fit", "mnist", "--data-dir", "."], "train-images-idx3-ubyte.gz is neither in "),
        (["fit", "."], "no image files in it"),
        (["fit", "empty.npy"], "empty.npy: shape (0, 8, 8) holds no images."),
        (["fit", "digits", "--out", "empty.npy"], "is a file"),
        (["fit", "digits", "--out", "empty.npy/below"], "Not a directory"),
        (["predict", "nowhere", "digits"], "nowhere/model.safetensors: no such file"),
        (
            ["predict", "nowhere", "digits", "--copy-to", "x"],
            "--copy-to needs a SOURCE that is a folder",
        ),
        (["predict", "nowhere", ".", "--copy-to", "."], "is not empty; choose a new folder"),
        (["embed", "nowhere", "digits"], "nowhere/model.safetensors: no such file"),
        (
            ["report", "nowhere"],
            "nowhere/run.json: no such file; is this the folder that `selfsort fit` wrote?",
        ),
        (["score", "nowhere"], "nowhere: no such file."),
        (["config", "soup"], "recipe='soup' should be one of: paper"),
        (["sort"], "No such command 'sort'."),
        (["--fast"], "No such option"),
    ],
)
def test_errors_are_one_line(
    arguments: Sequence[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SELFSORT_DATA", raising=False)
    np.save("empty.npy", np.zeros((0, 8, 8)))
    assert text in fail(*arguments)
    assert os.listdir(tmp_path) == ["empty.npy"]


def test_an_error_in_a_process_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    for arguments, code in (
        (["score", os.fsdecode(b"no\xffwhere")], 1),
        (["fit", "--clusters", "x"], 2),
    ):
        with spawn(*arguments, cwd=tmp_path) as process:
            output, errors = process.communicate()
        assert (process.returncode, output, len(errors.splitlines())) == (code, "", 1)
        assert errors.startswith("Error: ")


def test_names_that_look_like_markup_or_cannot_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    print_scores({"[/red]photos[bold]": Scores(1, 1, 1, 1)}, {})
    assert "[/red]photos[bold]" in capsys.readouterr().out


def test_a_missing_test_split_does_not_stop_the_training_split(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    images, labels = (
        generator.integers(0, 256, (30, 8, 8), dtype=np.uint8),
        generator.integers(0, 3, 30, dtype=np.uint8),
    )
    for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
        header = struct.pack(f">I{array.ndim}I", 0x800 + array.ndim, *array.shape)
        for split in ("train", "t10k"):
            (tmp_path / f"{split}-{kind}-ubyte.gz").write_bytes(
                gzip.compress(header + array.tobytes())
            )
    arguments = [
        "fit",
        "mnist",
        *FAST,
        "-k",
        "3",
        "--data-dir",
        tmp_path,
        "--json",
        "--overwrite",
        "--out",
        tmp_path / "out",
    ]
    assert list(json.loads(succeed(*arguments))["scores"]) == [
        "mnist:train, clusters fitted on these images",
        "mnist:test, predicted from mnist:train",
        "mnist:test, clusters fitted on these images",
    ]
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    result = run(*arguments)
    assert (
        "not scored on mnist:test: mnist: t10k-labels-idx1-ubyte.gz is neither in" in result.stderr
    )
    assert list(json.loads(result.stdout)["scores"]) == [
        "mnist:train, clusters fitted on these images"
    ]


def full_gpu(size: int) -> object:
    raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size} bytes.")


@pytest.mark.parametrize("allocate", [np.empty, torch.empty, full_gpu])
def test_too_little_memory_is_one_line(allocate: Callable[[int], object]) -> None:
    with pytest.raises(click.ClickException, match="not enough memory"), _one_line_errors():
        allocate(2**59)
    with pytest.raises(RuntimeError, match="a bug"), _one_line_errors():
        raise RuntimeError("a bug")


# Settings


def test_the_printed_configuration_gives_what_fit_gives(tmp_path: Path, digits: np.ndarray) -> None:
    """Also where the recipe has rules for such images: photographs are inverted."""
    file = tmp_path / "recipe.toml"
    file.write_text(succeed("config"), encoding="utf-8")
    np.save(tmp_path / "few.npy", np.repeat(digits[:40, :, :, None], 3, axis=3))
    tiny = ["--epochs", "1", "-k", "2", "--set", "network.width=2", "--set", "refinement.steps=2"]
    tiny += ["--set", "recluster.factor=0", "--no-report", "--threads", "1"]
    records = []
    tables = []
    for name, config in (("plain", []), ("configured", ["--config", file])):
        succeed("fit", tmp_path / "few.npy", *tiny, *config, "--out", tmp_path / name)
        records.append(json.loads((tmp_path / name / "run.json").read_text())["config"])
        tables.append((tmp_path / name / "assignments.csv").read_bytes())
    assert records[0]["jitter"]["invert"]
    assert records[1] == records[0]
    tables = [
        (tmp_path / name / "assignments.csv").read_bytes() for name in ("plain", "configured")
    ]
    assert tables[0] == tables[1]


def test_a_configuration_names_its_recipe_unless_the_command_line_does(tmp_path: Path) -> None:
    file = tmp_path / "recipe.toml"
    file.write_text(succeed("config", "paper"), encoding="utf-8")
    tiny = [argument for argument in FAST if argument not in ("--recipe", "paper")]
    succeed("fit", "digits", *tiny, "--config", file, "--out", tmp_path / "out")
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["recipe"] == "paper"
    changes = {
        "network.width": 4,
        "network.latent_width": 32,
        "network.n_duplicates": 4,
        "clustering.n_init": 1,
        "precision": record["config"]["precision"],
    }
    wanted = resolve_config("paper", changes, epochs=1, encoder="none")
    assert Config.from_dict(record["config"]) == wanted


# Help


def test_help_is_fast_and_imports_neither_torch_nor_numpy(tmp_path: Path) -> None:
    def seconds() -> float:
        """Time on the CPU: what the command needs, however busy the machine is."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with spawn("--help", cwd=tmp_path) as process:
            assert "Sort unlabelled images" in process.communicate()[0]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(5)) < 0.3
    code = (
        "import sys, selfsort.cli.main; print({'torch', 'numpy', 'PIL', 'rich', 'sklearn', "
        "'jinja2'} & set(sys.modules))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )


@pytest.mark.parametrize("command", main.list_commands(click.Context(main)))
def test_every_option_is_explained(command: str) -> None:
    assert "Usage: main" in succeed(command, "--help")
    found = main.get_command(click.Context(main), command)
    assert found is not None
    options: list[Any] = [option for option in found.params if isinstance(option, click.Option)]
    assert all(option.help for option in options)


# A folder of files


def test_a_folder_with_broken_files(photos: Path, tmp_path: Path) -> None:
    assert sum(len(files) for _, _, files in os.walk(photos)) == 300
    out, copies = tmp_path / "run", tmp_path / "copies"
    assert re.search(
        r"3/caf.*\.png: not a readable image", fail("fit", photos, *FAST, "--out", out)
    )
    assert not out.exists()

    result = run("fit", photos, *FAST, "--size", 16, "--skip-broken", "--out", out)
    assert result.exit_code == 0, result.output
    assert "left out 3 files that cannot be read:" in result.stderr
    assert len(json.loads((out / "run.json").read_text())["skipped"]) == 3
    fitted = {row["name"]: row["cluster"] for row in rows(out / "assignments.csv")}
    assert len(fitted) == 297

    table = tmp_path / "predicted.csv"
    succeed("predict", out, photos, "--skip-broken", "--copy-to", copies, "--out", table)
    predicted = {row["name"]: row["cluster"] for row in rows(table)}
    assert predicted == fitted
    for name, cluster in predicted.items():
        copy = copies / f"cluster-{cluster}" / name.replace(os.sep, "__")
        assert copy.read_bytes() == (photos / name).read_bytes()
    assert sum(len(files) for _, _, files in os.walk(copies)) == 297
    assert "is not empty" in fail("predict", out, photos, "--skip-broken", "--copy-to", copies)


def test_hostile_names_go_through_fit_predict_copy_and_score(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"[/b] \xff")
    names = [
        b"a/b.png",
        b"a__b.png",
        b"=cmd.png",
        b"new\nline.png",
        b"'x\r.png",
        b'c,"d.png',
        b"caf\xe9.png",
    ]
    for number, name in enumerate(names):
        file = folder / "class" / os.fsdecode(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (10, 10), 30 * number).save(file)
    output = succeed("fit", folder, *FAST, "-k", 2, "--folder-truth", "--out", tmp_path / "out")
    assert "[/b]" in output
    succeed(
        "predict",
        tmp_path / "out",
        folder / "class",
        "--out",
        tmp_path / "a.csv",
        "--copy-to",
        tmp_path / "copies",
    )
    assert len([path for path in (tmp_path / "copies").rglob("*") if path.is_file()]) == len(names)
    assert json.loads(
        succeed("score", tmp_path / "out", tmp_path / "out" / "assignments.csv", "--json")
    )["n_samples"] == len(names)


def test_rows_of_an_array_need_a_shape(tmp_path: Path, digits: np.ndarray) -> None:
    np.save(tmp_path / "rows.npy", digits[:60].reshape(60, 64))
    source = str(tmp_path / "rows.npy")
    message = fail("fit", source, "--out", str(tmp_path / "out"), *TINY)
    assert "60 rows of 64 numbers" in message
    assert "of which --image-shape (such as 8x8)" in message
    assert "should look like 28x28" in fail("fit", source, "--image-shape", "8*8", *TINY)
    assert "kind='songs' should be one of: images" in fail("fit", source, "--kind", "songs", *TINY)
    run = str(tmp_path / "run")
    succeed("fit", source, "--image-shape", "8x8", "-k", "3", "--out", run, *FAST)
    succeed("predict", run, source, "--out", str(tmp_path / "new.csv"))
    assert (tmp_path / "new.csv").read_text() == (tmp_path / "run" / "assignments.csv").read_text()


def test_what_became_of_the_files_is_kept_with_the_run(tmp_path: Path, digits: np.ndarray) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, pixels in enumerate(digits[:30]):
        picture = Image.fromarray((pixels * 255).astype(np.uint8)).resize((48, 40))
        picture.save(folder / f"{number:02}.png")
    (folder / "30.png").write_bytes((folder / "07.png").read_bytes())
    (folder / "bad.png").write_bytes(b"hello")
    (folder / "clip.mp4").write_bytes(b"x")
    files = sorted(file.name for file in folder.iterdir())
    table = folder / "table.csv"
    table.write_text("file,author\n" + "".join(f"{name},=A{name[1]}\n" for name in files[:-1]))

    out = tmp_path / "out"
    said = run("fit", folder, "-k", 3, "--out", out, "--skip-broken", *TINY)
    assert "48×40 pixels → 1×" in said.stderr
    assert re.search(r"ignored: .*1 videos", said.stderr)
    record, _ = load_run(out)
    assert record.oddities["identical"] == [[7, 30]]
    assert "it is none of" in record.skipped[str(folder / "bad.png")]
    assert any("1 videos" in note for note in record.notes)
    assert "it is none of" in (out / "report.html").read_text()

    again = tmp_path / "again"
    succeed("fit", table, "-k", 3, "--out", again, "--skip-broken", "--drop-duplicates", *FAST)
    found = load_run(again)
    assert found.run.dropped == {"30.png": "07.png"}
    assert len(found.assignments.names) == 30
    assert found.metadata(again) == {"author": [f"=A{number % 10}" for number in range(30)]}
    assert "metadata.csv" in found.run.files
    succeed("report", again)


def test_a_source_that_is_not_there_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for source in ("nosuch/dir/x", "https://example.org/a.zip", "nosuch/**/*.jpg", "mnist:x"):
        fail("fit", source)
        fail("fit", source, "--out", "a/b/c")
    assert list(tmp_path.iterdir()) == []


def test_results_are_called_after_their_source(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos.tar.gz").write_bytes(b"x")
    names = {
        f"{tmp_path}/photos": "photos",
        f"{tmp_path}/photos.tar.gz": "photos",
        f"{tmp_path}/photos/**/*.jpg": "photos",
        "*.jpg": "images",
        "mnist:test": "mnist-test",
    }
    assert {source: base_name(source) for source in names} == names


def test_a_log_has_a_line_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bars(say) as bars:
        for epoch in range(1, 400):
            record = EpochRecord("training", epoch, {"loss": 1.0})
            bars.training([], Progress(record, 399, 1, 1, 5.0, 0.0))
        for done in range(1, 400):
            bars.stage("reading images", done, 399)
    lines = capsys.readouterr().err.splitlines()
    assert [line[:14] for line in lines] == ["training 1/399", "training 399/3"]
