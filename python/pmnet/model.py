"""Models: loading, creating and saving weights."""

from __future__ import annotations

import json
import os
import warnings as _warnings
from collections.abc import Sequence
from typing import Any

import torch

from ._library import core
from .errors import missing_files, path_text


class Model:
    """The weights of a byte-level language model: a PMNet, or a Transformer or Mamba baseline.

    Any number of sessions may read one model, also from several threads. `load` and `create` make models.
    """

    def __init__(self, handle: core.Model) -> None:
        if not isinstance(handle, core.Model):
            raise TypeError("use pmnet.load(folder) or pmnet.create(preset) to make a model")
        self._handle = handle

    @property
    def config(self) -> dict[str, Any]:
        """The configuration, with the keys of config.json."""
        return dict(json.loads(self._handle.config_json()))

    @property
    def num_parameters(self) -> int:
        """Number of weights."""
        return self._handle.num_parameters

    @property
    def vocab_size(self) -> int:
        """Number of ids; 0 to 255 are the bytes."""
        return self._handle.vocab_size

    @property
    def bos_id(self) -> int:
        """Id that begins a text."""
        return self._handle.bos_id

    @property
    def eos_id(self) -> int:
        """Id that ends a text."""
        return self._handle.eos_id

    @property
    def quantized(self) -> bool:
        """Whether the weights are bf16 or int8, for inference only."""
        return self._handle.quantized

    @property
    def hash(self) -> str:
        """Identifies the weights; memory files carry it."""
        return self._handle.hash()

    def parameters(self) -> dict[str, torch.Tensor]:
        """The weights by their names in the checkpoint: the model's own tensors, not copies.

        Call `refresh` after changing them.
        """
        return dict(self._handle.parameters())

    def refresh(self) -> None:
        """Lets sessions made from now on see weights that were changed in place."""
        self._handle.refresh()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes a model folder, complete or not at all, which `load` and transformers read."""
        self._handle.save(path_text(folder, "folder"))

    def generate(
        self,
        prompt: str | bytes = b"",
        *,
        max_bytes: int = 256,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        stop: Sequence[str | bytes] = (),
    ) -> bytes:
        """Continues a prompt in a session of its own; equal seeds give the bytes that the program gives."""
        from .session import Session

        session = Session(self)
        session.feed(prompt)
        return b"".join(
            session.generate(
                max_bytes=max_bytes, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, stop=stop
            )
        )

    def bits_per_byte(self, text: str | bytes) -> float:
        """Mean cost of a text's bytes, read from an empty memory."""
        from .session import Session

        bits = Session(self).score(text)
        if bits.numel() == 0:
            raise ValueError("an empty text has no bits per byte; give at least one byte")
        return float(bits.mean())

    def __repr__(self) -> str:
        kind = self.config["model_type"]
        return f"<pmnet.Model {kind}, {self.num_parameters:,} parameters{', quantized' if self.quantized else ''}>"


def load(folder: str | os.PathLike[str]) -> Model:
    """Loads a model folder (config.json and model.safetensors), or the newest whole checkpoint of a training run.

    Folders of the authors, of `save` and of `PMNetForCausalLM.save_pretrained` load alike. Raises FileNotFoundError if
    there is no such folder, and ValueError if it holds no usable model.
    """
    path = path_text(folder, "folder")
    with missing_files(path):
        handle = core.load_model(path)
    for warning in handle.warnings:
        _warnings.warn(f"{path}: {warning}", stacklevel=2)
    return Model(handle)


def create(preset: str, seed: int = 0) -> Model:
    """A model of a preset, such as "tiny" or "30m", with random weights. Equal seeds give equal weights."""
    if not isinstance(preset, str):
        raise TypeError(f"preset is a {type(preset).__name__}; expected one of {', '.join(preset_names())}")
    return Model(core.create_model(preset, seed))


def preset_names() -> list[str]:
    """What `create` takes."""
    return list(core.preset_names())
