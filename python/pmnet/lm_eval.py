"""PMNet for EleutherAI's lm-evaluation-harness, in process and exact: `lm_eval --model pmnet --model_args path=DIR`.

Contexts have no length limit: every request is one stream from BOS on. Requests that share a context, such as the
answers of a multiple-choice question, read it once and fork.
"""

from __future__ import annotations

import math
from typing import Any

from .model import load
from .session import Session

try:
    from lm_eval.api.model import LM
    from lm_eval.api.registry import register_model
except ImportError as error:
    raise ImportError(f"pmnet.lm_eval needs the package lm-eval: {error}") from error


@register_model("pmnet")
class PMNetLM(LM):
    """Arguments: path (a model folder), limit (bytes that a rolling text is cut to; 0: none)."""

    def __init__(self, path: str, limit: int = 0, **_settings: Any) -> None:
        super().__init__()
        self._model = load(path)
        self._limit = int(limit)

    @property
    def tokenizer_name(self) -> str:
        return "bytes"

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        answers: list[tuple[float, bool]] = []
        context_read: tuple[bytes, Session] | None = None
        for request in requests:
            context, continuation = (text.encode() for text in request.args)
            if context_read is None or context_read[0] != context:
                session = Session(self._model)
                session.feed(context)
                context_read = (context, session)
            answers.append(_score(context_read[1].fork(), continuation))
        return answers

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        answers = []
        for request in requests:
            text = request.args[0].encode()
            text = text[: self._limit] if self._limit > 0 else text
            answers.append(-float(Session(self._model).score(text).sum()) * math.log(2))
        return answers

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        answers = []
        for request in requests:
            context, settings = request.args
            until = settings.get("until") or []
            stops = [until] if isinstance(until, str) else list(until)
            sampled = bool(settings.get("do_sample", False))
            text = self._model.generate(
                context,
                max_bytes=int(settings.get("max_gen_toks", 256)),
                temperature=float(settings.get("temperature", 1.0)) if sampled else 0.0,
                top_p=float(settings.get("top_p", 1.0)) if sampled else 1.0,
                seed=int(settings.get("seed", 0)),
                stop=stops,
            )
            answers.append(text.decode(errors="replace"))
        return answers


def _score(session: Session, continuation: bytes) -> tuple[float, bool]:
    """The log-likelihood of a continuation in nats, and whether every byte of it is the likeliest."""
    first = session.logits
    if first is None or not continuation:
        return 0.0, True
    import torch

    logits = torch.cat((first.unsqueeze(0), session.feed_all(continuation)[:-1])).double()
    ids = torch.tensor(list(continuation)).unsqueeze(1)
    nats = logits.log_softmax(-1).gather(1, ids).sum()
    return float(nats), bool((logits.argmax(-1, keepdim=True) == ids).all())
