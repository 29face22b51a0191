"""PMNet for Hugging Face transformers: sliding-window attention and a tree of phase memories.

Runs on the kernels of the package `pmnet` where it is installed, else, and on other devices, in plain PyTorch.
"""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.cache_utils import Cache
from transformers.generation import GenerationMixin
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast
from transformers.modeling_utils import PreTrainedModel

from .composite_pmnet import composite
from .configuration_pmnet import PMNetConfig
from .layers_pmnet import NgramEmbedding, NgramTable, PMNetDecoderLayer, RMSNorm, Tokens, rotary_table

try:
    from pmnet import ops as kernels
except ImportError:
    kernels = composite

OPS = {"auto": kernels, "composite": composite}


class PMNetCache(Cache):
    """The streaming state: keys and values of the window per layer, phases per level, positions, and the latest bytes
    where n-grams are embedded. Of constant size.

    `turns[level]` is int64 [B,G,N,M], exact fractions of a turn. It is not differentiable.
    """

    def __init__(self):
        super().__init__(layers=[])
        self.columns = 0  # columns of input seen, padding included
        self.positions = None  # int64 [B], tokens read
        self.recent = None  # int64 [B,n-1], 1 + id of the latest
        self.keys, self.values, self.turns = [], [], []

    def get_seq_length(self, layer_idx=0):
        return self.columns

    def get_max_cache_shape(self, layer_idx=0):
        return -1

    def reset(self):
        self.__init__()

    def _map(self, change):
        if self.positions is None:
            return
        self.positions = change(self.positions)
        self.recent = None if self.recent is None else change(self.recent)
        self.keys, self.values, self.turns = (
            [change(x) for x in part] for part in (self.keys, self.values, self.turns)
        )

    def reorder_cache(self, beam_idx):
        self._map(lambda x: x.index_select(0, beam_idx.to(x.device)))

    def batch_repeat_interleave(self, repeats):
        self._map(lambda x: x.repeat_interleave(repeats, dim=0))

    def batch_select_indices(self, indices):
        self._map(lambda x: x[indices])

    def crop(self, max_length):
        raise ValueError("a PMNet memory cannot be run backwards; keep a copy of the cache to return to")


class PMNetPreTrainedModel(PreTrainedModel):
    config_class = PMNetConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["PMNetDecoderLayer"]
    _skip_keys_device_placement = ["past_key_values"]
    _supports_sdpa = True
    _is_stateful = True  # a memory cannot be rolled back: no assisted generation

    def _init_weights(self, module):
        std = self.config.initializer_range
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, 0.0, std * getattr(module, "init_scale", 1.0))
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, NgramTable):
            nn.init.zeros_(module.weight)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, 0.0, std)
            if module.padding_idx is not None:
                with torch.no_grad():
                    module.weight[module.padding_idx].zero_()
        elif isinstance(module, RMSNorm):
            nn.init.ones_(module.weight)
        elif isinstance(module, nn.ParameterList):
            for anchors in module:
                nn.init.normal_(anchors, 0.0, self.config.memory_embedding_std)

    def use_ops(self, name):
        """"auto": the kernels of pmnet where they apply. "composite": plain PyTorch, for torch.compile to fuse."""
        if name not in OPS:
            raise ValueError(f"there are no ops {name!r}; expected one of {', '.join(map(repr, OPS))}")
        self.base_model.ops_name = name
        return self


class PMNetModel(PMNetPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.ops_name = "auto"
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.embed_ngrams = NgramEmbedding(config)
        shapes = [(config.num_memory**h, config.num_memory, config.memory_size) for h in range(config.num_levels)]
        self.memory_embeddings = nn.ParameterList(
            [nn.Parameter(torch.randn(shape) * config.memory_embedding_std) for shape in shapes]
        )
        self.layers = nn.ModuleList([PMNetDecoderLayer(config, i) for i in range(config.num_hidden_layers)])
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.gradient_checkpointing = False
        self.post_init()

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        past_key_values=None,
        inputs_embeds=None,
        use_cache=None,
        output_hidden_states=None,
        return_dict=None,
        **kwargs,
    ):
        """Hidden states after the final norm.

        attention_mask [B,T] or [B,past+T] marks padding, on the left or on the right of a row: it neither writes nor
        counts, and positions do not include it. With `use_cache` the streaming state is returned, and advanced in place
        when it is given.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give exactly one of input_ids and inputs_embeds")
        if inputs_embeds is not None and len(self.embed_ngrams) > 0:
            raise ValueError("this model embeds n-grams, which it cannot see in inputs_embeds; give input_ids")
        # A cache that is given is advanced, whatever use_cache says.
        cache = past_key_values
        if cache is None and use_cache:
            cache = PMNetCache()
        if cache is not None and not isinstance(cache, PMNetCache):
            raise TypeError(f"past_key_values is a {type(cache).__name__}; expected a PMNetCache")

        x, turned, lengths = _to_the_left(input_ids if inputs_embeds is None else inputs_embeds, attention_mask)
        B, T = x.shape[:2]
        if inputs_embeds is None:
            x = self._embed(x, lengths, cache)
        positions = torch.zeros((B,), dtype=torch.long, device=x.device)
        if cache is not None and cache.positions is not None:
            if cache.positions.shape[0] != B:
                raise ValueError(f"the cache holds {cache.positions.shape[0]} rows and the input {B}")
            positions = cache.positions
        tokens = Tokens(positions, lengths)
        rope = rotary_table(
            positions if cache is not None else positions[:1], T, self.config.head_dim, self.config.rope_theta, x.dtype
        )
        group = torch.zeros((B, T), dtype=torch.long, device=x.device)
        if lengths is not None:
            group = group.masked_fill(torch.arange(T, device=x.device) >= lengths.unsqueeze(1), -1)
        memory = (None, None, None, group, None)
        states = []
        ops = OPS[self.ops_name]
        for layer in self.layers:
            states.append(x)
            anchors = self.memory_embeddings[layer.level] if self.config.pmnet_memory_modules else None
            arguments = (ops, x, memory, anchors, rope, tokens, cache)
            if self.gradient_checkpointing and self.training and cache is None:
                x, memory = checkpoint(layer, *arguments, use_reentrant=False)
            else:
                x, memory = layer(*arguments)
        if cache is not None:
            cache.positions = positions + (T if lengths is None else lengths)
            cache.columns += T
        x = self.norm(x, ops)
        if turned is not None:
            x = _gather_tokens(x, turned)
        return BaseModelOutputWithPast(
            last_hidden_state=x,
            past_key_values=cache if use_cache or past_key_values is not None else None,
            hidden_states=(*states, x) if output_hidden_states else None,
        )

    def _embed(self, ids, lengths, cache):
        x = self.embed_tokens(ids)
        if len(self.embed_ngrams) == 0:
            return x
        ngrams, latest = self.embed_ngrams(ids, None if cache is None else cache.recent, lengths)
        if cache is not None:
            cache.recent = latest
        return x + ngrams


def _gather_tokens(x, places):
    """x [B,T] or [B,T,d] in the order of places [B,T]."""
    return x.gather(1, places if x.dim() == 2 else places.unsqueeze(-1).expand_as(x))


def _to_the_left(x, attention_mask):
    """Rows with their padding moved to the right, where to find each token again, and lengths; None: no padding."""
    if attention_mask is None:
        return x, None, None
    B, T = x.shape[:2]
    if attention_mask.dim() != 2 or attention_mask.shape[0] != B or attention_mask.shape[1] < T:
        raise ValueError(f"attention_mask has shape {tuple(attention_mask.shape)}; expected [{B}, {T}]")
    mask = attention_mask[:, -T:].bool()
    if not torch.compiler.is_compiling():
        if bool(mask.all()):
            return x, None, None
        if bool((mask[:, 1:] & ~mask[:, :-1]).sum(1).add(mask[:, 0]).gt(1).any()):
            raise ValueError("attention_mask has padding between tokens; expected it at the ends of rows alone")
    lengths, step = mask.sum(1), torch.arange(T, device=x.device)
    front = mask.long().argmax(1).unsqueeze(1)
    places = (step + front) % T
    return _gather_tokens(x, places), (step - front) % T, lengths


class PMNetForCausalLM(PMNetPreTrainedModel, GenerationMixin):
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config):
        super().__init__(config)
        self.model = PMNetModel(config)
        self.vocab_size = config.vocab_size
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        past_key_values=None,
        inputs_embeds=None,
        labels=None,
        use_cache=None,
        output_hidden_states=None,
        return_dict=None,
        logits_to_keep=0,
        num_items_in_batch=None,
        **kwargs,
    ):
        """Logits, and the loss of `labels` [B,T]: label t is predicted from the tokens before it, -100 is not scored."""
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            output_hidden_states=output_hidden_states,
        )
        hidden = outputs.last_hidden_state
        keep = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(hidden[:, keep, :])
        loss = None
        if labels is not None:
            targets = labels[:, 1:].reshape(-1).to(hidden.device)
            ops = OPS[self.model.ops_name]
            nats = ops.cross_entropy(hidden[:, :-1].reshape(-1, hidden.shape[-1]), self.lm_head.weight, targets)
            loss = nats.sum() / ((targets >= 0).sum() if num_items_in_batch is None else num_items_in_batch)
        if return_dict is False:
            return tuple(x for x in (loss, logits, outputs.past_key_values, outputs.hidden_states) if x is not None)
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            hidden_states=outputs.hidden_states,
        )

    def generate(self, *args, **kwargs):
        """Like the program, writes bytes and EOS; the other ids of the vocabulary stand for nothing."""
        config = self.config
        written = set(range(256)) - {config.bos_token_id} | {config.eos_token_id}
        kwargs.setdefault("suppress_tokens", [i for i in range(config.vocab_size) if i not in written])
        return super().generate(*args, **kwargs)

    def _prepare_cache_for_generation(self, generation_config, model_kwargs, *args, **kwargs):
        if generation_config.use_cache is not False and model_kwargs.get("past_key_values") is None:
            model_kwargs["past_key_values"] = PMNetCache()

    def prepare_inputs_for_generation(self, input_ids, past_key_values=None, attention_mask=None, **kwargs):
        seen = 0 if past_key_values is None else past_key_values.get_seq_length()
        if seen >= input_ids.shape[1]:
            raise ValueError(f"the cache has read {seen} tokens; input_ids must hold these and at least one more")
        inputs = {"input_ids": input_ids[:, seen:], "attention_mask": attention_mask, "past_key_values": past_key_values}
        inputs["use_cache"] = past_key_values is not None
        if "logits_to_keep" in kwargs:
            inputs["logits_to_keep"] = kwargs["logits_to_keep"]
        return inputs


PMNetConfig.register_for_auto_class()
PMNetModel.register_for_auto_class("AutoModel")
PMNetForCausalLM.register_for_auto_class("AutoModelForCausalLM")

__all__ = ["PMNetCache", "PMNetForCausalLM", "PMNetModel", "PMNetPreTrainedModel"]
