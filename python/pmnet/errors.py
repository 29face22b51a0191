"""Exceptions of the library under the names Python uses for them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def path_text(path: object, what: str) -> str:
    """A path as text; TypeError for anything that is none."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{what} is a {type(path).__name__}; expected a path, as str or pathlib.Path")
    return os.fspath(path) if isinstance(path, str) else str(os.fspath(path))


@contextlib.contextmanager
def missing_files(*paths: str) -> Iterator[None]:
    """Turns the error about a path that does not exist into FileNotFoundError, with the library's sentence."""
    try:
        yield
    except (ValueError, OSError) as error:
        if isinstance(error, FileNotFoundError) or all(Path(path).exists() for path in paths):
            raise
        raise FileNotFoundError(str(error)) from None
