"""The code of docs/how-to/use-from-python.md runs as it is written."""

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


@pytest.mark.slow
@pytest.mark.parametrize("notebook", sorted((ROOT / "examples" / "python").glob("*.ipynb")), ids=lambda f: f.name)
def test_notebooks(notebook, tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    cells = nbformat.read(notebook, as_version=4)
    nbclient.NotebookClient(cells, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
