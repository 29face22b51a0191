"""Loads the compiled module, after a check that it was built for the torch that is installed."""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from . import _core as core
else:
    try:
        core = importlib.import_module("._core", __package__)
    except ImportError as error:
        raise ImportError(
            f"pmnet's compiled part does not load with torch {torch.__version__}: {error}; "
            "install pmnet again in this environment, which builds it for the torch that is here"
        ) from error
    if ".".join(torch.__version__.split(".")[:2]) != core.torch_version:
        raise ImportError(
            f"pmnet was built for torch {core.torch_version} and finds torch {torch.__version__}; "
            "install pmnet again in this environment, which builds it for the torch that is here"
        )

_reuse_lock, _reused = threading.Lock(), False


def reuse_tensor_memory() -> None:
    """From here on, large tensors of torch on the CPU reuse the memory of earlier ones, on huge pages, as in the program.

    Training allocates the same sizes over and over; giving them back to the system each time costs about a tenth of a
    step. It applies to the whole process, also to tensors that have nothing to do with pmnet; memory that was once in
    use stays with the process.
    """
    global _reused
    with _reuse_lock:
        if not _reused:
            core.reuse_tensor_memory()
        _reused = True


__all__ = ["core", "reuse_tensor_memory"]
