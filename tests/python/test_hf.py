"""PMNet in the form of Hugging Face transformers, against recorded outputs of the authors' model."""

import json
import os
import subprocess
import sys

import pytest
import torch
from conftest import FIXTURES, PMNET_FIXTURES, read_tensors

transformers = pytest.importorskip("transformers")

import pmnet  # noqa: E402

transformers.utils.logging.disable_progress_bar()


def load(folder, ops="auto"):
    return pmnet.PMNetForCausalLM.from_pretrained(folder).use_ops(ops)


def check(model, expected):
    """Logits to 1e-4, loss to 1e-5, gradients to 1e-4 of a tensor's largest entry."""
    ids = expected["input_ids"]
    core = getattr(model, "_orig_mod", model)
    core.eval()
    with torch.no_grad():
        assert (model(ids).logits - expected["logits"]).abs().max() <= 1e-4
    core.train()
    core.zero_grad()
    loss = model(ids, labels=ids).loss
    assert abs(loss.item() - expected["loss"].item()) <= 1e-5
    loss.backward()
    for name, parameter in core.named_parameters():
        want = expected["grad." + name]
        assert (parameter.grad - want).abs().max() <= 1e-4 * want.abs().max().clamp_min(1e-30), name


@pytest.mark.parametrize("ops", ["auto", "composite"])
@pytest.mark.parametrize("folder", PMNET_FIXTURES, ids=lambda folder: folder.name)
def test_recorded_outputs(folder, ops):
    check(load(folder, ops), read_tensors(folder / "expected.safetensors"))


@pytest.mark.parametrize("ops", ["auto", "composite"])
@pytest.mark.parametrize("folder", PMNET_FIXTURES, ids=lambda folder: folder.name)
def test_recorded_streams(folder, ops):
    expected = read_tensors(folder / "expected.safetensors")
    model, cache = load(folder, ops).eval(), pmnet.PMNetCache()
    pieces, begin = [], 0
    with torch.no_grad():
        for count in json.loads((folder / "stream.json").read_text())["chunks"]:
            ids = expected["input_ids"][:, begin : begin + count]
            pieces.append(model(ids, past_key_values=cache, use_cache=True).logits)
            begin += count
    assert (torch.cat(pieces, 1) - expected["logits_streamed"]).abs().max() <= 1e-4
    for level, turns in enumerate(cache.turns):
        want = expected.get(f"memory.{level * model.config.memory_write_period}")
        if want is not None:
            difference = (turns.double() * 2.0**-64 - want.double() / (2 * torch.pi)) % 1
            assert torch.minimum(difference, 1 - difference).max() * 2 * torch.pi <= 1e-4


@pytest.mark.parametrize("folder", [f for f in PMNET_FIXTURES if (f / "training.safetensors").exists()])
def test_ten_steps_of_adamw(folder):
    recorded = read_tensors(folder / "training.safetensors")
    ids = read_tensors(folder / "expected.safetensors")["input_ids"]
    model = load(folder).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for loss, norm in zip(recorded["losses"].tolist(), recorded["grad_norms"].tolist(), strict=True):
        found = model(ids, labels=ids).loss
        found.backward()
        assert found.item() == pytest.approx(loss, rel=1e-4)
        assert torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item() == pytest.approx(norm, rel=1e-3)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("folder", PMNET_FIXTURES, ids=lambda folder: folder.name)
def test_round_trip(folder, tmp_path):
    load(folder).save_pretrained(tmp_path)
    check(load(tmp_path), read_tensors(folder / "expected.safetensors"))


def test_round_trip_and_the_engine(tmp_path):
    folder = FIXTURES / "base"
    expected = read_tensors(folder / "expected.safetensors")
    load(folder).save_pretrained(tmp_path)
    check(transformers.AutoModelForCausalLM.from_pretrained(tmp_path), expected)
    ids = expected["input_ids"]
    logits = pmnet.Session(pmnet.load(tmp_path), batch=ids.shape[0])._stream.feed(ids)  # begins with BOS
    with torch.no_grad():
        bos = torch.full((ids.shape[0], 1), 254)
        torch.testing.assert_close(
            load(tmp_path).eval()(torch.cat((bos, ids), 1)).logits[:, 1:], logits, rtol=1e-3, atol=1e-4
        )


# What the authors' published config.json says.
PUBLISHED = {
    "architectures": ["PMNetForCausalLM"],
    "auto_map": {
        "AutoConfig": "configuration_pmnet.PMNetConfig",
        "AutoModelForCausalLM": "modeling_pmnet.PMNetForCausalLM",
    },
    "model_type": "PMNet",
    "dtype": "float32",
    "transformers_version": "4.57.6",
    "vocab_size": 384,
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 12,
    "head_dim": 64,
    "hidden_act": "silu",
    "memory_size": 512,
    "num_memory": 4,
    "num_memory_read_heads": 4,
    "memory_write_period": 3,
    "memory_cumsum": True,
    "max_position_embeddings": 40960,
    "rope_theta": 1000000,
    "rope_scaling": None,
    "rms_norm_eps": 1e-06,
    "use_sliding_window": True,
    "sliding_window": 128,
    "max_window_layers": 0,
    "layer_types": ["sliding_attention"] * 12,
    "attention_bias": False,
    "attention_dropout": 0.1,
    "initializer_range": 0.02,
    "tie_word_embeddings": True,
    "use_cache": False,
    "bos_token_id": 254,
    "eos_token_id": 255,
}


def test_published_configuration(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED))
    config = pmnet.PMNetConfig.from_pretrained(tmp_path)
    with torch.device("meta"):
        model = pmnet.PMNetForCausalLM(config)
    assert sum(p.numel() for p in {id(p): p for p in model.parameters()}.values()) == 118_970_368
    assert model.config.window_of(11) == 128
    written = json.loads(config.to_json_string())
    own = ("architectures", "auto_map", "dtype", "torch_dtype", "transformers_version", "rope_scaling")
    for key, value in PUBLISHED.items():
        assert key in own or written[key] == value, key
    with pytest.raises(ValueError, match="hidden_act"):
        pmnet.PMNetConfig(hidden_act="gelu")


def test_new_models_are_initialized(tmp_path):
    config = pmnet.PMNetConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=4,
        num_attention_heads=2,
        head_dim=8,
        memory_size=16,
        memory_write_period=2,
        memory_embedding_std=0.5,
        residual_init=0.5,
    )
    new = pmnet.PMNetForCausalLM(config)
    new.save_pretrained(tmp_path)
    weights = dict(new.named_parameters())
    # One that a checkpoint lacks is initialized as well.
    state = {name: value for name, value in new.state_dict().items() if name != "model.memory_embeddings.1"}
    filled = pmnet.PMNetForCausalLM.from_pretrained(None, config=config, state_dict=state)
    weights["filled"] = filled.model.memory_embeddings[1]
    for name, weight in weights.items():
        norm, bias = "norm" in name, name.endswith("bias")
        std = 0.5 if "memory_embeddings" in name or name == "filled" else 0.02
        if name.endswith(("o_proj.weight", "down_proj.weight", "memory_read_module.proj_out.weight")):
            std *= 0.5
        if norm or bias:
            assert torch.equal(weight, torch.full_like(weight, float(norm))), name
        else:
            assert weight.std().item() == pytest.approx(std, rel=0.4), name
    assert pmnet.load(tmp_path).config["memory_embedding_std"] == 0.5
    assert pmnet.load(tmp_path).config["residual_init"] == 0.5


def test_padding_does_not_matter():
    model = load(FIXTURES / "base").eval()
    rows = [torch.tensor(list(text)) for text in (b"abc", b"hello world, hello", b"xyzuvw")]
    alone = [model(row.unsqueeze(0)).logits[0] for row in rows]
    for side in ("left", "right"):
        ids, mask = torch.zeros(3, 20, dtype=torch.long), torch.zeros(3, 20, dtype=torch.long)
        for i, row in enumerate(rows):
            place = slice(20 - len(row), 20) if side == "left" else slice(0, len(row))
            ids[i, place], mask[i, place] = row, 1
        logits = model(ids, attention_mask=mask).logits
        for i, row in enumerate(rows):
            torch.testing.assert_close(logits[i][mask[i] == 1], alone[i], rtol=1e-4, atol=1e-5)
    mask[0, 5] = 1
    with pytest.raises(ValueError, match="between tokens"):
        model(ids, attention_mask=mask)


def test_generate():
    model = load(FIXTURES / "base").eval()
    ids = torch.tensor([[254, *b"abc"]])
    greedy = model.generate(ids, max_new_tokens=12, do_sample=False, pad_token_id=0)
    again = model.generate(ids, max_new_tokens=12, do_sample=False, pad_token_id=0, use_cache=False)
    assert torch.equal(greedy, again)
    program = pmnet.load(FIXTURES / "base").generate("abc", max_bytes=12, temperature=0)
    written = [i for i in greedy[0, 4:].tolist() if i != 255]
    assert bytes(written[: len(program)]) == program
    tokenizer = pmnet.PMNetTokenizer()
    batch = tokenizer(["abc", "hello world"], padding=True, padding_side="left", return_tensors="pt")
    both = model.generate(**batch, max_new_tokens=6, do_sample=False, pad_token_id=0)
    alone = model.generate(ids, max_new_tokens=6, do_sample=False, pad_token_id=0)
    assert torch.equal(both[0, -6:], alone[0, -6:])
    assert model.generate(ids, max_new_tokens=5, num_beams=3, do_sample=False, pad_token_id=0).shape == (1, 9)


def test_cache_of_another_kind():
    model = load(FIXTURES / "base").eval()
    with pytest.raises(TypeError, match="expected a PMNetCache"):
        model(torch.tensor([[1]]), past_key_values=transformers.DynamicCache())
    with pytest.raises(ValueError, match="exactly one"):
        model()
    with pytest.raises(ValueError, match="there are no ops"):
        model.use_ops("fast")


def test_tokenizer(tmp_path):
    tokenizer = pmnet.PMNetTokenizer()
    text = "héllo <|eos|> \U0001f600"
    assert tokenizer(text).input_ids == [254, *text.encode()]
    assert tokenizer.decode(tokenizer(text).input_ids) == text
    assert tokenizer(text, add_special_tokens=False).input_ids == list(text.encode())
    tokenizer.save_pretrained(tmp_path)
    loaded = pmnet.PMNetTokenizer.from_pretrained(tmp_path)
    assert loaded("abc").input_ids == [254, 97, 98, 99]
    assert (loaded.bos_token_id, loaded.eos_token_id, len(loaded)) == (254, 255, 384)


def test_gradient_checkpointing_and_other_dtypes():
    folder = FIXTURES / "base"
    expected = read_tensors(folder / "expected.safetensors")
    ids = expected["input_ids"]
    model = load(folder)
    model.gradient_checkpointing_enable()
    check(model, expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert load(folder).eval()(ids, labels=ids).loss.item() == pytest.approx(expected["loss"].item(), rel=0.05)
    assert load(folder).to(torch.bfloat16).eval()(ids, labels=ids).loss.isfinite()
    # In float64 nothing is rounded to turns: a check of the turns themselves.
    wide = load(folder).double().train()(ids, labels=ids).loss
    assert wide.item() == pytest.approx(expected["loss"].item(), abs=1e-5)


def model_with_ngrams():
    config = pmnet.PMNetConfig.from_pretrained(FIXTURES / "base", max_ngram=4, ngram_rows=64)
    model = pmnet.PMNetForCausalLM(config).eval()
    for table in model.model.embed_ngrams.values():
        assert table.weight.count_nonzero() == 0  # a new table says nothing
        torch.nn.init.normal_(table.weight, 0.0, 0.3)
    return model


@torch.no_grad()
def test_ngrams(tmp_path):
    model = model_with_ngrams()
    ids = torch.tensor([[254, *b"abracadabra"], [254, *b"cadabra abr"]])
    whole = model(ids).logits
    # The program computes the same from the folder that Python saves.
    model.save_pretrained(tmp_path / "python")
    session = pmnet.Session(pmnet.load(tmp_path / "python"))
    torch.testing.assert_close(whole[0, 1:], session.feed_all("abracadabra"), rtol=1e-3, atol=1e-4)
    # Streamed, the state has the bytes before.
    cache, pieces = pmnet.PMNetCache(), []
    for piece in ids.split([1, 2, 5, 4], 1):
        pieces.append(model(piece, past_key_values=cache).logits)
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=1e-4, atol=1e-5)
    # Padding is not part of an n-gram, before or between chunks.
    left = torch.cat((torch.zeros(2, 3, dtype=torch.long), ids), 1)
    mask = (torch.arange(left.shape[1]) >= 3).long().expand(2, -1)
    torch.testing.assert_close(model(left, attention_mask=mask).logits[:, 3:], whole, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="n-grams"):
        model(inputs_embeds=torch.zeros(1, 2, model.config.hidden_size))
    with pytest.raises(ValueError, match="power of two"):
        pmnet.PMNetConfig(**{**model.config.to_dict(), "ngram_rows": 65})


def test_gradients_of_ngrams():
    model = model_with_ngrams().train()
    ids = torch.tensor([[254, *b"abab"]])
    model(ids, labels=ids).loss.backward()
    bigrams = model.model.embed_ngrams["2"].weight.grad.abs().sum(1).nonzero().numel()
    assert bigrams == 4  # start + BOS, BOS + a, a + b, b + a; nothing is predicted from the last a + b alone


REMOTE = """
import sys
sys.modules["pmnet"] = None if {without} else __import__("pmnet")
from transformers import AutoModelForCausalLM, AutoTokenizer
import torch
model = AutoModelForCausalLM.from_pretrained({folder!r}, trust_remote_code=True).eval()
tokenizer = AutoTokenizer.from_pretrained({folder!r}, trust_remote_code=True)
assert type(model).__module__.startswith("transformers_modules"), type(model)
ids = tokenizer("abc", return_tensors="pt").input_ids
torch.save(model(ids).logits, {out!r})
"""


@pytest.mark.parametrize("ngrams", [False, True])
@pytest.mark.parametrize("without", [True, False])
def test_folders_of_the_program_load_with_their_own_code(tiny_model, tmp_path, without, ngrams):
    if ngrams:
        model_with_ngrams().save_pretrained(tmp_path / "ngrams")
        tiny_model = pmnet.load(tmp_path / "ngrams")
    tiny_model.save(tmp_path / "m")
    out = tmp_path / "logits.pt"
    program = REMOTE.format(without=without, folder=str(tmp_path / "m"), out=str(out))
    environment = {**os.environ, "HF_MODULES_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    expected = pmnet.Session(tiny_model).feed_all("abc")
    torch.testing.assert_close(torch.load(out)[0, 1:], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("ops", ["auto", "composite"])
@pytest.mark.parametrize("folder", PMNET_FIXTURES, ids=lambda folder: folder.name)
def test_compiled(folder, ops):
    torch.compiler.reset()
    check(torch.compile(load(folder, ops), fullgraph=True), read_tensors(folder / "expected.safetensors"))


@pytest.mark.slow
def test_exported():
    folder = FIXTURES / "base"
    expected = read_tensors(folder / "expected.safetensors")
    model = load(folder).eval()
    with torch.no_grad():
        program = torch.export.export(model, (expected["input_ids"],), strict=False)
        assert (program.module()(expected["input_ids"]).logits - expected["logits"]).abs().max() <= 1e-4


@pytest.mark.slow
def test_trainer(tmp_path):
    pytest.importorskip("accelerate")
    rows = [{"input_ids": list(b"some text to learn"), "labels": list(b"some text to learn")}] * 8
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=3,
        per_device_train_batch_size=2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        learning_rate=1e-2,
        logging_steps=1,
    )
    trainer = transformers.Trainer(model=load(FIXTURES / "base"), args=arguments, train_dataset=rows)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0]


@pytest.mark.slow
def test_accelerate():
    """A loop of accelerate gives the losses of a plain one."""
    accelerate = pytest.importorskip("accelerate")
    ids = read_tensors(FIXTURES / "base" / "expected.safetensors")["input_ids"]

    def losses(prepare, backward):
        model = load(FIXTURES / "base").train()
        model, optimizer = prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
        found = []
        for _ in range(3):
            loss = model(ids, labels=ids).loss
            backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
        return found

    accelerator = accelerate.Accelerator(cpu=True)
    expected = losses(lambda *parts: parts, torch.Tensor.backward)
    assert losses(accelerator.prepare, accelerator.backward) == pytest.approx(expected, rel=1e-6)
    assert expected[-1] < expected[0]
