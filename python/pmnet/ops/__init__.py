"""PMNet's operations for models in PyTorch.

Each function chooses how it runs:

* float32 on the CPU: the library's kernels, forward and backward (`torch.ops.pmnet.*`);
* the same under torch.compile and torch.export: the kernels as opaque operations with shapes and gradients
  (`torch.ops.pmnet_py.*`, see `registered`), whose backward pass runs the forward pass again;
* other devices and dtypes, autocast, and the transforms of torch.func: plain PyTorch (`composite`), which Inductor
  fuses. `pmnet.ops.composite` can also be called directly.

Second derivatives need `composite`. Arguments and shapes are those documented in `composite`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Optional

import torch
from torch import Tensor

from .._library import core as _core  # loads the library, which registers torch.ops.pmnet.*
from ..hub import composite_pmnet as composite
from ..hub.composite_pmnet import to_angle, to_turns
from . import registered
from .registered import OPS

__all__ = [
    "OPS",
    "causal_conv",
    "circle_features",
    "composite",
    "cross_entropy",
    "phase_attention",
    "phase_values",
    "registered",
    "rms_norm",
    "rms_norm_linear",
    "rotary",
    "segmented_scan",
    "selective_scan",
    "swiglu",
    "swiglu_linear",
    "to_angle",
    "to_turns",
    "window_attention",
]

_PLAIN = (Tensor, torch.nn.Parameter)


class _Kernels:
    """torch.ops.pmnet, where arguments that do not fit are ValueError or TypeError instead of RuntimeError."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = getattr(torch.ops.pmnet, name)

        def call(*arguments: Any) -> Any:
            try:
                return operation(*arguments)
            except RuntimeError as error:
                sentence = str(error)
                if not sentence.startswith(name + ":"):  # not one of ours
                    raise
                raise (TypeError if " has type " in sentence else ValueError)(sentence) from None

        setattr(self, name, call)
        return call


_kernels = _Kernels()


def _check(name: str, floats: Sequence[Optional[Tensor]], integers: Sequence[Optional[Tensor]]) -> None:
    """Tensors of the right kind, on one device: plain PyTorch would take integers, or fail further inside."""
    device = None
    for x in (*floats, *integers):
        if x is None:
            continue
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: an argument is a {type(x).__name__}; expected a tensor")
        if device is not None and x.device != device:
            raise ValueError(f"{name}: arguments lie on {device} and on {x.device}; expected one device")
        device = x.device
    for x in floats:
        if x is not None and not x.is_floating_point():
            raise TypeError(f"{name}: an argument has type {x.dtype}; expected a floating-point type")
    for x in integers:
        if x is not None and x.dtype not in (torch.int64, torch.int32):
            raise TypeError(f"{name}: an argument has type {x.dtype}; expected int64, or int32 for turns")


def _namespace(name: str, floats: Sequence[Optional[Tensor]], integers: Sequence[Optional[Tensor]] = ()) -> Any:
    """Where the operation is: torch.ops.pmnet, torch.ops.pmnet_py or `composite`."""
    _check(name, floats, integers)
    for x in floats:
        if x is not None and (x.dtype != torch.float32 or x.device.type != "cpu"):
            return composite
    if torch.is_autocast_enabled("cpu"):
        return composite
    if torch.compiler.is_compiling():
        return torch.ops.pmnet_py
    if torch._C._are_functorch_transforms_active():
        return composite
    if any(x is not None and type(x) not in _PLAIN for x in floats):  # fake tensors and the like
        return torch.ops.pmnet_py
    return _kernels


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return _namespace("rms_norm", (x, weight)).rms_norm(x, weight, eps)


def rms_norm_linear(
    x: Tensor, norm_weight: Tensor, eps: float, weights: Sequence[Tensor], biases: Sequence[Tensor] = ()
) -> list[Tensor]:
    where = _namespace("rms_norm_linear", (x, norm_weight, *weights, *biases))
    return where.rms_norm_linear(x, norm_weight, eps, list(weights), list(biases))


def rotary(x: Tensor, weight: Optional[Tensor], cos: Tensor, sin: Tensor, eps: float) -> Tensor:
    return _namespace("rotary", (x, weight, cos, sin)).rotary(x, weight, cos, sin, eps)


def window_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    first_key: Optional[Tensor],
    window: int,
    scale: float,
    dropout: float = 0.0,
    row_keys: Optional[Tensor] = None,
    positions: Optional[Tensor] = None,
) -> Tensor:
    where = _namespace("window_attention", (q, k, v), (first_key, row_keys, positions))
    return where.window_attention(q, k, v, first_key, window, scale, dropout, row_keys, positions)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    return _namespace("swiglu", (gate, up)).swiglu(gate, up)


def swiglu_linear(gate: Tensor, up: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    return _namespace("swiglu_linear", (gate, up, weight, bias)).swiglu_linear(gate, up, weight, bias)


def circle_features(
    turns: Optional[Tensor],
    angle: Optional[Tensor],
    anchors: Tensor,
    group: Tensor,
    unconstrained: bool = False,
) -> Tensor:
    where = _namespace("circle_features", (angle, anchors), (turns, group))
    return where.circle_features(turns, angle, anchors, group, unconstrained)


def phase_attention(query: Tensor, features: Tensor, w_k: Tensor, b_k: Tensor, num_heads: int) -> Tensor:
    where = _namespace("phase_attention", (query, features, w_k, b_k))
    return where.phase_attention(query, features, w_k, b_k, num_heads)


def phase_values(weights: Tensor, features: Tensor, w_v: Tensor, b_v: Tensor) -> Tensor:
    return _namespace("phase_values", (weights, features, w_v, b_v)).phase_values(weights, features, w_v, b_v)


def segmented_scan(
    weights: Tensor,
    update: Tensor,
    group: Tensor,
    num_groups: int,
    path_turns: Optional[Tensor] = None,
    path_angle: Optional[Tensor] = None,
    initial_turns: Optional[Tensor] = None,
    initial_angle: Optional[Tensor] = None,
    grad_scale: Optional[Tensor] = None,
    unconstrained: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    floats = (weights, update, path_angle, initial_angle, grad_scale)
    where = _namespace("segmented_scan", floats, (group, path_turns, initial_turns))
    where = composite if unconstrained else where
    inputs = (weights, update, group, num_groups, path_turns, path_angle, initial_turns, initial_angle, grad_scale)
    out = where.segmented_scan(*inputs, unconstrained)
    return (out[2], out[0], out[3], out[1]) if where is torch.ops.pmnet_py else out


def cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return _namespace("cross_entropy", (hidden, weight), (targets,)).cross_entropy(hidden, weight, targets)


def causal_conv(
    x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, past: Optional[Tensor] = None
) -> Tensor:
    return _namespace("causal_conv", (x, weight, bias, past)).causal_conv(x, weight, bias, past)


def selective_scan(
    u: Tensor,
    delta: Tensor,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    d: Tensor,
    z: Tensor,
    initial: Optional[Tensor] = None,
) -> tuple[Tensor, Tensor]:
    inputs = (u, delta, a, b, c, d, z, initial)
    return _namespace("selective_scan", inputs).selective_scan(*inputs)


for _name in OPS:
    globals()[_name].__doc__ = getattr(composite, _name).__doc__
