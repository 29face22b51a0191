"""The package as a whole: stubs, the program beside it, other versions of transformers, the wheel."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import pmnet

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent


def test_stub_of_the_compiled_module(tmp_path):
    """The checked-in stub is what nanobind writes, but for the values of constants."""
    pytest.importorskip("nanobind")
    program = (
        "import torch, runpy, sys\n"
        f"sys.argv = ['stubgen', '-q', '-m', 'pmnet._core', '-o', {str(tmp_path / 'stub.pyi')!r}]\n"
        "runpy.run_module('nanobind.stubgen', run_name='__main__')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)

    def normal(text):
        return re.sub(r"^(\w+: str) = .*$", r"\1", text, flags=re.MULTILINE)

    written = normal((tmp_path / "stub.pyi").read_text())
    assert written == normal((ROOT / "python" / "pmnet" / "_core.pyi").read_text())


def test_program_and_package_write_the_same_bytes(tiny_model, tmp_path):
    program = os.environ.get("PMNET_PROGRAM", "")
    if not pathlib.Path(program).exists():
        pytest.skip("PMNET_PROGRAM names no program")
    tiny_model.save(tmp_path / "m")
    for prompt, seed in (("Once upon a time", 5), ("x" * 3000, 7)):
        command = [program, "generate", str(tmp_path / "m"), prompt, "--seed", str(seed), "--max-bytes", "40", "--raw"]
        written = subprocess.run(command, capture_output=True, check=True).stdout
        assert written == tiny_model.generate(prompt, seed=seed, max_bytes=40)
    sentence = subprocess.run([program, "info", "/nowhere"], capture_output=True, text=True).stderr
    with pytest.raises(FileNotFoundError) as raised:
        pmnet.load("/nowhere")
    assert str(raised.value) in sentence or "/nowhere" in sentence


def test_exported_files_are_those_of_the_package(tiny_model, tmp_path):
    tiny_model.save(tmp_path / "m")
    hub = pathlib.Path(pmnet.__file__).parent / "hub"
    names = sorted(file.name for file in hub.glob("*_pmnet.py"))
    assert "modeling_pmnet.py" in names
    assert sorted(file.name for file in (tmp_path / "m").glob("*.py")) == names
    for name in names:
        assert (tmp_path / "m" / name).read_bytes() == (hub / name).read_bytes()


OLDER_TRANSFORMERS = (
    "transformers==4.57.6",
    "huggingface_hub==0.36.2",
    "tokenizers==0.22.1",
    "requests",
    "urllib3",
    "certifi",
    "charset-normalizer",
    "idna",
)


@pytest.mark.slow
def test_older_transformers(tmp_path):
    """The tests of test_hf.py with the oldest version that is supported, installed beside."""
    pytest.importorskip("transformers")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(tmp_path), *OLDER_TRANSFORMERS]
    if subprocess.run(install).returncode != 0:
        pytest.skip("pip could not install transformers 4.57")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", str(HERE / "test_hf.py")]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})
