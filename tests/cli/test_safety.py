"""What is not ours is not touched, and what a file says cannot steer the terminal."""

import itertools
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from selfsort import sort_folder
from selfsort.cli.remedies import FLAGS
from selfsort.container import load_container, save_container
from selfsort.errors import DataError, SelfsortError
from selfsort.report.cards import confusion
from selfsort.runs.copies import copy_files
from selfsort.runs.edits import Mark, Merge, Rename
from selfsort.runs.folder import CHECKPOINT, NAMES, RunFolder
from selfsort.runs.job import FitJob, save_job
from selfsort.runs.journal import Journal
from selfsort.runs.results import load_run
from selfsort.runs.state import State
from selfsort.runs.table import Assignments
from selfsort.workflow.images import Callbacks
from test_cli import FAST, fail, run, succeed

SOURCES = Path(__file__).parents[2] / "src" / "selfsort"


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve small images."""
    folder = tmp_path_factory.mktemp("few") / "photos"
    folder.mkdir()
    for number in range(12):
        pixels = np.random.default_rng(number).integers(0, 256, (9, 9), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def made(few: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on them."""
    out = tmp_path_factory.mktemp("made") / "run"
    succeed("fit", few, *FAST, "-k", 3, "--out", out)
    return out


@pytest.fixture
def mine(made: Path, tmp_path: Path) -> Path:
    """A copy of the run that a test may change."""
    return shutil.copytree(made, tmp_path / "run")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


# Files of others


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_foreign_files_of_our_names_is_refused_untouched(
    few: Path, tmp_path: Path, name: str, overwrite: bool
) -> None:
    project = tmp_path / "project"
    file = project / name / "mine.safetensors" if name == CHECKPOINT else project / name
    file.parent.mkdir(parents=True)
    file.write_bytes(b"work of weeks")
    before = contents(project)
    options = ["--overwrite"] if overwrite else []
    line = fail("fit", few, *FAST, "-k", 3, "--out", project, *options)
    assert f"{project / name}: not written by selfsort" in line
    assert contents(project) == before


def test_only_checkpoints_of_ours_are_removed(few: Path, mine: Path) -> None:
    foreign = mine / CHECKPOINT / "mine.safetensors"
    foreign.parent.mkdir()
    foreign.write_bytes(b"work of weeks")
    succeed("fit", few, *FAST, "-k", 3, "--out", mine, "--overwrite")
    assert foreign.read_bytes() == b"work of weeks"


def test_nothing_is_removed_for_a_fit_that_is_not_possible(few: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    save_job(folder, FitJob(str(few)))
    save_container(folder.checkpoint / "training.safetensors", {}, {}, kind="checkpoint")
    before = contents(folder.path)
    line = fail("fit", few, *FAST, "-k", 100, "--out", folder.path, "--overwrite")
    assert "12 images cannot fall into 100 clusters" in line
    assert contents(folder.path) == before


def test_results_never_go_into_the_folder_that_is_sorted(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = shutil.copytree(few, tmp_path / "photos")
    before = contents(photos)
    monkeypatch.chdir(photos)
    succeed("fit", ".", *FAST, "-k", 3)
    assert contents(photos) == before
    assert (tmp_path / "photos-sorted" / "run.json").exists()
    for out in (".", "below/it"):
        assert "is inside" in fail("fit", photos, *FAST, "-k", 3, "--out", out)
    assert "is inside" in fail(
        "predict", tmp_path / "photos-sorted", photos, "--copy-to", "copies", "--out", "../a.csv"
    )
    assert contents(photos) == before


def test_a_special_file_is_never_replaced(made: Path, few: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for command in ("predict", "embed"):
        line = fail(command, made, few, "--out", tmp_path / "pipe")
        assert "not a regular file" in line
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_names_that_flatten_alike_are_all_copied(tmp_path: Path) -> None:
    names = []
    for joints in itertools.product(("/", "__"), repeat=9):
        name = "".join(
            f"{letter}{joint}" for letter, joint in zip("abcdefghi", joints, strict=True)
        )
        name += "x.png"
        (tmp_path / "from" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "from" / name).write_text(name)
        names.append(name)
    copy_files(tmp_path / "from", names, ["same"] * len(names), tmp_path / "to")
    copies = [file.read_text() for file in (tmp_path / "to" / "same").iterdir()]
    assert sorted(copies) == sorted(names)


def test_copies_are_all_there_or_none(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "a").write_text("a")
    with pytest.raises(SelfsortError, match=r"cannot copy .*gone"):
        copy_files(tmp_path / "from", ["a", "gone"], ["x", "x"], tmp_path / "to")
    assert os.listdir(tmp_path) == ["from"]


# Files that were forged


def forge(path: Path, **changes: Any) -> None:
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | changes))


@pytest.mark.parametrize("name", ["secret.txt", "zero", "link.png"])
def test_a_forged_run_makes_export_copy_no_other_file(
    mine: Path, tmp_path: Path, name: str
) -> None:
    from selfsort.data.gallery import FolderGallery
    from selfsort.runs.export import export

    source = tmp_path / "source"
    source.mkdir()
    (source / "secret.txt").write_text("the password")
    (source / "zero").symlink_to("/dev/zero")
    Image.new("L", (9, 9)).save(tmp_path / "private.png")
    (source / "link.png").symlink_to(tmp_path / "private.png")
    forged = Assignments([name], np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.float32))
    gallery = FolderGallery(source, forged.names, 32)
    with pytest.raises(DataError):
        export("folders", mine, forged, State.of(forged.labels, 1), gallery, lambda *told: None)
    assert list((mine / "export").glob("*")) == []


HOSTILE = "x\x1b]52;c;aGk=\x07\x1b[31m\n  sha256 0000, checked\u202e"


def no_control(text: str) -> None:
    assert not [letter for letter in text if not letter.isprintable() and letter != "\n"]
    assert "\n  sha256 0000" not in text


def test_inspect_shows_hostile_values_on_their_own_line(mine: Path) -> None:
    model = RunFolder(mine).model
    arrays, values, _ = load_container(model)
    values = {name: value for name, value in values.items() if name not in ("format", "kind")}
    values |= {"recipe": HOSTILE, "preparation": {HOSTILE: HOSTILE}}
    save_container(model, {**arrays, HOSTILE: np.zeros(3)}, values, kind="model")
    result = run("inspect", model)
    assert result.exit_code == 0, result.output
    no_control(result.stdout)
    assert len([line for line in result.stdout.splitlines() if "sha256" in line[:9]]) == 1
    forge(RunFolder(mine).record, source=HOSTILE, warnings=[HOSTILE], files={})
    result = run("inspect", mine)
    no_control(result.output)
    assert result.stdout.count("warning: x\\x1b]52") == 1


def test_no_command_prints_a_forged_run_raw(mine: Path, few: Path, tmp_path: Path) -> None:
    table = {"accuracy": 1.0, "purity": 1.0, "nmi": 1.0, "ari": 1.0}
    record = RunFolder(mine).record
    content = json.loads(record.read_text())
    reading = content["reading"] | {"source": HOSTILE}
    forge(record, source=HOSTILE, warnings=[HOSTILE], scores={HOSTILE: table}, reading=reading)
    for arguments in (
        ["inspect", mine],
        ["report", mine],
        ["score", mine],
        ["explore", mine, "--no-browser"],
        ["predict", mine, HOSTILE],
        ["embed", mine, HOSTILE],
        ["fit", HOSTILE],
        ["fit", few, *FAST, "--align-to", HOSTILE, "--out", tmp_path / "out"],
        ["config", HOSTILE],
        ["reproduce", HOSTILE],
    ):
        no_control(run(*arguments).output)


def test_commands_print_through_one_function() -> None:
    for file in (SOURCES / "cli").glob("*.py"):
        if file.name != "console.py":
            assert "click.echo" not in file.read_text(), file.name


# One line


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "digits", "--transforms", "T1,T²"],
        ["fit", "digits", "--transforms", "T1..T200000000"],
        ["fit", "digits", "-k", "9" * 5000],
        ["fit", "digits", "-k", "٣"],
        ["fit", "digits", "--threads", "100000000000"],
        ["fit", "digits", "--set", "network.width=0x" + "f" * 4000],
        ["fit", "digits", "--seed", "9" * 5000],
    ],
)
def test_odd_numbers_are_one_line(arguments: list[str], tmp_path: Path) -> None:
    fail(*arguments, "--out", tmp_path / "out")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("change", [{"threads": 10**12}, {"threads": -5}, {"seed": 2**40}])
def test_a_forged_job_is_one_line(few: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    folder = RunFolder(tmp_path)
    save_job(folder, FitJob(str(few)))
    forge(folder.job, **change)
    assert "job.json: damaged or of another version" in fail("fit", "--resume", tmp_path)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": 5},
        {"dtype": ""},
        {"shape": [10**4000, 1]},
        {"shape": [-1]},
        {"data_offsets": [0]},
        {"data_offsets": [0, 10**30]},
    ],
)
def test_a_forged_tensor_is_one_line(mine: Path, entry: dict[str, Any]) -> None:
    model = RunFolder(mine).model
    content = model.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    name = next(name for name in header if name != "__metadata__")
    header[name] |= entry
    forged = json.dumps(header).encode()
    model.write_bytes(len(forged).to_bytes(8, "little") + forged + content[end:])
    for command in (["inspect", model], ["predict", mine, "digits", "--out", mine / "a.csv"]):
        line = run(*command).stderr.splitlines()[-1]
        assert re.match(r"Error: .*model\.safetensors: damaged", line), line


@pytest.mark.parametrize(
    "name", ["run.json", "assignments.csv", "model.safetensors", "edits.jsonl"]
)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_special_file_in_a_run_is_one_line(mine: Path, few: Path, name: str, kind: str) -> None:
    path = mine / name
    path.unlink(missing_ok=True)
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    for command in (["inspect", mine], ["score", mine], ["report", mine, "--no-map"]):
        result = run(*command)
        if result.exit_code:
            assert isinstance(result.exception, SystemExit), result.exception
            assert name in result.stderr or command[0] == "score"
    if name in ("model.safetensors", "edits.jsonl"):
        line = fail("predict", mine, few, "--out", mine / "a.csv")
        assert f"{name}: " in line
        assert "not a regular file" in line


def test_a_pipe_in_place_of_settings_is_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    assert "pipe.toml: cannot be read as TOML (not a regular file)" in fail(
        "fit", "digits", "--config", tmp_path / "pipe.toml", "--out", tmp_path / "out"
    )


def test_too_little_memory_to_start_is_one_line(tmp_path: Path) -> None:
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (2**28, 2**28));"
        "from selfsort.cli.main import main; main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "fit", "digits", "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("Error: not enough memory")
    assert "Traceback" not in done.stderr


# Edits count


@pytest.fixture
def edited(few: Path, made: Path, tmp_path: Path) -> tuple[Path, list[int]]:
    """A run whose clusters 0 and 1 were merged, the last image marked as an outlier; its labels."""
    folder = shutil.copytree(made, tmp_path / "edited")
    run, assignments = load_run(folder)
    journal = Journal(folder, State.of(assignments.labels, run.n_clusters))
    journal.add(Rename(1, "ones & <b>"))
    journal.add(Merge(0, 1))
    journal.add(Mark([11], True))
    journal.close()
    return folder, journal.state.labels.tolist()


def test_score_counts_edits_and_leaves_outliers_out(
    edited: tuple[Path, list[int]], tmp_path: Path
) -> None:
    folder, labels = edited
    names = load_run(folder).assignments.names
    truth = tmp_path / "truth.csv"
    rows = [f"{name},{label}" for name, label in zip(names, labels, strict=True)]
    truth.write_text("\n".join(["name,truth", *rows]) + "\n")
    result = run("score", folder, truth, "--json")
    assert f"edits in {folder / 'edits.jsonl'} count" in result.stderr
    found = json.loads(result.stdout)
    assert (found["accuracy"], found["n_samples"]) == (1, 11)
    original = json.loads(succeed("score", folder / "assignments.csv", truth, "--json"))
    assert original["n_samples"] == 12
    assert original["accuracy"] < 1


def test_a_fit_aligns_to_edited_numbers(
    few: Path, edited: tuple[Path, list[int]], tmp_path: Path
) -> None:
    folder, labels = edited
    arguments = ["fit", few, *FAST, "-k", 3, "--align-to", folder, "--out", tmp_path / "out"]
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    assert "its edits count" in result.stderr
    alignment = json.loads(result.stdout)["alignment"]
    assert alignment["common"] == 11
    new = load_run(tmp_path / "out").assignments.labels
    assert alignment["same"] == np.mean(new[:11] == np.array(labels)[:11])


def test_a_report_shows_edited_clusters_or_the_original_ones(
    edited: tuple[Path, list[int]], tmp_path: Path
) -> None:
    folder, labels = edited
    succeed("report", folder, "--no-map", "--out", tmp_path / "edited.html")
    succeed("report", folder, "--no-map", "--original", "--out", tmp_path / "original.html")
    page = (tmp_path / "edited.html").read_text()
    original = (tmp_path / "original.html").read_text()
    assert 'id="cluster-0"' in original
    assert 'id="cluster-0"' not in page
    assert "ones &amp; &lt;b&gt;" in page
    assert "ones" not in original
    assert f"<dd>{len(set(labels))}</dd>" in page


def test_a_report_shows_no_folders_above_the_images(few: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(few, tmp_path / "home" / "photos")
    (folder / "broken.png").write_bytes(b"no image")
    out = tmp_path / "home" / "out"
    arguments = ["fit", folder, *FAST[:-1], "-k", 3, "--skip-broken", "--out", out]
    succeed(*arguments)
    page = (out / "report.html").read_text()
    assert "broken.png" in page
    assert "home" not in page
    shutil.rmtree(folder)
    succeed("report", out)
    page = (out / "report.html").read_text()
    assert "cannot be read" in page
    assert "home" not in page


def test_truth_of_many_digits_has_a_column() -> None:
    truth = ["10", "9", "9" * 5000]
    found = confusion(Assignments(list("abc"), np.arange(3), np.ones(3, np.float32), truth), 3)
    assert found is not None
    assert len(found.classes) == 3


# The words of the library and of the command line


def test_the_library_names_no_flags_and_each_remedy_is_in_use() -> None:
    texts = {
        file: file.read_text()
        for file in SOURCES.rglob("*.py")
        if not {"cli", "reproduce"} & set(file.relative_to(SOURCES).parts)
    }
    flag = re.compile(r"""["' (]--?(?:k\b|[a-z][a-z-]+)""")
    for file, text in texts.items():
        literals = re.findall(r'(?<!")"([^"\n]+)"(?!")', text)
        spoken = [literal for literal in literals if "ffmpeg" not in literal]
        named = [literal for literal in spoken if flag.search(f" {literal}")]
        assert not named, f"{file.name}: {named}"
    together = "".join(texts.values())
    assert not [argument for argument in FLAGS if argument not in together]


# From Python


def test_a_whole_run_from_python(few: Path, tmp_path: Path) -> None:
    settings = {"network.width": 4, "network.latent_width": 32, "clustering.n_init": 1}
    told: list[str] = []
    made = sort_folder(
        few,
        out=tmp_path / "out",
        n_clusters=3,
        recipe="paper",
        epochs=1,
        settings=settings,
        callbacks=Callbacks(tell=told.append),
    )
    assert {file.name for file in made.written} == set(os.listdir(tmp_path / "out"))
    assert made.run.n_clusters == 3
    assert any("12 images" in line for line in told)
    with pytest.raises(SelfsortError, match="`overwrite=True`"):
        sort_folder(few, out=tmp_path / "out", n_clusters=3)
