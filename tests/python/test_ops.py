"""Kernels, opaque operations and composites agree in values and gradients, and PyTorch's tools accept them."""

import os
import subprocess
import sys

import pytest
import torch
from op_cases import cases, flat, leaves

from pmnet import ops

NAMES = ops.OPS


def gradients(outputs, arguments):
    generator = torch.Generator().manual_seed(7)
    floats = [y for y in outputs if y.is_floating_point()]
    total = sum((y * torch.randn(y.shape, generator=generator)).sum() for y in floats)
    return torch.autograd.grad(total, leaves(arguments))


def test_every_operation_has_a_case():
    assert set(cases()) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_composite_equals_kernels(name):
    arguments = cases()[name]
    kernels, composite = flat(getattr(ops, name)(*arguments)), flat(getattr(ops.composite, name)(*arguments))
    for a, b in zip(kernels, composite, strict=True):
        if a.is_floating_point():
            torch.testing.assert_close(a, b, rtol=1e-4, atol=2e-6)
        else:
            assert torch.equal(a, b)  # turns: the same bits
    for a, b in zip(gradients(kernels, arguments), gradients(composite, arguments), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_opaque_operation_equals_kernels(name):
    arguments = cases()[name]
    opaque = flat(getattr(torch.ops.pmnet_py, name)(*arguments))
    kernels = flat(getattr(ops, name)(*arguments))
    if name == "segmented_scan":
        kernels = [kernels[i] for i in (1, 3, 0, 2)]
    for a, b in zip(kernels, opaque, strict=True):
        assert torch.equal(a, b)
    for a, b in zip(gradients(kernels, arguments), gradients(opaque, arguments), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_opcheck(name):
    torch.library.opcheck(getattr(torch.ops.pmnet_py, name).default, cases()[name])


def wide(value):
    if isinstance(value, list):
        return [wide(x) for x in value]
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().double().requires_grad_(value.requires_grad)
    return value


@pytest.mark.parametrize("name", NAMES)
def test_gradcheck(name):
    arguments = [wide(x) for x in cases()[name]]
    if name == "segmented_scan":
        arguments[8] = None  # grad_scale is no derivative, on purpose
    inputs = leaves(arguments)

    def run(*tensors):
        replaced = iter(tensors)
        given = [
            [next(replaced) for _ in x] if isinstance(x, list) else next(replaced) if x is not None and leaves([x]) else x
            for x in arguments
        ]
        return [y for y in flat(getattr(ops, name)(*given)) if y.is_floating_point()]

    assert torch.autograd.gradcheck(run, inputs)


def test_grad_scale_scales_the_gradient_alone():
    weights, update, group, *rest = cases()["segmented_scan"]
    scale = rest[5]
    plain = ops.composite.segmented_scan(weights, update, group, 4)
    scaled = ops.composite.segmented_scan(weights, update, group, 4, grad_scale=scale)
    assert torch.equal(plain[0], scaled[0])
    seed = torch.randn_like(plain[1])
    (expected,) = torch.autograd.grad((plain[1] * seed).sum(), update)
    (found,) = torch.autograd.grad((scaled[1] * seed).sum(), update)
    factor = scale.gather(1, group.clamp_min(0)).unsqueeze(-1)
    torch.testing.assert_close(found, expected * factor, rtol=1e-4, atol=1e-6)


def test_turns_do_not_depend_on_chunks_or_implementation():
    torch.manual_seed(4)
    weights, update = torch.rand(3, 300, 4), 3 * torch.randn(3, 300, 16)
    group = torch.randint(0, 5, (3, 300))
    whole = ops.segmented_scan(weights, update, group, 5)
    for scan in (ops.segmented_scan, ops.composite.segmented_scan):
        state = None
        pieces = []
        for begin, end in ((0, 1), (1, 130), (130, 300)):
            part = slice(begin, end)
            turns, _, state, _ = scan(weights[:, part], update[:, part], group[:, part], 5, initial_turns=state)
            pieces.append(turns)
        assert torch.equal(torch.cat(pieces, 1), whole[0])
        assert torch.equal(state, whole[2])


@pytest.mark.parametrize("window", [5, 16, 0])
@pytest.mark.parametrize("past", [0, 3, 40])
def test_long_windows_of_the_composite(window, past):
    q, k, v = torch.randn(2, 50, 4, 8), torch.randn(2, 50 + past, 2, 8), torch.randn(2, 50 + past, 2, 8)
    first = torch.tensor([0, past])
    for dropout in (0.0, 0.3):
        rest = (first, window, 0.3, dropout, torch.tensor([3, 9]), torch.tensor([past, 70]))
        expected = ops.window_attention(q, k, v, *rest)
        torch.testing.assert_close(ops.composite.window_attention(q, k, v, *rest), expected, rtol=1e-4, atol=1e-5)


def test_autocast_and_half_precision():
    x, weight, norm = torch.randn(2, 5, 16), torch.randn(8, 16), torch.ones(16)
    with torch.autocast("cpu", torch.bfloat16):
        (y,) = ops.rms_norm_linear(x, norm, 1e-6, [weight])
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), ops.rms_norm_linear(x, norm, 1e-6, [weight])[0], rtol=0.05, atol=0.1)
    half = ops.rms_norm(x.bfloat16(), norm.bfloat16(), 1e-6)
    assert half.dtype == torch.bfloat16


def test_functional_transforms():
    x, weight = torch.randn(3, 8), torch.randn(8)
    found = torch.func.grad(lambda w: ops.rms_norm(x, w, 1e-6).sum())(weight)
    leaf = weight.clone().requires_grad_()
    ops.rms_norm(x, leaf, 1e-6).sum().backward()
    torch.testing.assert_close(found, leaf.grad)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("rms_norm", (torch.ones(2, 1024), torch.ones(1), 1e-6)),
        ("swiglu", (torch.ones(4, 1024), torch.ones(1, 8))),
        ("causal_conv", (torch.ones(1, 5, 8), torch.ones(3, 4), None, None)),
        ("cross_entropy", (torch.randn(3, 8), torch.randn(16, 8), torch.tensor([1, 99999999, 2]))),
        ("segmented_scan", (torch.rand(1, 6, 4), torch.randn(1, 6, 8), torch.full((1, 6), 10**6), 1)),
    ],
)
def test_arguments_that_do_not_fit(name, arguments):
    with pytest.raises((ValueError, IndexError), match=name):
        getattr(ops, name)(*arguments)


def test_compile_and_export():
    """Both ways through one graph: the kernel as one node, and the composite, which Inductor compiles."""

    class Block(torch.nn.Module):
        def __init__(self, where):
            super().__init__()
            self.where = where
            self.norm, self.gate, self.up = (torch.nn.Parameter(torch.randn(s)) for s in ((8,), (6, 8), (6, 8)))

        def forward(self, x):
            gate, up = self.where.rms_norm_linear(x, self.norm, 1e-6, [self.gate, self.up], [])
            return self.where.swiglu(gate, up).sin()

    torch.manual_seed(0)
    x = torch.randn(3, 5, 8)
    for where in (ops, ops.composite):
        block = Block(where)
        expected = block(x)
        compiled = torch.compile(block, fullgraph=True)(x)
        torch.testing.assert_close(compiled, expected)
        found = torch.autograd.grad(compiled.sum(), block.parameters())
        wanted = torch.autograd.grad(expected.sum(), block.parameters())
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        exported = torch.export.export(block, (x,))
        torch.testing.assert_close(exported.module()(x), expected)


@pytest.mark.slow
def test_dropout_compiles_to_the_same_bits():
    """The hash wraps around 2^64, which Inductor's index arithmetic must not see."""
    q, k = torch.randn(2, 300, 3, 8), torch.randn(2, 300, 3, 8)

    def attend(q, k, row_keys):
        start = torch.zeros(2, dtype=torch.long)
        return ops.composite.window_attention(q, k, k, None, 64, 0.3, 0.1, row_keys, start)

    row_keys = torch.tensor([3, -9])
    compiled = torch.compile(attend, fullgraph=True)(q, k, row_keys)
    torch.testing.assert_close(compiled, attend(q, k, row_keys), rtol=1e-5, atol=1e-6)


WITH_PROFILE = """
import torch, torch._inductor.config
from pmnet.ops import composite
torch._inductor.config.cpp.enable_kernel_profile = True
torch.set_num_threads(1)

def attend(x):
    row_keys, start = torch.randint(-(2**62), 2**62, (1,)), torch.zeros(1, dtype=torch.long)
    return composite.window_attention(x, x, x, None, 128, 0.3, 0.1, row_keys, start)

torch.compile(attend, fullgraph=True)(torch.randn(1, 512, 6, 64, requires_grad=True)).sum().backward()
"""


@pytest.mark.slow
def test_compiled_dropout_ends_its_loops(tmp_path):
    """Loops over products of counters that overflow ran on beyond their arrays, with these settings."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", WITH_PROFILE], check=True, env=environment)
