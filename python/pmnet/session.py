"""Streams of text through a model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Union

import torch

from ._library import core
from .errors import missing_files, path_text
from .model import Model, load

Text = Union[str, bytes, bytearray, memoryview, torch.Tensor]


@dataclass(frozen=True)
class Trace:
    """The inside of a pass over T bytes. Levels are those of the memory tree, root first."""

    logits: torch.Tensor  #: [B,T,V] after each byte
    hidden: torch.Tensor  #: [B,T,d] after the final norm
    layers: list[torch.Tensor]  #: per layer [B,T,d], after the layer
    groups: list[torch.Tensor]  #: per level [B,T], the group each byte wrote to
    routes: list[torch.Tensor]  #: per level [B,T], the group it chose for the next level
    route_weights: list[torch.Tensor]  #: per level [B,T,N], how the write was spread over the slots
    read_weights: list[torch.Tensor]  #: per layer [B,T,R,N]
    path: list[torch.Tensor]  #: per level [B,T,N,M], phases that the reads see, as turns of 2^32


def as_ids(text: Text, batch: int) -> torch.Tensor:
    """Bytes, text or ids as int64 [B,T]."""
    if isinstance(text, torch.Tensor):
        if text.dtype.is_floating_point or text.dtype.is_complex or text.dtype == torch.bool:
            raise TypeError(f"ids have type {text.dtype}; expected integers")
        ids = text.long()
        return ids.unsqueeze(0) if ids.dim() == 1 else ids
    if isinstance(text, str):
        text = text.encode()
    if not isinstance(text, (bytes, bytearray, memoryview)):
        raise TypeError(f"the text is a {type(text).__name__}; expected str, bytes or a tensor of ids")
    if batch != 1:
        raise ValueError(f"this session holds {batch} sequences; give a tensor of ids [{batch}, T]")
    data = bytearray(text)
    if not data:
        return torch.empty((1, 0), dtype=torch.long)
    return torch.frombuffer(data, dtype=torch.uint8).long().unsqueeze(0)


class Session:
    """One stream of bytes through a model, in pieces of any size; or a batch of independent streams.

    The session holds everything the model needs of what it has read: keys and values of the window, and the phases of
    the memory tree, in constant space. A new session stands at the beginning of a text. Calls release the GIL; calls on
    one session from several threads wait for each other.
    """

    def __init__(self, model: Model | str | os.PathLike[str], batch: int = 1) -> None:
        self._model = model if isinstance(model, Model) else load(model)
        self._stream = core.start_session(self._model._handle, batch)

    @classmethod
    def _of(cls, model: Model, stream: core.Session) -> Session:
        session = cls.__new__(cls)
        session._model, session._stream = model, stream
        return session

    @classmethod
    def load(cls, file: str | os.PathLike[str], model: Model | str | os.PathLike[str]) -> Session:
        """Continues from a file that `save`, or `pmnet generate --save-memory`, has written with the same weights."""
        opened = model if isinstance(model, Model) else load(model)
        path = path_text(file, "file")
        with missing_files(path):
            return cls._of(opened, core.load_session(path, opened._handle))

    def save(self, file: str | os.PathLike[str]) -> None:
        """Writes memory, window, last logits and kept points to one file."""
        self._stream.save(path_text(file, "file"))

    def fork(self) -> Session:
        """A copy that continues on its own; nothing is shared but the weights."""
        return self._of(self._model, self._stream.fork())

    def feed(self, text: Text) -> torch.Tensor:
        """Reads text; gives the logits after its last byte, [V], or [B,V] of a batch."""
        return self._row(self._stream.read(as_ids(text, self.batch)))

    def feed_all(self, text: Text) -> torch.Tensor:
        """Reads text; gives the logits after each of its bytes, [T,V] or [B,T,V]."""
        return self._row(self._stream.feed(as_ids(text, self.batch)))

    def score(self, text: Text) -> torch.Tensor:
        """Reads text; gives the cost of each byte in bits given everything before it, float64 [T] or [B,T]."""
        return self._row(self._stream.score(as_ids(text, self.batch)))

    def trace(self, text: Text) -> Trace:
        """Reads text in one pass; gives hidden states, routes and weights."""
        return Trace(**self._stream.trace(as_ids(text, self.batch)))

    def generate(
        self,
        prompt: Text = b"",
        *,
        max_bytes: int = 256,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        stop: Sequence[str | bytes] = (),
    ) -> Iterator[bytes]:
        """Continues the text, piece by piece. The session has read every byte that was given out.

        The bytes depend on the seed and on what was read before, as in the program and in C++. Stop strings end the
        text and are not given out.
        """
        ids = as_ids(prompt, self.batch)
        stops = [text.encode() if isinstance(text, str) else bytes(text) for text in stop]
        if ids.shape[1] > 0:
            self._stream.read(ids)
        writer = self._stream.generate(max_bytes, temperature, top_k, top_p, seed, stops)
        return _pieces(writer)

    @property
    def logits(self) -> torch.Tensor | None:
        """After the last byte that was read, [V] or [B,V]; None before the first."""
        last = self._stream.logits
        return None if last is None else self._row(last)

    def memory(self, row: int = 0) -> list[torch.Tensor]:
        """The phases of each level, int64 [G,N,M] in turns of 2^64: the session's own tensors, not copies.

        They change with the next bytes. `pmnet.ops.to_angle` gives radians.
        """
        return self._stream.memory(row)

    def window(self, row: int = 0) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Keys and values of each layer, [S,A,Dh], oldest first: views that are valid until the next bytes."""
        return self._stream.window(row)

    def keep_point(self) -> int:
        """Keeps this place to return to; gives its number."""
        return self._stream.keep_point()

    def rewind(self, point: int) -> None:
        """Returns to a kept place. Later places stay."""
        if not isinstance(point, int):
            raise TypeError(f"point is a {type(point).__name__}; expected the number that keep_point() gave")
        if point < 0:
            raise ValueError(f"there is no kept point {point}; this session has {self._stream.num_points}")
        self._stream.rewind(point)

    @property
    def model(self) -> Model:
        """The model that is read."""
        return self._model

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return self._stream.batch

    @property
    def bytes_read(self) -> int:
        """Bytes that the first sequence has read; BOS does not count."""
        return max(self._stream.position(0) - 1, 0)

    @property
    def state_bytes(self) -> int:
        """Size of the state of all sequences."""
        return self._stream.state_bytes

    @property
    def chunk(self) -> int:
        """Bytes per forward pass; fewer need less memory."""
        return self._stream.chunk

    @chunk.setter
    def chunk(self, tokens: int) -> None:
        self._stream.chunk = tokens

    def _row(self, values: torch.Tensor) -> torch.Tensor:
        return values[0] if self.batch == 1 else values

    def __repr__(self) -> str:
        return f"<pmnet.Session of {self._model!r}, {self.bytes_read:,} bytes read>"


def _pieces(writer: core.Text) -> Iterator[bytes]:
    while (piece := writer.next()) is not None:
        if piece:
            yield piece
