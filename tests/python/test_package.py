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


def run_beside(folder, requirements, tests):
    """Runs tests in an environment on top of this one with more packages. They must not skip anything."""
    pytest.importorskip("transformers")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "below.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    if subprocess.run([str(python), "-m", "pip", "install", "-q", *requirements]).returncode != 0:
        pytest.skip(f"pip could not install {' '.join(requirements)}")
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    result = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "skipped" not in result.stdout.splitlines()[-1], result.stdout


@pytest.mark.slow
def test_older_transformers(tmp_path):
    """The oldest version that is supported, with Trainer and accelerate."""
    tests = ["test_hf.py", "-k", "not compiled and not exported"]
    run_beside(tmp_path / "venv", ["transformers==4.57.6", "accelerate"], tests)


@pytest.mark.slow
def test_trainer_accelerate_and_lm_eval(tmp_path):
    tests = ["test_hf.py::test_trainer", "test_hf.py::test_accelerate", "test_jobs.py::test_lm_eval_model"]
    run_beside(tmp_path / "venv", ["accelerate", "lm_eval>=0.4.9"], tests)
