"""Sessions over the C++ engine."""

import threading

import pytest
import torch

import pmnet

TEXT = b"The quick brown fox jumps over the lazy dog. " * 4


def test_pieces_of_any_size_give_the_same_logits(tiny_model):
    whole = pmnet.Session(tiny_model).feed_all(TEXT)
    session = pmnet.Session(tiny_model)
    pieces = [session.feed_all(TEXT[a:b]) for a, b in ((0, 1), (1, 50), (50, len(TEXT)))]
    torch.testing.assert_close(torch.cat(pieces), whole, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(session.logits, whole[-1], rtol=1e-4, atol=1e-5)
    assert session.bytes_read == len(TEXT)


def test_score_is_the_loss_of_the_logits(tiny_model):
    logits = pmnet.Session(tiny_model).feed_all(TEXT)
    bits = pmnet.Session(tiny_model).score(TEXT)
    ids = torch.tensor(list(TEXT))
    expected = -logits[:-1].double().log_softmax(-1).gather(1, ids[1:, None]).squeeze(1) / torch.log(torch.tensor(2.0))
    torch.testing.assert_close(bits[1:], expected.double(), rtol=1e-4, atol=1e-5)
    assert tiny_model.bits_per_byte(TEXT) == pytest.approx(float(bits.mean()))


def test_generation_is_an_iterator_that_the_session_follows(tiny_model):
    session = pmnet.Session(tiny_model)
    session.feed(TEXT)
    fork = session.fork()
    pieces = session.generate(max_bytes=20, seed=5)
    first = next(pieces)
    assert session.bytes_read == len(TEXT) + len(first)
    text = first + b"".join(pieces)
    assert text == b"".join(fork.generate(max_bytes=20, seed=5))
    assert text == tiny_model.generate(TEXT, max_bytes=20, seed=5)
    assert text != tiny_model.generate(TEXT, max_bytes=20, seed=6)


def test_stop_strings_end_the_text(tiny_model):
    whole = tiny_model.generate(TEXT, max_bytes=30, seed=2)
    stop = whole[7:9]
    assert tiny_model.generate(TEXT, max_bytes=30, seed=2, stop=[stop]) == whole[: whole.index(stop)]


def test_fork_rewind_save_and_load(tiny_model, tmp_path):
    session = pmnet.Session(tiny_model)
    session.feed(TEXT)
    point = session.keep_point()
    expected = session.fork().feed("abc")
    session.feed("something else")
    session.rewind(point)
    assert torch.equal(session.feed("abc"), expected)
    session.rewind(point)
    session.save(tmp_path / "memory")
    loaded = pmnet.Session.load(tmp_path / "memory", tiny_model)
    assert loaded.bytes_read == len(TEXT)
    assert torch.equal(loaded.feed("abc"), expected)


def test_memory_is_the_sessions_own(tiny_model):
    session = pmnet.Session(tiny_model)
    before = session.memory()
    session.feed(TEXT)
    after = session.memory()
    assert [level.dtype for level in after] == [torch.int64] * len(after)
    assert before[0].data_ptr() == after[0].data_ptr()  # not copied
    assert after[0].abs().max() > 0
    config = tiny_model.config
    shape = (config["num_memory"], config["memory_size"])
    assert [level.shape for level in after] == [(config["num_memory"] ** h, *shape) for h in range(len(after))]
    keys, values = session.window()[0]
    assert keys.shape == values.shape == (min(len(TEXT) + 1, config["sliding_window"] - 1), *keys.shape[1:])


def test_trace_shows_hidden_states_and_routes(tiny_model):
    config = tiny_model.config
    trace = pmnet.Session(tiny_model).trace(TEXT)
    torch.testing.assert_close(trace.logits[0], pmnet.Session(tiny_model).feed_all(TEXT), rtol=1e-4, atol=1e-5)
    assert len(trace.layers) == len(trace.read_weights) == config["num_hidden_layers"]
    assert trace.hidden.shape == (1, len(TEXT), config["hidden_size"])
    for level in range(1, len(trace.groups)):
        assert torch.equal(trace.groups[level], trace.routes[level - 1])
    torch.testing.assert_close(trace.route_weights[0].sum(-1), torch.ones(1, len(TEXT)))


def test_batches_are_independent_rows(tiny_model):
    ids = torch.tensor([list(b"abcdef"), list(b"uvwxyz")])
    batch = pmnet.Session(tiny_model, batch=2).feed_all(ids)
    for row, text in enumerate((b"abcdef", b"uvwxyz")):
        torch.testing.assert_close(batch[row], pmnet.Session(tiny_model).feed_all(text), rtol=1e-4, atol=1e-5)


def test_models_save_and_load(tiny_model, tmp_path):
    tiny_model.save(tmp_path / "m")
    loaded = pmnet.load(tmp_path / "m")
    assert loaded.hash == tiny_model.hash
    assert loaded.generate("a", max_bytes=9, seed=1) == tiny_model.generate("a", max_bytes=9, seed=1)


def test_changed_weights_are_seen_after_refresh():
    model = pmnet.create("tiny", seed=2)
    before = pmnet.Session(model).feed("abc")
    with torch.no_grad():
        model.parameters()["model.embed_tokens.weight"].mul_(2)
    model.refresh()
    assert not torch.allclose(pmnet.Session(model).feed("abc"), before)


@pytest.mark.parametrize("count", [8])
def test_many_threads_give_the_results_of_one(tiny_model, count):
    prompts = [f"prompt number {i}" for i in range(count)]
    alone = [tiny_model.generate(prompt, max_bytes=12, seed=i) for i, prompt in enumerate(prompts)]
    found = [b""] * count

    def work(i):
        found[i] = tiny_model.generate(prompts[i], max_bytes=12, seed=i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == alone


def test_threads_may_share_a_session(tiny_model):
    session = pmnet.Session(tiny_model)
    threads = [threading.Thread(target=lambda: [session.feed("xy") for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.bytes_read == 160


@pytest.mark.slow
def test_a_hundred_threads_for_a_minute(tiny_model):
    import time

    prompts = [f"prompt number {i}" for i in range(100)]
    alone = [tiny_model.generate(prompt, max_bytes=8, seed=i) for i, prompt in enumerate(prompts)]
    wrong, end = [], time.monotonic() + 60

    def work(i):
        while time.monotonic() < end:
            if tiny_model.generate(prompts[i], max_bytes=8, seed=i) != alone[i]:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
