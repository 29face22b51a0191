"""The code of docs/how-to/use-from-python.md and the notebooks runs as it is written."""

import json
import pathlib
import re

import pytest

import pmnet

ROOT = pathlib.Path(__file__).parent.parent.parent


def test_the_page_for_python(tiny_model, tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    page = (ROOT / "docs" / "how-to" / "use-from-python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 4
    monkeypatch.chdir(tmp_path)
    tiny_model.save("model")
    pathlib.Path("corpus.txt").write_text("The king had a castle by the sea.\n" * 200)
    names = {}
    for block in blocks:
        exec(compile(block, "use-from-python.md", "exec"), names)
    assert names["summary"]["end"] == "finished"
    assert pmnet.load("copy").hash == tiny_model.hash


@pytest.mark.parametrize("notebook", sorted((ROOT / "examples" / "python").glob("*.ipynb")), ids=lambda f: f.name)
def test_notebooks(notebook, tmp_path, monkeypatch):
    """The cells are plain Python, so they run without Jupyter."""
    pytest.importorskip("transformers")
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 4
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        exec(compile("".join(cell["source"]), f"{notebook.name}, cell {number}", "exec"), names)
