"""The kernels as operations that PyTorch's compilers see as one node: `torch.ops.pmnet_py.*`, float32 on the CPU.

Every operation has a fake implementation, which gives shapes alone, and an autograd formula. The formula keeps the
inputs and nothing else: `<name>_backward` runs the kernel's forward pass again to get what its backward pass needs.
segmented_scan gives its angles first: torch.library.opcheck adds up outputs in place and cannot begin with integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

import torch
from torch import Tensor


_SCHEMAS = {
    "rms_norm": "(Tensor x, Tensor weight, float eps) -> Tensor",
    "rms_norm_linear": "(Tensor x, Tensor norm_weight, float eps, Tensor[] weights, Tensor[] biases) -> Tensor[]",
    "rotary": "(Tensor x, Tensor? weight, Tensor cos, Tensor sin, float eps) -> Tensor",
    "window_attention": "(Tensor q, Tensor k, Tensor v, Tensor? first_key, SymInt window, float scale, float dropout, "
    "Tensor? row_keys, Tensor? positions) -> Tensor",
    "swiglu": "(Tensor gate, Tensor up) -> Tensor",
    "swiglu_linear": "(Tensor gate, Tensor up, Tensor weight, Tensor? bias) -> Tensor",
    "circle_features": "(Tensor? turns, Tensor? angle, Tensor anchors, Tensor group, bool unconstrained) -> Tensor",
    "phase_attention": "(Tensor query, Tensor features, Tensor w_k, Tensor b_k, SymInt num_heads) -> Tensor",
    "phase_values": "(Tensor weights, Tensor features, Tensor w_v, Tensor b_v) -> Tensor",
    "segmented_scan": "(Tensor weights, Tensor update, Tensor group, SymInt num_groups, Tensor? path_turns, "
    "Tensor? path_angle, Tensor? initial_turns, Tensor? initial_angle, Tensor? grad_scale, bool unconstrained) "
    "-> (Tensor angle, Tensor final_angle, Tensor turns, Tensor final_turns)",
    "cross_entropy": "(Tensor hidden, Tensor weight, Tensor targets) -> Tensor",
    "causal_conv": "(Tensor x, Tensor weight, Tensor? bias, Tensor? past) -> Tensor",
    "selective_scan": "(Tensor u, Tensor delta, Tensor a, Tensor b, Tensor c, Tensor d, Tensor z, Tensor? initial) "
    "-> (Tensor, Tensor)",
}

OPS = tuple(_SCHEMAS)  #: names of all operations

# Inputs that get gradients, by position. An absent one gets none.
_DIFFERENTIABLE = {
    "rms_norm": (0, 1),
    "rms_norm_linear": (0, 1, 3, 4),
    "rotary": (0, 1),
    "window_attention": (0, 1, 2),
    "swiglu": (0, 1),
    "swiglu_linear": (0, 1, 2, 3),
    "circle_features": (1, 2),
    "phase_attention": (0, 1, 2, 3),
    "phase_values": (0, 1, 2, 3),
    "segmented_scan": (0, 1, 5, 7),
    "cross_entropy": (0, 1),
    "causal_conv": (0, 1, 2, 3),
    "selective_scan": (0, 1, 2, 3, 4, 5, 6, 7),
}

Argument = Union[Tensor, Sequence[Tensor], float, int, bool, None]


def _fake_segmented_scan(
    weights: Tensor, update: Tensor, group: Tensor, num_groups: int, *_rest: Argument
) -> tuple[Tensor, ...]:
    batch, time, slots = weights.shape
    path, state = (batch, time, slots, update.shape[2]), (batch, num_groups, slots, update.shape[2])
    return (
        weights.new_empty(path),
        weights.new_empty(state),
        weights.new_empty(path, dtype=torch.int32),
        weights.new_empty(state, dtype=torch.int64),
    )


def _contiguous(shape: Sequence[int], like: Tensor) -> Tensor:
    return like.new_empty(tuple(shape))


_FAKE: dict[str, Callable[..., Any]] = {
    "rms_norm": lambda x, weight, eps: _contiguous(x.shape, x),
    "rms_norm_linear": lambda x, norm_weight, eps, weights, biases: [
        _contiguous((*x.shape[:-1], w.shape[0]), x) for w in weights
    ],
    "rotary": lambda x, weight, cos, sin, eps: _contiguous(x.shape, x),
    "window_attention": lambda q, *_rest: _contiguous(q.shape, q),
    "swiglu": lambda gate, up: _contiguous(gate.shape, gate),
    "swiglu_linear": lambda gate, up, weight, bias: _contiguous((*gate.shape[:-1], weight.shape[0]), gate),
    "circle_features": lambda turns, angle, anchors, group, unconstrained: _contiguous(
        (*group.shape, anchors.shape[1], 2 * anchors.shape[2]), anchors
    ),
    "phase_attention": lambda query, features, w_k, b_k, num_heads: _contiguous(
        (*query.shape[:2], num_heads, features.shape[2]), query
    ),
    "phase_values": lambda weights, features, w_v, b_v: _contiguous((*weights.shape[:2], w_v.shape[0]), weights),
    "segmented_scan": _fake_segmented_scan,
    "cross_entropy": lambda hidden, weight, targets: _contiguous(targets.shape, hidden),
    "causal_conv": lambda x, weight, bias, past: _contiguous(x.shape, x),
    "selective_scan": lambda u, delta, a, b, c, d, z, initial: (
        _contiguous(u.shape, u),
        _contiguous((u.shape[0], *a.shape), u),
    ),
}


def _tensors(arguments: Sequence[Argument], places: Sequence[int]) -> list[Tensor]:
    """The differentiable inputs that are there, in order."""
    found: list[Tensor] = []
    for place in places:
        value = arguments[place]
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(value)
    return found


def _listed(outputs: Any) -> list[Tensor]:
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)


def _fresh(outputs: Any) -> Any:
    """An operation must not give out its own inputs, or one tensor twice."""
    return outputs if isinstance(outputs, Tensor) else type(outputs)(x.contiguous() for x in outputs)


class _Recording:
    """Records a graph inside an implementation, where the dispatcher has passed autograd already."""

    def __enter__(self) -> None:
        keys = torch._C._dispatch_tls_local_exclude_set()
        for key in (torch._C.DispatchKey.AutogradCPU, torch._C.DispatchKey.ADInplaceOrView):
            keys = keys.remove(key)
        self._guard = torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), keys)
        self._grad = torch.enable_grad()
        self._guard.__enter__()
        self._grad.__enter__()

    def __exit__(self, *error: object) -> None:
        self._grad.__exit__(*error)
        self._guard.__exit__(*error)


def _kernel(name: str) -> Callable[..., Any]:
    def run(*arguments: Argument) -> Any:
        if name != "segmented_scan":
            return _fresh(getattr(torch.ops.pmnet, name)(*arguments))
        # The kernel gives angles only while gradients are recorded; this operation always does.
        inputs = [x.detach() if isinstance(x, Tensor) else x for x in arguments]
        with torch.enable_grad():
            turns, angle, final_turns, final_angle = torch.ops.pmnet.segmented_scan(*inputs)
        return angle.detach(), final_angle.detach(), turns, final_turns

    return run


def _backward_kernel(name: str) -> Callable[..., list[Tensor]]:
    places = _DIFFERENTIABLE[name]

    def run(grads: Sequence[Tensor], *arguments: Argument) -> list[Tensor]:
        def leaf(value: Argument) -> Argument:
            if isinstance(value, Tensor):
                return value.detach().requires_grad_()
            if isinstance(value, (list, tuple)):
                return [x.detach().requires_grad_() for x in value]
            return value

        inputs = [leaf(x) if place in places else x for place, x in enumerate(arguments)]
        leaves = _tensors(inputs, places)
        with _Recording():
            outputs = [x for x in _listed(getattr(torch.ops.pmnet, name)(*inputs)) if x.is_floating_point()]
            found = torch.autograd.grad(outputs, leaves, list(grads), allow_unused=True)
        return [torch.zeros_like(x) if g is None else _own(g, grads) for g, x in zip(found, leaves)]

    return run


def _own(gradient: Tensor, grads: Sequence[Tensor]) -> Tensor:
    """A gradient that is handed through must not share memory with the one that came in."""
    shared = any(gradient.untyped_storage().data_ptr() == g.untyped_storage().data_ptr() for g in grads)
    return gradient.clone(memory_format=torch.contiguous_format) if shared else gradient.contiguous()


def _register(name: str) -> None:
    qualified, backward = f"pmnet_py::{name}", f"pmnet_py::{name}_backward"
    arguments = _SCHEMAS[name].split(")")[0][1:]
    places = _DIFFERENTIABLE[name]
    torch.library.define(qualified, _SCHEMAS[name])
    torch.library.define(backward, f"(Tensor[] grads, {arguments}) -> Tensor[]")
    torch.library.impl(qualified, "CPU", _kernel(name))
    torch.library.impl(backward, "CPU", _backward_kernel(name))
    torch.library.register_fake(qualified, _FAKE[name])
    torch.library.register_fake(
        backward, lambda grads, *args: [_contiguous(x.shape, x) for x in _tensors(args, places)]
    )

    def setup_context(ctx: Any, inputs: tuple[Argument, ...], output: Any) -> None:
        tensors: list[Tensor] = []
        layout: list[tuple[str, Any]] = []  # how to put the inputs together again
        for value in inputs:
            if isinstance(value, Tensor):
                layout.append(("tensor", None))
                tensors.append(value)
            elif isinstance(value, (list, tuple)):
                layout.append(("list", len(value)))
                tensors.extend(value)
            else:
                layout.append(("value", value))
        ctx.save_for_backward(*tensors)
        ctx.layout = layout
        ctx.shapes = [(x.shape, x.dtype) for x in _listed(output)]

    def gradients(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        saved = iter(ctx.saved_tensors)
        inputs: list[Argument] = []
        for kind, value in ctx.layout:
            if kind == "tensor":
                inputs.append(next(saved))
            elif kind == "list":
                inputs.append([next(saved) for _ in range(value)])
            else:
                inputs.append(value)
        flat = list(grads[0]) if len(grads) == 1 and isinstance(grads[0], (list, tuple)) else list(grads)
        like = _tensors(inputs, places)[0]
        given = [
            like.new_zeros(shape) if g is None else g
            for g, (shape, dtype) in zip(flat, ctx.shapes)
            if dtype.is_floating_point
        ]
        found = iter(getattr(torch.ops.pmnet_py, f"{name}_backward")(given, *inputs))
        out: list[Any] = []
        for place, value in enumerate(inputs):
            if place not in places or value is None:
                out.append([None] * len(value) if isinstance(value, list) else None)
            elif isinstance(value, list):
                out.append([next(found) for _ in value])
            else:
                out.append(next(found))
        return tuple(out)

    torch.library.register_autograd(qualified, gradients, setup_context=setup_context)


for _name in OPS:
    _register(_name)
