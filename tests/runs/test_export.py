"""Pictures of a run and what is exported from it."""

import csv
import io
import json
import os
import shutil
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from conftest import HOSTILE_NAMES
from selfsort.cli.export import FORMS
from selfsort.data.gallery import ArrayGallery, EncodedPicture, FolderGallery
from selfsort.data.image_set import as_image_set
from selfsort.errors import SelfsortError
from selfsort.runs.copies import folder_names
from selfsort.runs.edits import Accept, Mark, Merge, Rename
from selfsort.runs.export import EXPORTS, export
from selfsort.runs.journal import EditHistory
from selfsort.runs.results import load_run
from selfsort.runs.state import State
from selfsort.runs.table import Assignments

Progress = list[tuple[str, int, int]]


def edited(folder: Path) -> tuple[Assignments, State, FolderGallery]:
    run, assignments = load_run(folder)
    history = EditHistory(State.of(assignments.labels, run.n_clusters))
    history.apply(Rename(0, "=a/b:c"))
    history.apply(Merge(1, 0))
    history.apply(Mark([0, 5], True))
    return (
        assignments,
        history.state,
        FolderGallery(Path(run.reading["source"]), assignments.names, 32),
    )


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
        return list(csv.DictReader(file))


def decode(picture: EncodedPicture | None) -> Image.Image:
    assert picture is not None
    return Image.open(io.BytesIO(picture.content))


def test_assignments_are_written_beside_the_originals_and_never_over_anything(
    run_folder: Path,
) -> None:
    assignments, state, gallery = edited(run_folder)
    before = {file: file.read_bytes() for file in run_folder.iterdir()}
    first = export("assignments", run_folder, assignments, state, gallery, lambda *args: None)
    second = export("assignments", run_folder, assignments, state, gallery, lambda *args: None)
    assert [first.name, second.name] == ["assignments.csv", "assignments-2.csv"]
    assert first.parent == second.parent == run_folder / "export"
    assert before == {file: file.read_bytes() for file in run_folder.iterdir() if file.is_file()}
    table = rows(first)
    assert list(table[0]) == ["name", "cluster", "cluster_name", "confidence", "outlier"]
    assert [row["name"].removeprefix("'") for row in table] == list(assignments.names)
    assert [int(row["cluster"]) for row in table] == state.labels.tolist()
    assert {row["cluster_name"] for row in table if row["cluster"] == "0"} == {
        "'=a/b:c"
    }  # no formula
    assert [number for number, row in enumerate(table) if row["outlier"] == "1"] == [0, 5]
    assert not any(row["name"].startswith("=") for row in table)


def test_labels_for_training(run_folder: Path) -> None:
    assignments, state, gallery = edited(run_folder)
    target = export("labels", run_folder, assignments, state, gallery, lambda *args: None)
    classes = (target / "classes.txt").read_text().splitlines()
    numbers, table = np.load(target / "labels.npy"), rows(target / "labels.csv")
    assert classes == [
        "=a/b:c",
        *(f"cluster-{cluster}" for cluster in state.clusters[1:] if len(state.members(cluster))),
    ]
    assert len(numbers) == len(assignments.names)
    assert np.flatnonzero(numbers == -1).tolist() == [0, 5]
    kept = np.flatnonzero(numbers >= 0).tolist()
    assert [row["file"].removeprefix("'") for row in table] == [
        assignments.names[row] for row in kept
    ]
    assert [row["label"].removeprefix("'") for row in table] == [
        classes[number] for number in numbers[kept]
    ]


def test_folders_hold_copies_of_the_originals(run_folder: Path) -> None:
    assignments, state, gallery = edited(run_folder)
    told: Progress = []
    target = export(
        "folders", run_folder, assignments, state, gallery, lambda *args: told.append(args)
    )
    assert told[-1] == ("copying", 130, 130)
    folders = folder_names(state.names, state.clusters)
    assert folders[0] == "=a_b_c"
    for row, name in enumerate(assignments.names):
        place = "outliers" if row in (0, 5) else folders[int(state.labels[row])]
        copy = target / place / name.replace(os.sep, "__")
        assert copy.read_bytes() == (gallery.root / name).read_bytes()
        assert copy.stat().st_nlink == 1
    assert sum(len(files) for _, _, files in os.walk(target)) == 130
    again = export("folders", run_folder, assignments, state, gallery, lambda *args: None)
    assert again.name == "folders-2"


def test_a_failed_export_leaves_nothing_half_done(run_folder: Path) -> None:
    assignments, state, gallery = edited(run_folder)
    lost = FolderGallery(run_folder, assignments.names, 32)
    with pytest.raises(SelfsortError, match="No such file"):
        export("folders", run_folder, assignments, state, lost, lambda *args: None)
    assert list((run_folder / "export").glob("*")) == []
    with pytest.raises(SelfsortError, match="should be one of assignments, labels, folders"):
        export("../x", run_folder, assignments, state, gallery, lambda *args: None)


def test_arrays_become_png_files(tmp_path: Path) -> None:
    pixels = np.arange(6 * 5 * 7 * 3, dtype=np.uint8).reshape(6, 5, 7, 3)
    images = as_image_set(pixels)
    assignments = Assignments(
        images.names, np.array([0, 1, 0, 1, 1, 1]), np.ones(6, dtype=np.float32)
    )
    state = State.of(assignments.labels, 2)
    target = export(
        "folders", tmp_path, assignments, state, ArrayGallery(images), lambda *args: None
    )
    assert sorted(file.name for file in (target / "cluster-1").iterdir()) == [
        "1.png",
        "3.png",
        "4.png",
        "5.png",
    ]
    with Image.open(target / "cluster-0" / "2.png") as picture:
        assert np.array_equal(np.asarray(picture), pixels[2])


def test_folder_names_are_safe_everywhere() -> None:
    names = {
        0: "CON",
        1: "con",
        2: "a" * 100,
        3: " . ",
        4: "ü" * 100,
        5: "x\x00y",
        6: "Outliers",
        7: "../../x",
        8: "NUL.txt",
    }
    found = folder_names(names, range(10))
    assert found[0] == "_CON"
    assert found[3] == "cluster-3"
    assert (found[5], found[6], found[7], found[8], found[9]) == (
        "x_y",
        "Outliers-6",
        "_.._x",
        "_NUL.txt",
        "cluster-9",
    )
    assert len({name.casefold() for name in found.values()}) == len(found)
    assert all(
        len(name.encode()) <= 130 and "/" not in name and name not in (".", "..")
        for name in found.values()
    )


# Pictures


def test_sheets_show_each_image_in_its_place() -> None:
    pixels = np.zeros((30, 6, 6), dtype=np.uint8)
    pixels[:] = np.arange(30)[:, None, None] * 8
    gallery = ArrayGallery(as_image_set(pixels))
    sheet = decode(gallery.sheet([*range(12, 30), 3]))
    assert (sheet.size, sheet.format) == ((60, 12), "PNG")
    values = np.asarray(sheet.convert("L"))
    assert values[3, 3::6].tolist() == [8 * number for number in range(12, 22)]
    assert values[9, 3 : 9 * 6 : 6].tolist() == [8 * number for number in [*range(22, 30), 3]]
    assert decode(gallery.sheet([1])).size == (6, 6)
    assert decode(gallery.sheet([1], is_fine=True)).size == (6, 6)  # there is no more to show


def test_small_pictures_of_files_are_kept_and_finer_ones_show_more(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (300, 200, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    gallery = FolderGallery(tmp_path, ["a.png"], 32)
    before = gallery.sheet([0, 0])
    assert decode(before).size == (256, 128)
    assert decode(gallery.sheet([0], is_fine=True)).size == (256, 256)
    (tmp_path / "a.png").unlink()
    assert gallery.sheet([0, 0]).content == before.content
    grey = np.asarray(decode(gallery.sheet([0], is_fine=True)).convert("L"))
    assert np.ptp(grey) <= 2  # and what is gone is grey


def test_files_are_upright_small_and_by_number_only(photos_run: Path) -> None:
    run, assignments = load_run(photos_run)
    gallery = FolderGallery(Path(run.reading["source"]), assignments.names, 32)
    turned = list(assignments.names).index("turned.jpg")
    assert decode(gallery.large(turned)).size == (30, 90)
    assert decode(gallery.sheet([turned])).size == (128, 128)
    for name in HOSTILE_NAMES:
        assert decode(gallery.large(list(assignments.names).index(name))).size == (24, 24)
    assert len(gallery.images(np.array([turned, 0]))) == 2


@pytest.mark.parametrize(
    "name", ["../secret.png", "/secret.png", "sub/../../secret.png", "gone.png", "a\0b.png"]
)
def test_names_that_lead_out_of_the_folder_are_never_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "photos" / "sub").mkdir(parents=True)
    Image.new("L", (9, 9), 255).save(tmp_path / "secret.png")
    name = name.replace("/secret", f"{tmp_path}/secret") if name.startswith("/") else name
    gallery = FolderGallery(tmp_path / "photos", [name], 32)
    assert gallery.large(0) is None
    assert np.ptp(np.asarray(decode(gallery.sheet([0])))) <= 4  # nothing but grey


def test_large_pictures_are_shrunk_before_they_are_sent(tmp_path: Path) -> None:
    Image.linear_gradient("L").resize((3000, 1500)).save(tmp_path / "big.png")
    gallery = FolderGallery(tmp_path, ["big.png"], 32)
    picture = gallery.large(0)
    assert decode(picture).size == (1024, 512)
    assert picture is not None
    assert picture.media_type == "image/jpeg"


# For other programs


def nothing(*told: object) -> None:
    """Nobody listens."""


def test_sidecars_hold_the_cluster_as_keyword(run_folder: Path, tmp_path: Path) -> None:
    assignments, state, gallery = edited(run_folder)
    state = Rename(2, "Tom & <Jerry>/a|b").apply(state)
    target = export("xmp", run_folder, assignments, state, gallery, nothing, tmp_path / "out")
    assert target == tmp_path / "out" / "xmp"
    spaces = {
        "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
        "dc": "http://purl.org/dc/elements/1.1/",
        "lr": "http://ns.adobe.com/lightroom/1.0/",
        "digiKam": "http://www.digikam.org/ns/1.0/",
    }
    for row, name in enumerate(assignments.names):
        sidecar = target / f"{name}.xmp"
        assert sidecar.exists() != state.outliers[row]
        if state.outliers[row]:
            continue
        tree = ElementTree.fromstring(sidecar.read_bytes())
        cluster = int(state.labels[row])
        title = state.names.get(cluster) or f"cluster-{cluster}"
        leaf = title.replace("/", "-").replace("|", "-")
        found = {
            kind: [item.text for item in tree.findall(f".//{kind}//rdf:li", spaces)]
            for kind in ("dc:subject", "lr:hierarchicalSubject", "digiKam:TagsList")
        }
        assert found == {
            "dc:subject": [title],
            "lr:hierarchicalSubject": [f"selfsort|{leaf}"],
            "digiKam:TagsList": [f"selfsort/{leaf}"],
        }
    assert not list(gallery.root.rglob("*.xmp"))  # nothing beside the photographs


def test_coco_has_a_box_around_each_image(run_folder: Path) -> None:
    assignments, state, gallery = edited(run_folder)
    target = export("coco", run_folder, assignments, state, gallery, nothing)
    content = json.loads((target / "annotations.json").read_text())
    kept = np.flatnonzero(~state.outliers).tolist()
    files = {image["id"]: image for image in content["images"]}
    assert [files[row + 1]["file_name"] for row in kept] == [assignments.names[row] for row in kept]
    names = {one["id"]: one["name"] for one in content["categories"]}
    assert set(names.values()) == {"=a/b:c", "cluster-2", "cluster-3"}
    for one in content["annotations"]:
        row = one["image_id"] - 1
        label = int(state.labels[row])
        assert names[one["category_id"]] == (state.names.get(label) or f"cluster-{label}")
        width, height = files[row + 1]["width"], files[row + 1]["height"]
        assert (one["bbox"], one["area"]) == ([0, 0, width, height], width * height)
        turned = assignments.names[row] == "turned.jpg"
        assert (width, height) == ((30, 90) if turned else (24, 24))


def test_label_studio_tells_decisions_from_guesses(run_folder: Path) -> None:
    assignments, state, gallery = edited(run_folder)
    state = Accept([7]).apply(state)
    target = export("label-studio", run_folder, assignments, state, gallery, nothing)
    tasks = {task["id"] - 1: task for task in json.loads((target / "tasks.json").read_text())}
    assert set(tasks) == set(np.flatnonzero(~state.outliers).tolist())
    interface = ElementTree.fromstring((target / "labels.xml").read_text())
    choices = {choice.attrib["value"] for choice in interface.iter("Choice")}
    for row, task in tasks.items():
        kind = "annotations" if row == 7 else "predictions"
        (answer,) = task[kind]
        (choice,) = answer["result"][0]["value"]["choices"]
        assert choice in choices
        name = unquote(task["data"]["image"].partition("?d=")[2], errors="surrogateescape")
        assert name == assignments.names[row]


def test_links_lead_to_the_images_in_folders_of_classes(run_folder: Path) -> None:
    assignments, state, gallery = edited(run_folder)
    target = export("links", run_folder, assignments, state, gallery, nothing)
    links = [file for file in target.rglob("*") if file.is_symlink()]
    assert len(links) == len(assignments.names)
    classes = {file.parent.name for file in links}
    assert classes == {"=a_b_c", "cluster-2", "cluster-3", "outliers"}
    originals = {os.path.abspath(gallery.root / name) for name in assignments.names}
    assert {os.readlink(file) for file in links} == originals


def test_arrays_go_to_other_programs_as_png_files(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 5, 7), dtype=np.uint8)
    images = as_image_set(pixels)
    assignments = Assignments(images.names, np.arange(6) % 2, np.ones(6, dtype=np.float32))
    state = State.of(assignments.labels, 2)
    gallery = ArrayGallery(images)
    target = export("coco", tmp_path, assignments, state, gallery, nothing)
    first = json.loads((target / "annotations.json").read_text())["images"][0]
    assert (first["width"], first["height"]) == (7, 5)
    assert np.array_equal(np.asarray(Image.open(target / first["file_name"]))[..., 0], pixels[0])
    export("label-studio", tmp_path, assignments, state, gallery, nothing)
    for kind in ("xmp", "links"):
        with pytest.raises(SelfsortError, match="are no files"):
            export(kind, tmp_path, assignments, state, gallery, nothing)


@pytest.mark.parametrize("kind", sorted(EXPORTS))
def test_the_command_writes_each_form_where_it_is_told(
    run_folder: Path, tmp_path: Path, kind: str
) -> None:
    from click.testing import CliRunner

    from selfsort.cli.main import main

    before = {file: file.read_bytes() for file in run_folder.iterdir() if file.is_file()}
    command = ["export", str(run_folder), kind, "--to", str(tmp_path / "out")]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"wrote {tmp_path / 'out' / EXPORTS[kind].file}\n"
    assert (tmp_path / "out" / EXPORTS[kind].file).exists()
    assert before == {file: file.read_bytes() for file in run_folder.iterdir() if file.is_file()}


def test_exports_stay_out_of_the_sorted_folder_and_find_images_that_have_moved(
    run_folder: Path, tmp_path: Path
) -> None:
    from click.testing import CliRunner

    from selfsort.cli.main import main

    record = json.loads((run_folder / "run.json").read_text())
    source = Path(record["reading"]["source"])

    def run(*command: object) -> tuple[int, str]:
        result = CliRunner().invoke(main, list(map(str, command)))
        return result.exit_code, result.output

    code, said = run("export", run_folder, "links", "--to", source / "out")
    assert code == 1
    assert "is inside" in said
    shutil.copytree(source, tmp_path / "moved")
    record["reading"]["source"] = str(tmp_path / "gone")
    (run_folder / "run.json").write_text(json.dumps(record))
    code, said = run("export", run_folder, "links")
    assert code == 1
    assert "--images" in said
    code, said = run("export", run_folder, "links", "--images", tmp_path / "moved")
    assert code == 0, said
    (some, *_) = [file for file in (run_folder / "export").rglob("*") if file.is_symlink()]
    assert os.readlink(some).startswith(str(tmp_path / "moved"))
    code, said = run("report", run_folder, "--images", tmp_path / "moved", "--no-map")
    assert code == 0, said
    assert (run_folder / "report.html").read_text().count("<img") > 10
    (tmp_path / "moved" / "turned.jpg").unlink()
    code, said = run("report", run_folder, "--images", tmp_path / "moved", "--no-map")
    assert code == 1
    assert "1 of the 130 images of the run are not in it ('turned.jpg')" in said
    code, said = run("report", run_folder, "--images", tmp_path / "nowhere", "--no-map")
    assert code == 1
    assert "no such file or folder" in said


def test_the_command_offers_every_form() -> None:
    assert set(FORMS) == set(EXPORTS)
