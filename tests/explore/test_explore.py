"""`selfsort explore` as a process, and what `predict` and `fit` make of its edits."""

import csv
import http.client
import json
import os
import signal
import socket
import stat
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from exploring import Server
from selfsort.cli.main import main
from selfsort.data.gallery import FolderGallery
from selfsort.explore.guard import MAX_BODY
from selfsort.runs.edits import Edit, Mark, Merge, Move, Rename
from selfsort.runs.folder import JOURNAL
from selfsort.runs.journal import Journal
from selfsort.runs.results import load_run
from selfsort.runs.state import State


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, [str(part) for part in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def write_edits(folder: Path, *edits: Edit) -> State:
    record, assignments = load_run(folder, edited=False)
    journal = Journal(folder, State.of(assignments.labels, record.n_clusters))
    for edit in edits:
        journal.add(edit)
    journal.close()
    return journal.state


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
        return list(csv.DictReader(file))


# The process


def test_it_prints_its_address_refuses_strangers_and_ends_with_ctrl_c(run_folder: Path) -> None:
    before = {file.name: file.read_bytes() for file in run_folder.iterdir()}
    with Server(run_folder, "--no-browser") as server:

        def ask(
            method: str, path: str, body: str | Iterable[bytes] | None = None, **headers: str
        ) -> int:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
            connection.request(
                method,
                path,
                body,
                headers,
                encode_chunked=headers.get("Transfer-Encoding") == "chunked",
            )
            status = connection.getresponse().status
            connection.close()
            return status

        json_from_here = {"Origin": server.origin, "Content-Type": "application/json"}
        assert ask("GET", f"/{server.token}/") == 200
        assert ask("GET", "/") == 403
        assert ask("GET", f"/{server.token}/../../etc/passwd") == 403
        assert ask("GET", f"/{server.token}/", Host="evil.example") == 421
        assert (
            ask(
                "POST",
                f"/{server.token}/api/edit",
                "{}",
                **{**json_from_here, "Origin": "http://evil.example"},
            )
            == 403
        )
        endless = (b" " * 65536 for _ in range(MAX_BODY // 65536 + 1))
        assert (
            ask(
                "POST",
                f"/{server.token}/api/edit",
                endless,
                **json_from_here,
                **{"Transfer-Encoding": "chunked"},
            )
            == 413
        )
        code, _, errors = run("explore", run_folder, "--no-browser", "--port", server.port)
        assert (code, errors.splitlines()[-1]) == (
            1,
            f"Error: port {server.port} cannot be used (Address already in use); choose another "
            "with --port.",
        )
        code, _, errors = run("explore", run_folder, "--no-browser")
        assert (code, errors) == (
            1,
            f"Error: {run_folder}: is open in another `selfsort explore`; use that one, or end "
            "it first.\n",
        )
        code, _, errors = run("fit", "digits", "--out", run_folder, "--overwrite")
        assert (code, "another selfsort is writing to it" in errors) == (1, True)
        assert server.end() == 0
        refusals = [line for line in server.log if line.startswith("refused: ")]
        assert len(refusals) == 5, server.log
        assert not any(server.token in line for line in server.log)
        assert server.log[-1] == "ended; nothing was edited\n"
    after = {
        file.name: file.read_bytes() for file in run_folder.iterdir() if file.name != "edits.lock"
    }
    assert after == before


def test_only_this_machine_can_connect(run_folder: Path) -> None:
    with Server(run_folder, "--no-browser") as server:
        listening = Path("/proc/net/tcp")
        if not listening.exists():
            pytest.skip("needs Linux to look at the listening sockets")
        ours = [
            line.split()[1]
            for line in listening.read_text().splitlines()[1:]
            if line.split()[1].endswith(f":{server.port:04X}")
        ]
        loopback = int.from_bytes(socket.inet_aton("127.0.0.1"), "little")
        assert {address.split(":")[0] for address in ours} == {f"{loopback:08X}"}


def test_the_browser_gets_the_address_through_a_private_file(
    run_folder: Path, tmp_path: Path
) -> None:
    script, seen = tmp_path / "browser", tmp_path / "seen"
    script.write_text(
        f'#!/bin/sh\nprintf %s "$1" > {seen}.tmp; cp "${{1#file://}}" {seen}.page; mv {seen}.tmp '
        f"{seen}\n"
    )
    script.chmod(0o700)
    with Server(run_folder, environment={"BROWSER": f"{script} %s"}) as server:
        while not seen.exists():
            assert server.process.poll() is None
            time.sleep(0.05)
        opened = Path(seen.read_text().removeprefix("file://"))
        assert server.token not in str(opened)
        assert stat.S_IMODE(opened.parent.stat().st_mode) == 0o700
        assert f"url={server.address}" in seen.with_suffix(".page").read_text()
        assert server.end() == 0
        assert not opened.exists()


def test_edits_survive_a_kill(run_folder: Path) -> None:
    write_edits(run_folder, Rename(0, "kept"))
    with open(run_folder / JOURNAL, "ab") as file:
        file.write(b'{"crc":"00')  # as a crash in the middle of writing leaves it
    with Server(run_folder, "--no-browser") as server:
        assert server.end(signal.SIGKILL) != 0
        assert f"{run_folder / JOURNAL}: 1 edit found\n" in server.log
        assert (
            f"{run_folder / JOURNAL}: its last entry was never finished and is left out\n"
            in server.log
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reading": {}}, "the run does not say where its images are; fit again."),
        (
            {
                "reading": {
                    "source": "/gone",
                    "data_dir": None,
                    "size": 32,
                    "folder_truth": False,
                    "skip_broken": False,
                }
            },
            "no such file",
        ),
    ],
)
def test_runs_whose_images_are_gone(
    run_folder: Path, change: dict[str, object], message: str
) -> None:
    content = json.loads((run_folder / "run.json").read_text())
    (run_folder / "run.json").write_text(json.dumps({**content, **change}))
    code, _, errors = run("explore", run_folder, "--no-browser")
    assert code == 1
    assert message in errors.splitlines()[-1]
    table = run_folder / "assignments.csv"
    lines = table.read_text(errors="surrogateescape").splitlines(keepends=True)
    table.write_text("".join(lines[:-1]), errors="surrogateescape")
    assert (
        "assignments.csv has 129 rows for 130 images; fit again."
        in run("explore", run_folder, "--no-browser")[2]
    )
    table.write_text("".join([*lines[:-1], "x.png,1000000000,1\n"]), errors="surrogateescape")
    assert "do not fit the 4 clusters of run.json" in run("explore", run_folder, "--no-browser")[2]
    code, _, errors = run("explore", run_folder / "nothing", "--no-browser")
    assert "is this the folder that `selfsort fit` wrote?" in errors


def test_images_that_have_moved_are_shown_from_where_they_are(
    run_folder: Path, tmp_path: Path
) -> None:
    content = json.loads((run_folder / "run.json").read_text())
    source = content["reading"]["source"]
    content["reading"]["source"] = str(tmp_path / "gone")
    (run_folder / "run.json").write_text(json.dumps(content))
    assert "--images" in run("explore", run_folder, "--no-browser")[2]
    out = tmp_path / "exports"
    options = ("--no-browser", "--images", source, "--export-to", str(out))
    with Server(run_folder, *options) as server:
        with urllib.request.urlopen(f"{server.address}api/image/3", timeout=30) as answer:
            assert answer.headers["content-type"] == "image/png"
        change = urllib.request.Request(
            f"{server.address}api/export",
            data=b'{"kind": "links"}',
            headers={"Origin": server.origin, "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(change, timeout=60) as answer:
            assert json.loads(answer.read()) == {"written": str(out / "links")}
    assert any(out.rglob("*.png"))
    command = ("explore", run_folder, "--no-browser", "--images", source, "--export-to", source)
    assert "is inside" in run(*command)[2]


# What others make of the edits


def test_predict_uses_names_merges_and_splits(run_folder: Path, tmp_path: Path) -> None:
    from selfsort.explore.modelled import split_cluster

    source = json.loads((run_folder / "run.json").read_text())["reading"]["source"]
    assert run("predict", run_folder, source, "--out", tmp_path / "before.csv")[0] == 0
    original = {
        name: (run_folder / name).read_bytes()
        for name in ("assignments.csv", "run.json", "model.safetensors")
    }
    _, assignments = load_run(run_folder)
    gallery = FolderGallery(Path(source), assignments.names, 32)
    state = write_edits(
        run_folder, Rename(0, "=left/right"), Merge(1, 0), Move([0], 3), Mark([1], True)
    )
    split = split_cluster(run_folder, state, gallery, 2, 2, lambda *args: None)
    state = write_edits(run_folder, split, Rename(4, "two"), Merge(3, 4))

    code, output, _ = run(
        "predict",
        run_folder,
        source,
        "--out",
        tmp_path / "after.csv",
        "--copy-to",
        tmp_path / "sorted",
    )
    assert code == 0
    assert f"{tmp_path / 'after.csv'}" in output
    before, after = rows(tmp_path / "before.csv"), rows(tmp_path / "after.csv")
    assert list(after[0]) == ["name", "cluster", "cluster_name", "confidence", "unlike"]
    merged = {"0": "0", "1": "0", "3": "4"}
    moved = 0
    for old, new in zip(before, after, strict=True):
        assert new["cluster"] == merged.get(old["cluster"], new["cluster"])
        assert new["cluster_name"] == {"0": "'=left/right", "4": "two"}.get(new["cluster"], "")
        moved += old["cluster"] == "2" and new["cluster"] == "4"
    assert 0 < moved < sum(row["cluster"] == "2" for row in before)
    assert {row["cluster"] for row in after} <= {"0", "2", "4"}
    predicted = np.array([int(row["cluster"]) for row in after])
    untouched = (
        np.arange(len(predicted)) > 1
    )  # images that were moved or marked by hand do not count for predict
    assert np.array_equal(predicted[untouched], state.labels[untouched])
    folders = {"0": "=left_right", "2": "cluster-2", "4": "two"}
    for row in after:
        name = row["name"].removeprefix("'")
        assert (tmp_path / "sorted" / folders[row["cluster"]] / name.replace(os.sep, "__")).exists()
    assert original == {name: (run_folder / name).read_bytes() for name in original}

    (run_folder / JOURNAL).write_bytes(
        (run_folder / JOURNAL).read_bytes().replace(b"left", b"lift")
    )
    code, _, errors = run("predict", run_folder, source, "--out", tmp_path / "no.csv")
    assert (code, "line 2 is damaged" in errors) == (1, True)
    assert not (tmp_path / "no.csv").exists()


def test_fit_keeps_the_edits_of_the_run_it_replaces(run_folder: Path) -> None:
    write_edits(run_folder, Rename(0, "old"))
    edits = (run_folder / JOURNAL).read_bytes()
    small = [
        "--recipe",
        "paper",
        "--epochs",
        1,
        "-k",
        3,
        "--set",
        "network.width=4",
        "--set",
        "network.latent_width=32",
    ]
    code, _, errors = run(
        "fit",
        "digits",
        *small,
        "--set",
        "network.n_duplicates=4",
        "--out",
        run_folder,
        "--overwrite",
    )
    assert code == 0
    assert f"edits of the earlier run are now in {run_folder / 'edits-1.jsonl'}" in errors
    assert (run_folder / "edits-1.jsonl").read_bytes() == edits
    assert not (run_folder / JOURNAL).exists()
