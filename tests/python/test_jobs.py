"""Whole evaluations and training runs."""

import math

import pytest
import torch

import pmnet


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    file = tmp_path_factory.mktemp("data") / "corpus.txt"
    file.write_text("".join(f"line {i} of the corpus says {i * i % 97}\n" for i in range(600)))
    return file


def test_evaluate(tiny_model, corpus):
    report = pmnet.evaluate({"a": tiny_model}, corpus, limit=400, no_recurrence=True)
    first, second = report["models"]
    assert (first["label"], second["label"]) == ("a", "a, no recurrence")
    text = corpus.read_bytes()[:400]
    assert first["bits_per_byte"]["mean"] == pytest.approx(tiny_model.bits_per_byte(text), rel=1e-4)
    assert first["bytes"] == 400


def test_evaluate_refuses(tiny_model, tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.txt"):
        pmnet.evaluate(tiny_model, tmp_path / "nothing.txt")
    with pytest.raises(ValueError, match="chunk is 0"):
        pmnet.evaluate(tiny_model, tmp_path, chunk=0)
    with pytest.raises(TypeError, match="expected a path"):
        pmnet.evaluate(tiny_model, [3])


SETTINGS = {
    "model": {"preset": "tiny"},
    "data.hold_out": "none",
    "train": {"steps": 4, "context": 64, "batch": 2},
    "sample.every": 0,
    "log.limit": False,
}


def known(settings):
    """The keys of this test that the program has, so that a renamed one is found here."""
    keys = set(pmnet.train_settings())
    flat = {}
    for key, value in settings.items():
        for name, item in value.items() if isinstance(value, dict) else ((None, value),):
            flat[key if name is None else f"{key}.{name}"] = item
    assert set(flat) <= keys, sorted(set(flat) - keys)
    return flat


def test_train_calls_back_and_can_be_stopped(corpus, tmp_path):
    steps = []
    settings = {**known(SETTINGS), "data.inputs": [corpus]}
    summary = pmnet.train(tmp_path / "run", settings, on_step=steps.append)
    assert summary["end"] == "finished"
    assert [step["step"] for step in steps] == [1, 2, 3, 4]
    assert all(math.isfinite(step["loss"]) and step["gradient_norm"] > 0 for step in steps)
    model = pmnet.load(summary["checkpoint"])
    assert model.hash == pmnet.load(tmp_path / "run").hash

    stopped = pmnet.train(tmp_path / "other", settings, on_step=lambda step: step["step"] < 2)
    assert (stopped["end"], stopped["step"]) == ("stopped", 2)
    resumed = pmnet.train(tmp_path / "other", resume=True)
    assert (resumed["end"], resumed["step"]) == ("finished", 4)
    assert pmnet.load(tmp_path / "other").hash == model.hash  # bit by bit


def test_train_refuses(corpus, tmp_path):
    with pytest.raises(ValueError, match="train.stps"):
        pmnet.train(tmp_path / "run", {"train.stps": 3})
    with pytest.raises(TypeError, match="expected a number"):
        pmnet.train(tmp_path / "run", {"train.steps": object()})
    with pytest.raises(FileNotFoundError):
        pmnet.train(tmp_path / "run", run_file=tmp_path / "none.toml")


def test_an_error_of_the_callback_is_raised(corpus, tmp_path):
    def fail(step):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        pmnet.train(tmp_path / "run", {**known(SETTINGS), "data.inputs": [corpus]}, on_step=fail)


def test_lm_eval_model(tiny_model, tmp_path):
    pytest.importorskip("lm_eval.api.model", exc_type=ImportError)
    from types import SimpleNamespace

    from pmnet.lm_eval import PMNetLM

    tiny_model.save(tmp_path / "m")
    lm = PMNetLM(path=str(tmp_path / "m"))
    requests = [SimpleNamespace(args=("The answer is ", word)) for word in ("yes", "no")]
    (yes, _), (no, _) = lm.loglikelihood(requests)
    session = pmnet.Session(tiny_model)
    session.feed("The answer is ")
    assert yes == pytest.approx(-float(session.fork().score("yes").sum()) * math.log(2), rel=1e-5)
    assert no == pytest.approx(-float(session.score("no").sum()) * math.log(2), rel=1e-5)
    (rolling,) = lm.loglikelihood_rolling([SimpleNamespace(args=("some text",))])
    assert rolling == pytest.approx(-tiny_model.bits_per_byte("some text") * 9 * math.log(2), rel=1e-5)
    (text,) = lm.generate_until([SimpleNamespace(args=("abc", {"until": ["\n"], "max_gen_toks": 5}))])
    assert len(text) <= 5
    best = int(torch.argmax(pmnet.Session(tiny_model).feed("abc")[:128]))
    others = [SimpleNamespace(args=("abc", chr(i))) for i in (best, (best + 1) % 128)]
    likelier, less_likely = lm.loglikelihood(others)
    assert likelier[0] > less_likely[0]
    assert not less_likely[1]
