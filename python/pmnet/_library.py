"""Loads the compiled module, after a check that it was built for the torch that is installed."""

from __future__ import annotations

import importlib
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

__all__ = ["core"]
