"""PMNet for Hugging Face transformers. Importing this module registers it with the Auto classes."""

from __future__ import annotations

try:
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer
except ImportError as error:
    raise ImportError(f"pmnet's models for Hugging Face need transformers 4.57 or later: {error}") from error

from .hub.configuration_pmnet import PMNetConfig
from .hub.modeling_pmnet import PMNetCache, PMNetForCausalLM, PMNetModel, PMNetPreTrainedModel
from .hub.tokenization_pmnet import ByteTokenizer

PMNetTokenizer = ByteTokenizer

AutoConfig.register("PMNet", PMNetConfig, exist_ok=True)
AutoModel.register(PMNetConfig, PMNetModel, exist_ok=True)
AutoModelForCausalLM.register(PMNetConfig, PMNetForCausalLM, exist_ok=True)
AutoTokenizer.register(PMNetConfig, slow_tokenizer_class=ByteTokenizer, exist_ok=True)

__all__ = [
    "ByteTokenizer",
    "PMNetCache",
    "PMNetConfig",
    "PMNetForCausalLM",
    "PMNetModel",
    "PMNetPreTrainedModel",
    "PMNetTokenizer",
]
