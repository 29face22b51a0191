"""Whole evaluations and training runs, with the settings of the program's commands."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Union

from ._library import core
from .errors import missing_files, path_text
from .model import Model, load

Path = Union[str, "os.PathLike[str]"]
Step = dict[str, Any]


def evaluate(
    model: Model | Path | Mapping[str, Model | Path],
    inputs: Path | Sequence[Path],
    *,
    limit: int = 0,
    min_bytes: int = 0,
    documents: int = 0,
    chunk: int = 1024,
    parallel: int = 0,
    score_eos: bool = False,
    no_recurrence: bool = False,
    text_field: str = "text",
    split_on: str = "",
) -> dict[str, Any]:
    """Bits per byte of documents of any length, by position: what `pmnet eval --json` writes.

    `model` is one model or several by name; `inputs` are files, folders or patterns. `limit` reads only so many bytes of
    each document, `documents` only so many documents, and `no_recurrence` scores each model once more without memory
    recurrence.
    """
    named = model if isinstance(model, Mapping) else {"model": model}
    opened = {label: one if isinstance(one, Model) else load(one) for label, one in named.items()}
    paths = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    texts = [path_text(path, "an input") for path in paths]
    for name, value, least in (
        ("limit", limit, 0),
        ("min_bytes", min_bytes, 0),
        ("documents", documents, 0),
        ("chunk", chunk, 1),
        ("parallel", parallel, 0),
    ):
        if value < least:
            raise ValueError(f"{name} is {value}; expected at least {least}")
    with missing_files(*texts):
        text = core.evaluate(
            [one._handle for one in opened.values()],
            list(opened),
            texts,
            limit,
            min_bytes,
            documents,
            chunk,
            parallel,
            score_eos,
            no_recurrence,
            text_field,
            split_on,
        )
    return dict(json.loads(text))


def train(
    out: Path,
    settings: Mapping[str, Any] | None = None,
    *,
    run_file: Path | None = None,
    resume: bool = False,
    force: bool = False,
    on_step: Optional[Callable[[Step], Optional[bool]]] = None,
) -> dict[str, Any]:
    """A training run in folder `out`, as `pmnet train` does it, with checkpoints, validation and logs.

    `settings` are the keys of run files, "section.name" or nested: {"model": {"preset": "tiny"}, "data.inputs":
    "corpus.txt", "train.steps": 100}; `train_settings` lists them. `on_step` is called after every step with its loss,
    gradient norm and learning rate; the run is stopped, and saved, when it returns False. Gives a summary with the
    folder of the last checkpoint, which `load` takes.
    """
    folder = path_text(out, "out")
    file = "" if run_file is None else path_text(run_file, "run_file")
    if on_step is not None and not callable(on_step):
        raise TypeError(f"on_step is a {type(on_step).__name__}; expected a function")
    assignments = list(_flat(settings or {}))
    with missing_files(*([file] if file else [])):
        return dict(core.train(folder, assignments, file, resume, force, on_step))


def train_settings() -> dict[str, str]:
    """Every setting of `train` with its meaning."""
    return dict(core.train_options())


def _flat(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, list[str]]]:
    flat: list[tuple[str, list[str]]] = []
    for key, value in settings.items():
        if not isinstance(key, str):
            raise TypeError(f"a setting is called {key!r}; expected a str such as 'train.steps'")
        if isinstance(value, Mapping):
            flat += _flat(value, prefix + key + ".")
        elif isinstance(value, (list, tuple)):
            flat.append((prefix + key, [_word(key, item) for item in value]))
        else:
            flat.append((prefix + key, [_word(key, value)]))
    return flat


def _word(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, str)):
        return str(value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise TypeError(f"{key} is a {type(value).__name__}; expected a number, a str, a bool or a list of them")
