"""The notebooks in examples/ run from the first cell to the last."""

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 5
    names: dict[str, Any] = {}
    for cell in code:
        exec(compile(cell, notebook.name, "exec"), names)
    assert (names["result"].folder / "report.html").exists()
    assert "<img" in names["result"]._repr_html_()
    assert names["by_vectors"].score(names["vectors"], names["digits"].truth[:300]) > 0.7


def test_notebooks_are_kept_without_results() -> None:
    assert NOTEBOOKS
    for notebook in NOTEBOOKS:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        assert not any(cell.get("outputs") for cell in cells), notebook
