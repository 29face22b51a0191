"""Bad input: exceptions of the right type, with the program's sentence."""

import json
import subprocess
import sys

import pytest
import torch

import pmnet


def test_missing_model():
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        pmnet.load("/nowhere/model")


def test_foreign_folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "hidden_act": "silu"}))
    with pytest.raises(ValueError, match='model_type is "bert"'):
        pmnet.load(tmp_path)


def test_damaged_weights(tiny_model, tmp_path):
    tiny_model.save(tmp_path / "m")
    (tmp_path / "m" / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}")
    with pytest.raises(ValueError, match="model.safetensors"):
        pmnet.load(tmp_path / "m")


def test_unknown_preset():
    with pytest.raises(ValueError, match="tiny"):
        pmnet.create("tinny")
    with pytest.raises(TypeError, match="preset is a int"):
        pmnet.create(3)


@pytest.mark.parametrize("text", [3, None, ["a"], torch.ones(2), torch.ones(1, 2, dtype=torch.bool)])
def test_texts_of_wrong_types(tiny_model, text):
    with pytest.raises(TypeError, match="expected"):
        pmnet.Session(tiny_model).feed(text)


def test_ids_that_do_not_fit(tiny_model):
    session = pmnet.Session(tiny_model)
    for ids in (torch.tensor([[384]]), torch.tensor([[-1]]), torch.zeros(2, 3, dtype=torch.long)):
        with pytest.raises(ValueError, match="vocabulary|shape"):
            session.feed(ids)
    assert session.bytes_read == 0
    session.feed("still usable")


def test_generation_settings(tiny_model):
    session = pmnet.Session(tiny_model)
    for settings in ({"temperature": -1.0}, {"top_p": 0.0}, {"max_bytes": -1}, {"stop": [b""]}):
        with pytest.raises(ValueError, match="expected|empty"):
            session.generate(**settings)


def test_memory_of_another_model(tiny_model, tmp_path):
    session = pmnet.Session(tiny_model)
    session.feed("abc")
    session.save(tmp_path / "memory")
    with pytest.raises(ValueError, match="model"):
        pmnet.Session.load(tmp_path / "memory", pmnet.create("tiny", seed=99))
    with pytest.raises(FileNotFoundError):
        pmnet.Session.load(tmp_path / "none", tiny_model)


def test_points_that_were_not_kept(tiny_model):
    session = pmnet.Session(tiny_model)
    with pytest.raises(ValueError, match="there is no kept point 3"):
        session.rewind(3)
    with pytest.raises(ValueError, match="there is no kept point -1"):
        session.rewind(-1)
    with pytest.raises(IndexError, match="row 5"):
        session.memory(5)


def test_import_is_silent():
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import pmnet; print(pmnet.__version__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stderr == ""
    assert result.stdout.strip() == pmnet.__version__


def test_leaving_with_models_alive_is_silent():
    program = "import pmnet; model = pmnet.create('tiny'); session = pmnet.Session(model); session.feed('abc')"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stderr == result.stdout == ""


def test_everything_promised_is_there():
    for name in pmnet.__all__:
        if not name.startswith("PMNet") and name != "hf":
            assert getattr(pmnet, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pmnet.nothing
