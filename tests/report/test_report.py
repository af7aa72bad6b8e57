"""The report: what it says, what it shows, and that no name can do harm."""

import json
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from selfsort.data.datasets import load_dataset
from selfsort.data.image_set import ImageSet
from selfsort.report.cards import LONGEST_NAME, N_BORDERLINE, N_TYPICAL, confusion, shown
from selfsort.report.map import Projection
from selfsort.report.page import remedies, render_report
from selfsort.runs.record import Run, current_versions
from selfsort.runs.results import load_run, save_run
from selfsort.runs.table import Assignments
from test_cli import TINY, fail, run, succeed

HOSTILE = [
    "<script>alert(1)</script>.png", '"><img src=x onerror=alert(2)>.png', "new\nline.png",
    "' onload='alert(3).png", "{{ 7*7 }}.png", "&lt;b&gt;.png", os.fsdecode(b"caf\xe9.png"),
    "ünï☃.png", "\u202egnp.exe", "</title><script>alert(4)</script>", "a" * 250, "]]>--><!--",
]  # fmt: skip
TERMS = {
    "loss": 2.0,
    "classification": 1.5,
    "affinity": 0.3,
    "balance": 0.9,
    "frobenius": 9000.0,
    "pseudo_accuracy": 0.4,
}


class Page(HTMLParser):
    """The elements of a page and its visible text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def a_run(n_samples: int, **changes: Any) -> Run:
    content: dict[str, Any] = {
        "source": "digits:full", "recipe": "standard",
        "config": {"network": {"width": 4}, "transforms": "dihedral"}, "seed": 5, "n_clusters": 10,
        "n_samples": n_samples, "image_shape": [1, 8, 8], "scores": {}, "seconds": 75.4,
        "history": [{"stage": "training", "epoch": epoch, "terms": TERMS} for epoch in (1, 2)],
        "label_free": {"silhouette": 0.25, "cluster_sizes": [], "active_duplicates": 4},
        "versions": current_versions(), "training_flops": 8_400_000_000_000,
    }  # fmt: skip
    return Run(**content | changes)


@pytest.fixture(scope="module")
def images() -> ImageSet:
    return load_dataset("digits").take(np.arange(400))


def sorted_digits(images: ImageSet, **changes: Any) -> Assignments:
    """Truth as clusters, with a confidence that falls from image to image."""
    assert images.truth is not None
    confidence = np.linspace(1, 0.2, len(images)).astype(np.float32)
    content = Assignments(
        list(images.names), images.truth, confidence, [str(label) for label in images.truth]
    )
    return replace(content, **changes)


def a_map(n: int) -> Projection:
    return Projection(np.arange(n), np.random.default_rng(0).random((n, 2), dtype=np.float32))


def test_it_says_what_was_run(images: ImageSet) -> None:
    scores = {
        "digits:full, clusters fitted on these images": {
            "accuracy": 0.987,
            "purity": 0.99,
            "nmi": 0.97,
            "ari": 0.96,
        }
    }
    warning = "one cluster holds 90% of the images; train longer (--epochs), or try another --seed."
    history = [
        *a_run(400).history,
        {"stage": "refinement", "epoch": 1, "terms": {"loss": 0.7, "target_accuracy": 0.95}},
    ]
    made = a_run(
        400,
        scores=scores,
        warnings=[warning],
        history=history,
        eigenvalues=[1, 0.99, 0.5, 0.4],
        cluster_count={"n_clusters": 2, "clarity": 12.5},
        skipped={"bad.png": "it is empty"},
    )
    page = Page(render_report(made, sorted_digits(images), images, a_map(400)))
    text = " ".join(page.text.split())
    for expected in (
        "digits:full", "Images 400", "Clusters 10", "Accuracy 98.7 %", "1 min 15 s",
        "Recipe standard, seed 5", "8.4 TFLOP", "network.width 4",
        f"torch {current_versions()['torch']}", "One cluster holds 90% of the images.",
        "What to do: Train longer (--epochs), or try another --seed.", "fall into 2 clear groups",
        "12.5 times", "silhouette 0.250", "98.70 % 99.00 % 97.00 % 96.00 %", "affinity α",
        "balance β", "pseudo accuracy", "could not be read: 1", "bad.png", "All 400 images",
        "targets met",
    ):  # fmt: skip
        assert expected in text
    assert len(page.all("figure")) == 3 + 2 + 1


def test_what_is_expected_and_how_many_clusters_there_could_be(images: ImageSet) -> None:
    made = a_run(
        400,
        count_curve=[[2, 0.0], [7, 0.5], [8, 0.1], [10, 0.9], [14, 0.0]],
        cluster_count={"n_clusters": 10, "clarity": 1.8},
        estimate={"accuracy": 0.724, "within": 0.17},
    )
    text = " ".join(Page(render_report(made, sorted_digits(images), images, None)).text.split())
    assert "Estimated accuracy 72 % ± 17" in text
    assert "fall into 10, or 7 if you want coarser groups ; this run has 10" in text
    assert "Mean confidence" not in text


def test_typical_and_borderline_images(images: ImageSet) -> None:
    assignments = sorted_digits(images)
    page = Page(render_report(a_run(400), assignments, images, None))
    covers = page.all("img")[:10]
    assert [int(str(cover["alt"])) for cover in covers] == [
        int(np.flatnonzero(assignments.labels == cluster)[0]) for cluster in range(10)
    ]
    pictures = page.all("img")[10:]
    assert len(pictures) == 10 * (N_TYPICAL + N_BORDERLINE)
    members = np.flatnonzero(assignments.labels == 0)  # the confidence falls with the row
    alts = [str(picture["alt"]) for picture in pictures[: N_TYPICAL + N_BORDERLINE]]
    assert [int(alt.split(",")[0]) for alt in alts] == [
        *members[:N_TYPICAL],
        *members[::-1][:N_BORDERLINE],
    ]
    assert alts[0] == "0, confidence 1.00"
    assert all(str(picture["src"]).startswith("data:image/png;base64,") for picture in pictures)
    assert f"{len(members)} images, {len(members) / 4:.1f} %; most often “0” (100.0 %)" in page.text


def test_nothing_comes_from_elsewhere(images: ImageSet) -> None:
    page = Page(render_report(a_run(400), sorted_digits(images), images, a_map(400)))
    (policy,) = [
        str(meta["content"])
        for meta in page.all("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    for _, attributes in page.elements:
        for name in ("src", "href", "action", "srcset", "poster", "data"):
            assert str(attributes.get(name) or "data:").startswith(("data:", "#"))
        assert not [name for name in attributes if name.startswith("on") or name == "style"]


@pytest.mark.parametrize("with_pictures", [True, False])
def test_hostile_names_stay_text(images: ImageSet, with_pictures: bool) -> None:
    chosen = replace(images.take(np.arange(len(HOSTILE))), names=HOSTILE)
    assignments = Assignments(
        HOSTILE,
        np.zeros(len(HOSTILE), dtype=np.int64),
        np.ones(len(HOSTILE), dtype=np.float32),
        HOSTILE,
    )
    harmless = Assignments(
        ["x"] * len(HOSTILE), assignments.labels, assignments.confidence, ["y"] * len(HOSTILE)
    )
    made = a_run(
        len(HOSTILE), n_clusters=1, source=HOSTILE[0],
        skipped={name: name for name in HOSTILE}, warnings=[HOSTILE[0]],
        scores={HOSTILE[9]: {
            "accuracy": 1.0, "purity": 1.0, "nmi": 1.0, "ari": 1.0}}
    )  # fmt: skip
    text = render_report(
        made,
        assignments,
        chosen if with_pictures else None,
        a_map(len(HOSTILE)),
        without_images=HOSTILE[0],
    )
    text.encode("utf-8")  # no lone surrogates
    page, plain = (
        Page(text),
        Page(render_report(made, harmless, chosen if with_pictures else None, a_map(len(HOSTILE)))),
    )
    assert {name for name, _ in page.elements} <= {name for name, _ in plain.elements}
    assert len(page.all("script")) == len(plain.all("script"))
    for name in HOSTILE:
        assert shown(name) in page.text
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on")]
    assert len([alt for picture in page.all("img") if (alt := picture["alt"])]) == (
        1 + min(len(HOSTILE), N_TYPICAL) if with_pictures else 0
    )


def test_names_as_they_are_shown() -> None:
    assert shown("plain ünï.png") == "plain ünï.png"
    assert shown("a\nb\t\x00") == "a\\nb\\t\\x00"
    assert shown("\u202egnp.exe") == "\\u202egnp.exe"
    assert shown(os.fsdecode(b"\xff.png")) == "\\xff.png"
    assert shown("\ud800") == "\\ud800"
    long = shown("a" * 100 + "b" * 150 + ".png")
    assert len(long) == LONGEST_NAME
    assert long.startswith("aaa")
    assert long.endswith("b.png")


@pytest.mark.parametrize("count", [1, 2, 13, 20])
def test_small_runs(images: ImageSet, count: int) -> None:
    few = images.take(np.arange(count))
    assignments = Assignments(
        few.names, np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.float32)
    )
    made = a_run(count, n_clusters=2, history=[], label_free={}, eigenvalues=[], versions={})
    page = Page(render_report(made, assignments, few, a_map(count)))
    assert len(page.all("img")) == 1 + min(count, N_TYPICAL)  # all are sure: none is borderline
    assert "This cluster is empty." in page.text
    assert "Compared with truth" not in page.text
    assert "Number of clusters" not in page.text
    assert "Training" not in page.text


def test_a_thousand_clusters_do_not_make_an_endless_page(images: ImageSet) -> None:
    count = 1000
    assignments = Assignments(
        [str(row) for row in range(count)], np.arange(count), np.ones(count, dtype=np.float32)
    )
    page = render_report(a_run(count, n_clusters=count), assignments, None, a_map(count))
    assert "These are the largest 256 of 1,000 clusters" in page
    assert page.count("<article") == 256
    assert len(page) < 1_000_000


def test_copies_and_odd_images_are_listed_with_their_pictures(images: ImageSet) -> None:
    odd = {"identical": [[3, 9], [20, 21, 22]], "blurred": list(range(30, 50))}
    page = Page(render_report(a_run(400, oddities=odd), sorted_digits(images), images, None))
    text = " ".join(page.text.split())
    assert "Worth a look" in text
    assert "Identical images: 5" in text
    assert "Blurred images: 20, the first of them" in text
    assert "Blank" not in text.partition("Worth a look")[2].partition("Identical")[2]
    plain = Page(render_report(a_run(400), sorted_digits(images), images, None))
    assert "Worth a look" not in plain.text


def test_metadata_is_told_where_its_values_repeat(images: ImageSet) -> None:
    assignments = sorted_digits(images)
    columns = {
        "camera <b>": ["Nikon" if label == 0 else "Leica" for label in assignments.labels],
        "number": [str(row) for row in range(400)],
        "same": ["x"] * 400,
    }
    html = render_report(a_run(400), assignments, images, None, columns=columns)
    text = " ".join(Page(html).text.split())
    assert "camera <b>: “Nikon” (100.0 %)" in text
    assert "number: " not in text
    assert "same: " not in text
    assert "camera <b>" not in html


def test_the_page_is_the_same_every_time(images: ImageSet) -> None:
    pages = {render_report(a_run(400), sorted_digits(images), images, a_map(400)) for _ in range(2)}
    assert len(pages) == 1


def test_confusion_puts_each_class_below_its_cluster() -> None:
    labels = np.array([0, 0, 0, 1, 1, 2])
    found = confusion(
        Assignments(
            list("abcdef"), labels, np.ones(6, dtype=np.float32), ["z", "z", "y", "x", "x", ""]
        ),
        3,
    )
    assert found is not None
    assert found.classes == ["z", "x", "y"]
    assert found.rows == [[2, 0, 1], [0, 2, 0], [0, 0, 0]]
    assert found.shades[1] == [0, 9, 0]
    assert confusion(Assignments(["a"], labels[:1], np.ones(1, dtype=np.float32)), 1) is None
    numbers = Assignments(
        list("abc"), np.array([0, 0, 0]), np.ones(3, dtype=np.float32), ["10", "9", "b"]
    )
    table = confusion(numbers, 1)
    assert table is not None
    assert sorted(table.classes, key=table.classes.index)[0] == "9"


def test_every_warning_has_its_remedy() -> None:
    assert remedies(["a is wrong; do b; or c.", "only this."]) == [
        ("A is wrong.", "Do b; or c."),
        ("Only this.", ""),
    ]


# Colours


def palettes() -> list[tuple[list[str], dict[str, str]]]:
    """The colours of clusters and of the rest, in the light and the dark page."""
    assets = Path(__file__).parents[2] / "src" / "selfsort" / "report" / "assets"
    found = []
    for scheme in (0, 1):
        block = (assets / "base.css").read_text().split("prefers-color-scheme: dark")[scheme]
        values = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
        found.append(([values[f"c{number}"] for number in range(10)], values))
    return found


def linear(colour: str) -> NDArray[np.float64]:
    values = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    light, dark = sorted(
        (float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other)), reverse=True
    )
    return (light + 0.05) / (dark + 0.05)


def lab(values: NDArray[np.float64]) -> NDArray[np.float64]:
    matrix = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    x, y, z = np.cbrt(np.clip(matrix @ np.clip(values, 0, 1) / [0.95047, 1, 1.08883], 0.0089, None))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_text_and_points_stand_out() -> None:
    for colours, values in palettes():
        for ground in ("paper", "panel"):
            assert all(
                contrast(values[name], values[ground]) >= 4.5
                for name in ("ink", "quiet", "accent", "error")
            )
            assert all(contrast(colour, values[ground]) >= 3 for colour in colours)
        assert contrast(values["ink"], values["warn-panel"]) >= 4.5
        assert contrast(values["on-accent"], values["accent"]) >= 4.5
        assert contrast(values["quiet"], values["tint"]) >= 4.5


@pytest.mark.parametrize(
    "sight",
    [
        np.eye(3),
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
    ],
    ids=["usual", "no red cones", "no green cones"],
)
def test_clusters_differ_for_all_kinds_of_colour_sight(sight: Any) -> None:
    """Simulated after Machado, Oliveira & Fernandes (2009); a distance of 2 in Lab can just be
    seen.
    """
    for colours, _ in palettes():
        places = [lab(np.array(sight) @ linear(colour)) for colour in colours]
        assert (
            min(
                float(np.linalg.norm(a - b))
                for number, a in enumerate(places)
                for b in places[:number]
            )
            > 20
        )


# The command


@pytest.fixture(scope="module")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on 300 of the digits, without its report."""
    folder = tmp_path_factory.mktemp("runs")
    digits = load_dataset("digits")
    assert digits.truth is not None
    np.savez(folder / "few.npz", images=digits.pixels[:300, 0], truth=digits.truth[:300])
    succeed("fit", folder / "few.npz", *TINY, "--no-report", "--out", folder / "run")
    assert not (folder / "run" / "report.html").exists()
    return folder / "run"


def test_report_writes_the_page_and_keeps_the_map(digits_run: Path, tmp_path: Path) -> None:
    output = json.loads(succeed("report", digits_run, "--threads", 1, "--json"))
    assert output["written"] == [
        *(str(digits_run / name) for name in ("report.html", "vectors.npz", "map.npz"))
    ]
    page = (digits_run / "report.html").read_bytes()
    again = succeed("report", digits_run, "--out", tmp_path / "again.html")
    assert again == f"wrote {tmp_path / 'again.html'}\n"  # and no new map
    assert (tmp_path / "again.html").read_bytes() == page
    assert "map.npz" in succeed("report", digits_run, "--points", 100, "--threads", 1)
    assert "100 of 300 images, drawn at random" in (digits_run / "report.html").read_text()
    assert "map.npz" not in succeed("report", digits_run, "--no-map")
    text = (digits_run / "report.html").read_text()
    assert "No map: it was left out." in text
    assert 'id="map-data"' not in text


def test_report_without_images_or_model(digits_run: Path, tmp_path: Path) -> None:
    made, assignments = load_run(digits_run)
    moved = digits_run.parent / "few.npz"
    hidden = moved.rename(tmp_path / "hidden.npz")
    try:
        result = run("report", digits_run, "--out", tmp_path / "r.html")
    finally:
        hidden.rename(moved)
    assert result.exit_code == 0, result.output
    assert "without pictures: " in result.stderr
    page = Page((tmp_path / "r.html").read_text())
    assert page.all("img") == []
    assert "No pictures: " in page.text
    assert page.text.count("Cluster 3")
    for file in ("map.npz", "vectors.npz"):
        (digits_run / file).unlink(missing_ok=True)
    weights = (digits_run / "model.safetensors").rename(tmp_path / "model")
    try:
        result = run("report", digits_run, "--points", 50, "--out", tmp_path / "m.html")
    finally:
        weights.rename(digits_run / "model.safetensors")
    assert result.exit_code == 0, result.output
    assert "without a new map: " in result.stderr
    page = Page((tmp_path / "m.html").read_text())
    assert len(page.all("img")) > 20
    assert "No map: " in page.text
    assert made.n_samples == len(assignments.names) == 300


def test_errors_of_report_are_one_line(tmp_path: Path, digits_run: Path) -> None:
    assert "run.json: no such file; is this the folder" in fail("report", tmp_path)
    assert "is not in the range" in fail("report", tmp_path, "--points", 1)
    (tmp_path / "file").touch()
    assert "cannot write" in fail(
        "report", digits_run, "--no-map", "--out", tmp_path / "file" / "r.html"
    )


@pytest.mark.parametrize("row", ["x,12,1", "x,-1,1", "", "x,0,1\nx,0,1"])
def test_a_table_of_another_run_is_one_line(tmp_path: Path, row: str) -> None:
    save_run(
        tmp_path,
        a_run(1, n_clusters=1),
        Assignments(["x"], np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.float32)),
    )
    (tmp_path / "assignments.csv").write_text(f"name,cluster,confidence\n{row}\n")
    assert "run.json and assignments.csv do not belong together" in fail("report", tmp_path)


def test_a_new_fit_removes_the_old_report(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.random.default_rng(0).random((30, 8, 8)))
    arguments = ["fit", tmp_path / "a.npy", *TINY, "-k", 2, "--out", tmp_path / "out"]
    assert "report.html" in succeed(*arguments)
    assert {"report.html", "map.npz"} <= set(os.listdir(tmp_path / "out"))
    succeed(*arguments, "--overwrite", "--no-report")
    assert not {"report.html", "map.npz"} & set(os.listdir(tmp_path / "out"))


def test_files_that_have_changed_are_not_shown_as_those_that_were_sorted(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / "in").mkdir(exist_ok=True)
        Image.new("L", (9, 9), 20 * number).save(tmp_path / "in" / f"{number}.png")
    succeed("fit", tmp_path / "in", *TINY, "-k", 2, "--out", tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "11.png" in page
    (tmp_path / "in" / "3.png").rename(tmp_path / "in" / "new.png")
    result = run("report", tmp_path / "out")
    assert result.exit_code == 0
    assert "has other files now than when it was sorted" in result.stderr
