"""The Phasor Memory Network: a byte-level language model whose memory of any length has a constant size.

    import pmnet

    model = pmnet.load("folder")                     # of `pmnet train`, `pmnet new`, or of the authors
    print(model.generate("Once upon a time", max_bytes=200).decode(errors="replace"))

`Session` streams text through a model: feed, score, generate, fork, rewind, save. `evaluate` and `train` do what the
commands of the program do. `pmnet.ops` holds the operations for models in PyTorch, and `PMNetForCausalLM`,
`PMNetConfig` and `PMNetTokenizer` are the model in the form of Hugging Face transformers, imported on first use.
"""

from __future__ import annotations

import sys as _sys
import warnings as _warnings
from typing import TYPE_CHECKING, Any

with _warnings.catch_warnings():
    _warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # which pmnet does not need
    import torch as _torch  # first: it brings the libraries that the compiled module needs

from ._library import core as _core
from ._library import reuse_tensor_memory
from .jobs import evaluate, train, train_settings
from .model import Model, create, load, preset_names
from .session import Session, Trace

if TYPE_CHECKING:
    from . import hf, ops
    from .hf import PMNetCache, PMNetConfig, PMNetForCausalLM, PMNetModel, PMNetTokenizer

__version__: str = _core.version()

_FROM_HF = ("PMNetCache", "PMNetConfig", "PMNetForCausalLM", "PMNetModel", "PMNetTokenizer")

__all__ = [
    "Model",
    "Session",
    "Trace",
    "create",
    "evaluate",
    "hf",
    "load",
    "ops",
    "preset_names",
    "reuse_tensor_memory",
    "train",
    "train_settings",
    *_FROM_HF,
]


def __getattr__(name: str) -> Any:
    """Parts that import transformers, or register operations, come when they are asked for."""
    import importlib

    if name in _FROM_HF:
        return getattr(importlib.import_module(".hf", __name__), name)
    if name in ("hf", "ops", "lm_eval"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# A program that has imported transformers before gets its Auto classes to know PMNet at once.
if "transformers" in _sys.modules:
    from . import hf as hf
