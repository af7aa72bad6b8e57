"""The web application of explore: what its pages get, what edits do, and whom it refuses."""

import base64
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from selfsort.cli.explore import open_gallery
from selfsort.explore.app import build_app
from selfsort.explore.guard import MAX_BODY
from selfsort.explore.session import Session
from selfsort.report.map import Projection, save_projection
from selfsort.runs.arrays import save_vectors
from selfsort.runs.folder import JOURNAL, METADATA, VECTORS
from selfsort.runs.journal import Journal, load_history
from selfsort.runs.results import load_run
from selfsort.runs.state import State
from selfsort.runs.table import save_metadata

TOKEN, PORT = "a-token-for-tests", 4321
ORIGIN = f"http://127.0.0.1:{PORT}"
CHANGE = {"origin": ORIGIN, "content-type": "application/json"}


class Client:
    """A browser that knows the token, with what the server has logged."""

    def __init__(self, folder: Path) -> None:
        run, assignments = load_run(folder)
        self.folder, self.log, self.names = folder, list[str](), list(assignments.names)
        self.journal = Journal(folder, State.of(assignments.labels, run.n_clusters))
        session = Session(folder, run, assignments, open_gallery(run, assignments), self.journal)
        app = build_app(session, token=TOKEN, port=PORT, log=self.log.append)
        self.http = TestClient(app, base_url=ORIGIN, follow_redirects=False)

    def get(self, path: str) -> Any:
        answer = self.http.get(f"/{TOKEN}/{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, content: object) -> httpx.Response:
        return self.http.post(f"/{TOKEN}/{path}", content=json.dumps(content), headers=CHANGE)

    def edit(self, **edit: object) -> dict[str, Any]:
        answer = self.post("api/edit", {**edit, "version": self.get("api/state")["version"]})
        assert answer.status_code == 200, answer.text
        content: dict[str, Any] = answer.json()
        return content

    def refuse(self, **edit: object) -> str:
        answer = self.post("api/edit", {"version": self.get("api/state")["version"], **edit})
        assert answer.status_code == 400, answer.text
        return str(answer.json()["error"])


@pytest.fixture
def client(run_folder: Path) -> Iterator[Client]:
    client = Client(run_folder)
    with client.http:
        yield client


def sizes(state: dict[str, Any]) -> dict[int, int]:
    return {cluster["id"]: cluster["size"] for cluster in state["clusters"]}


# Pages


def test_the_page_and_its_files(client: Client) -> None:
    page = client.http.get(f"/{TOKEN}/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "130 images, sorted by recipe paper" in page.text
    assert client.http.get(f"/{TOKEN}").headers["location"] == f"/{TOKEN}/"
    for file, kind in (
        ("app.js", "text/javascript"),
        ("explore.css", "text/css"),
        ("icon.svg", "image/svg+xml"),
    ):
        answer = client.http.get(f"/{TOKEN}/static/{file}")
        assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, kind)
    for name, value in {
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
        "cross-origin-resource-policy": "same-origin",
    }.items():
        assert page.headers[name] == value
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "set-cookie" not in page.headers


def test_pages_are_sorted_and_cover_each_image_once(client: Client) -> None:
    state = client.get("api/state")
    assert sum(sizes(state).values()) == state["images"] == 130
    _, assignments = load_run(client.folder)
    for cluster in state["clusters"]:
        found = client.get(f"api/images?view={cluster['id']}&order=descending&limit=500")
        members = [item["i"] for item in found["items"]]
        assert sorted(members) == np.flatnonzero(assignments.labels == cluster["id"]).tolist()
        confidence = [item["confidence"] for item in found["items"]]
        assert confidence == sorted(confidence, reverse=True)
        if members:
            assert cluster["confidence"] == pytest.approx(np.mean(confidence), abs=1e-3)
            assert set(cluster["examples"]) <= set(members)
    pages = [
        client.get(f"api/images?view=all&order=ascending&offset={offset}&limit=50")
        for offset in (0, 50, 100, 150)
    ]
    shown = [item["i"] for page in pages for item in page["items"]]
    assert sorted(shown) == list(range(130))
    assert [page["total"] for page in pages] == [130] * 4
    names = {item["name"] for page in pages for item in page["items"]}
    assert names == set(client.names)  # line breaks and bytes that are not UTF-8 included


@pytest.mark.parametrize("kind", ["vectors", "map"])
def test_a_cover_is_in_the_middle_of_its_cluster(run_folder: Path, kind: str) -> None:
    _, assignments = load_run(run_folder)
    rows = np.arange(len(assignments.labels))
    points = np.random.default_rng(0).random((len(rows), 2), dtype=np.float32)
    (run_folder / VECTORS).unlink()
    if kind == "map":
        save_projection(run_folder, Projection(rows, points), assignments)
    else:
        save_vectors(run_folder, points, assignments)
        points = points / np.linalg.norm(points, axis=1, keepdims=True)
    client = Client(run_folder)
    with client.http:
        covers = {
            cluster["id"]: cluster["examples"][0] for cluster in client.get("api/state")["clusters"]
        }
    for cluster, cover in covers.items():
        own = np.flatnonzero(assignments.labels == cluster)
        distances = np.linalg.norm(points[own] - np.median(points[own], axis=0), axis=1)
        assert distances[own.tolist().index(cover)] == pytest.approx(distances.min(), abs=1e-2)


def test_pictures(client: Client) -> None:
    sheet = client.http.get(f"/{TOKEN}/api/sheet?images=1,2,3")
    assert sheet.headers["content-type"] == "image/jpeg"
    assert "immutable" in sheet.headers["cache-control"]
    assert Image.open(io.BytesIO(sheet.content)).size == (3 * 128, 128)
    large = client.http.get(f"/{TOKEN}/api/image/{client.names.index('turned.jpg')}")
    assert Image.open(io.BytesIO(large.content)).size == (30, 90)
    assert client.http.get(f"/{TOKEN}/api/image/130").status_code == 400
    assert client.http.get(f"/{TOKEN}/api/sheet?images=").status_code == 400
    assert (
        client.http.get(f"/{TOKEN}/api/sheet?images={','.join(map(str, range(101)))}").status_code
        == 400
    )


# Edits


def test_each_edit_through_the_server(client: Client) -> None:
    before = client.get("api/state")
    answer = client.edit(op="rename", cluster=0, name="cats & <dogs>")
    assert answer["done"] == "named cluster 0 “cats & <dogs>”"
    assert answer["state"]["clusters"][0]["name"] == "cats & <dogs>"
    merged = client.edit(op="merge", cluster=1, into=0)["state"]
    assert sizes(merged)[0] == sizes(before)[0] + sizes(before)[1]
    assert 1 not in sizes(merged)
    moved = client.edit(op="move", images=[4, 5], to="new")["state"]
    assert sizes(moved)[4] == 2
    marked = client.edit(op="mark", images=[4], outlier=True)["state"]
    assert (marked["outliers"], sizes(marked)[4], marked["unreviewed"]) == (1, 1, 128)
    assert [item["i"] for item in client.get("api/images?view=outliers")["items"]] == [4]
    assert client.edit(op="accept", images=[7])["state"]["unreviewed"] == 127
    queue = [
        item["i"]
        for item in client.get("api/images?view=review&order=ascending&limit=500")["items"]
    ]
    assert len(queue) == 127
    assert not {4, 5, 7} & set(queue)
    for _ in range(5):
        last = client.edit(op="undo")["state"]
    assert {**last, "version": 0, "redo": None} == before
    assert last["redo"] == "named cluster 0 “cats & <dogs>”"
    for _ in range(5):
        last = client.edit(op="redo")["state"]
    assert (last["redo"], sizes(last)[4], last["outliers"]) == (None, 1, 1)
    assert len((client.folder / JOURNAL).read_bytes().splitlines()) == 1 + 15


def test_a_split_is_kept_with_its_centres_and_needs_no_k_means_again(client: Client) -> None:
    before = client.get("api/state")
    largest = max(sizes(before), key=lambda cluster: sizes(before)[cluster])
    after = client.edit(op="split", cluster=largest, parts=3)
    assert after["done"] == f"split cluster {largest} into 3"
    parts = [sizes(after["state"])[number] for number in (largest, 4, 5)]
    assert sum(parts) == sizes(before)[largest]
    assert min(parts) > 0
    _, assignments = load_run(client.folder, edited=False)
    replayed = load_history(client.folder, State.of(assignments.labels, 4))
    assert np.array_equal(replayed.state.labels, client.journal.state.labels)

    from selfsort.sorting.estimator import SelfSort

    sorter, gallery = SelfSort.load(client.folder), open_gallery(*load_run(client.folder))
    images = gallery.images(np.arange(130))
    again = replayed.relabel(assignments.labels, lambda rows: sorter.transform(images.take(rows)))
    assert np.array_equal(
        again, client.journal.state.labels
    )  # later images are split by the same centres
    assert "it can be split into 2 to" in client.refuse(op="split", cluster=largest, parts=1)
    assert "it can be split into 2 to" in client.refuse(op="split", cluster=4, parts=parts[1] + 1)
    assert "exactly these fields" in client.refuse(op="split", cluster=largest, parts=[[1]])
    assert "does not exist" in client.refuse(op="split", cluster=77, parts=2)


def test_what_does_not_fit_is_refused_with_a_reason_and_changes_nothing(client: Client) -> None:
    client.edit(op="rename", cluster=0, name="x")
    before, journal = client.get("api/state"), (client.folder / JOURNAL).read_bytes()
    assert "'X' belongs to cluster 0; merge the two" in client.refuse(
        op="rename", cluster=1, name="X"
    )
    assert "should be one of rename, merge" in client.refuse(op="format")
    assert "between 0 and 129" in client.refuse(op="move", images=[130], to=0)
    assert "changed elsewhere meanwhile" in client.refuse(op="undo", version=0)
    assert "changed elsewhere meanwhile" in client.refuse(op="undo", version=None)
    assert "nothing to redo" in client.refuse(op="redo")
    for body in (b"", b"[1]", b"{", b"[" * 100_000, b"\xff"):
        answer = client.http.post(f"/{TOKEN}/api/edit", content=body, headers=CHANGE)
        assert answer.status_code == 400
        assert "JSON" in answer.json()["error"]
    for path in (
        "api/images?view=99",
        "api/images?view=-1",
        "api/images?offset=x",
        "api/images?limit=1e9",
        "api/image/../../x",
    ):
        assert client.http.get(f"/{TOKEN}/{path}").status_code in (400, 404)
    assert client.get("api/state") == before
    assert (client.folder / JOURNAL).read_bytes() == journal


def test_lists_and_neighbours_through_the_server(client: Client) -> None:
    found = client.post("api/items", {"images": [5, 3, 129]}).json()
    assert [item["i"] for item in found["items"]] == [5, 3, 129]
    assert client.get("api/rows?view=all")["images"] == list(range(130))
    similar = client.get("api/similar/17")["images"]
    assert sorted(similar) == list(range(130))
    assert similar[0] == 17
    for about in ({"images": [1, 2]}, {"cluster": 2}):
        likely = client.post("api/likely", about).json()["clusters"]
        assert sorted(one["id"] for one in likely) == [0, 1, 2, 3]
        shares = [one["share"] for one in likely]
        assert shares == sorted(shares, reverse=True)
    assert set(client.get("api/suggestions")) == {"merges", "splits"}
    atlas = client.get("api/map")
    assert len(base64.b64decode(atlas["points"])) == 130 * 2 * 2
    client.edit(op="mark", images=[4], outlier=True)
    labels = client.get("api/labels")
    assert base64.b64decode(labels["outliers"])[4] == 1
    assert len(base64.b64decode(labels["labels"])) == 130 * 4


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("api/items", {"images": []}),
        ("api/items", {"images": [130]}),
        ("api/items", {"images": [-1]}),
        ("api/items", {"images": [1.5]}),
        ("api/items", {"images": [True]}),
        ("api/items", {"images": "all"}),
        ("api/items", {"images": [0] * 501}),
        ("api/likely", {"cluster": 99}),
        ("api/likely", {"cluster": "../x"}),
        ("api/likely", {}),
    ],
)
def test_lists_that_make_no_sense_are_refused(client: Client, path: str, content: object) -> None:
    answer = client.post(path, content)
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_images_are_found_by_name_and_metadata(run_folder: Path) -> None:
    _, assignments = load_run(run_folder)
    n_images = len(assignments.names)
    columns = {"camera": ["Nikon", "Leica"] * (n_images // 2), "place": ["Nikonos bay"] * n_images}
    save_metadata(run_folder / METADATA, assignments.names, columns)
    client = Client(run_folder)
    with client.http:
        assert len(client.get("api/search?text=nikon")["images"]) == n_images
        found = client.get("api/search?text=camera:%20nikon")["images"]
        assert found == list(range(0, n_images, 2))
        (turned,) = client.get("api/search?text=TURNED")["images"]
        assert assignments.names[turned] == "turned.jpg"
        assert client.get("api/search?text=nowhere")["images"] == []
        (item,) = client.post("api/items", {"images": [1]}).json()["items"]
        assert item["columns"] == [["camera", "Leica"], ["place", "Nikonos bay"]]
    (run_folder / METADATA).write_text("a,b\n1\n")  # damaged: the page works without it
    client = Client(run_folder)
    with client.http:
        (item,) = client.post("api/items", {"images": [1]}).json()["items"]
        assert item["columns"] == []


def test_copies_and_odd_images_are_lists_of_the_page(run_folder: Path) -> None:
    content = json.loads((run_folder / "run.json").read_text())
    content["oddities"] = {"identical": [[4, 2]], "dark": [7]}
    (run_folder / "run.json").write_text(json.dumps(content))
    client = Client(run_folder)
    with client.http:
        page = client.http.get(f"/{TOKEN}/").text
    lists = json.loads(page.partition('id="lists">')[2].partition("</script>")[0])
    assert lists == {
        "identical": {"title": "Identical images", "images": [4, 2]},
        "dark": {"title": "Very dark images", "images": [7]},
    }


def test_exports(client: Client) -> None:
    client.edit(op="rename", cluster=0, name="first")
    for kind, name in (
        ("assignments", "assignments.csv"),
        ("labels", "labels"),
        ("folders", "folders"),
    ):
        written = Path(client.post("api/export", {"kind": kind}).json()["written"])
        assert written == client.folder / "export" / name
        assert written.exists()
    assert client.post("api/export", {"kind": "../../x"}).status_code == 400
    assert sorted(place.name for place in (client.folder / "export").iterdir()) == [
        "assignments.csv",
        "folders",
        "labels",
    ]


# Whom it refuses


@pytest.mark.parametrize(
    ("status", "path", "headers"),
    [
        (403, "/", {}),
        (403, "/api/state", {}),
        (403, "/wrong/", {}),
        (403, f"/{TOKEN[:-1]}/", {}),
        (403, f"/{TOKEN}x/api/state", {}),
        (403, f"/x/../{TOKEN}x/", {}),
        (403, "/%ff%fe/", {}),
        (403, f"/?token={TOKEN}", {}),
        (403, "/static/app.js", {}),
        (421, f"/{TOKEN}/", {"host": "evil.example"}),
        (421, f"/{TOKEN}/", {"host": f"evil.example:{PORT}"}),
        (421, f"/{TOKEN}/", {"host": "127.0.0.1"}),
        (421, f"/{TOKEN}/", {"host": f"127.0.0.1:{PORT + 1}"}),
        (421, f"/{TOKEN}/", {"host": ""}),
        (403, f"/{TOKEN}/", {"origin": "https://evil.example"}),
        (403, f"/{TOKEN}/", {"origin": "null"}),
        (
            403,
            f"/{TOKEN}/api/image/1",
            {
                "sec-fetch-site": "cross-site",
                "sec-fetch-mode": "no-cors",
                "sec-fetch-dest": "image",
            },
        ),
        (
            403,
            f"/{TOKEN}/",
            {
                "sec-fetch-site": "cross-site",
                "sec-fetch-mode": "navigate",
                "sec-fetch-dest": "iframe",
            },
        ),
        (
            403,
            f"/{TOKEN}/api/state",
            {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"},
        ),
    ],
)
def test_strangers_get_nothing(
    client: Client, status: int, path: str, headers: dict[str, str]
) -> None:
    answer = client.http.get(path, headers=headers)
    assert answer.status_code == status
    assert "images" not in answer.text
    assert len(client.log) == 1
    assert client.log[0].startswith("refused: GET ")
    assert TOKEN not in client.log[0]


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (403, {"content-type": "application/json"}),
        (403, {**CHANGE, "origin": "https://evil.example"}),
        (403, {**CHANGE, "origin": "null"}),
        (403, {**CHANGE, "origin": f"http://127.0.0.1:{PORT + 1}"}),
        (403, {**CHANGE, "origin": f"http://localhost:{PORT}"}),
        (403, {**CHANGE, "sec-fetch-site": "cross-site"}),
        (421, {**CHANGE, "host": "evil.example"}),
        (415, {**CHANGE, "content-type": "text/plain"}),
        (415, {**CHANGE, "content-type": "application/x-www-form-urlencoded"}),
        (415, {"origin": ORIGIN}),
    ],
)
@pytest.mark.parametrize("path", ["api/edit", "api/export"])
def test_changes_from_elsewhere_are_refused_and_logged(
    client: Client, status: int, headers: dict[str, str], path: str
) -> None:
    body = json.dumps(
        {"op": "rename", "cluster": 0, "name": "taken over", "version": 0, "kind": "assignments"}
    )
    answer = client.http.post(f"/{TOKEN}/{path}", content=body.encode(), headers=headers)
    assert answer.status_code == status
    assert client.log[0].startswith(f"refused: POST /…/{path}: ")
    assert len(client.log) == 1
    assert TOKEN not in client.log[0]
    wrong = client.http.post(f"/wrong/{path}", content=body, headers=CHANGE)
    assert wrong.status_code == 403
    assert not (client.folder / JOURNAL).exists()
    assert not (client.folder / "export").exists()


def test_a_body_that_is_too_large_is_refused_whatever_its_header_says(client: Client) -> None:
    def body() -> Iterator[bytes]:
        yield b'{"op": "rename", "cluster": 0, "version": 0, "name": "'
        for _ in range(MAX_BODY // 1024):
            yield b" " * 1024
        yield b'x"}'

    streamed = client.http.post(f"/{TOKEN}/api/edit", content=body(), headers=CHANGE)
    declared = client.http.post(f"/{TOKEN}/api/edit", content=b" " * (MAX_BODY + 1), headers=CHANGE)
    assert (streamed.status_code, declared.status_code) == (413, 413)
    assert (
        client.log == [f"refused: POST /…/api/edit: the body is larger than {MAX_BODY:,} bytes"] * 2
    )
    assert not (client.folder / JOURNAL).exists()
    many = client.edit(op="accept", images=[index % 130 for index in range(100_000)])
    assert many["state"]["unreviewed"] == 0  # what a page may well send passes


@pytest.mark.parametrize(
    "path",
    [
        "static/../app.py",
        "static/%2e%2e/app.py",
        "static/..%2fapp.py",
        "static/%2e%2e%2f%2e%2e%2fpyproject.toml",
        "static//etc/passwd",
        "static/%2fetc%2fpasswd",
        "static/app.js%00.css",
        "api/image/..%2f..%2fsecret.png",
        "api/image/%2fetc%2fpasswd",
        "run.json",
        "edits.jsonl",
        "../run.json",
        "static/",
    ],
)
def test_no_path_leads_to_a_file(client: Client, path: str) -> None:
    answer = client.http.get(f"/{TOKEN}/{path}")
    assert answer.status_code in (400, 403, 404)
    assert b"root:" not in answer.content
    assert len(answer.content) < 3000
    assert answer.status_code == 400 or (
        len(client.log) == 1 and client.log[0].startswith("refused: GET /…")
    )


def test_other_methods_change_nothing(client: Client) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = client.http.request(method, f"/{TOKEN}/api/edit", headers=CHANGE)
        assert answer.status_code == 405
        assert "access-control-allow-origin" not in answer.headers
    assert client.http.get(f"/{TOKEN}/api/edit").status_code == 405
    assert not (client.folder / JOURNAL).exists()


def test_hostile_text_stays_text_in_the_log_and_the_page(client: Client) -> None:
    client.http.get(f"/{TOKEN}/x%0arefused: nothing", headers={"origin": "http://a\x7fb"})
    assert len(client.log) == 1
    assert client.log[0].isprintable()
    client.edit(op="rename", cluster=0, name="</script><script>alert(1)</script>")
    assert "<script>alert" not in client.http.get(f"/{TOKEN}/").text


def test_browsing_needs_no_torch(photos_run: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from selfsort.cli.explore import open_gallery; "
        "from selfsort.runs.results import load_run; import selfsort.explore.app, "
        "selfsort.cli.main; "
        "open_gallery(*load_run(Path(sys.argv[1]))).sheet([0]); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(photos_run)], check=True)
