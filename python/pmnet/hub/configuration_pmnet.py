"""The configuration of PMNet for Hugging Face transformers: the keys of the published config.json."""

from transformers import PretrainedConfig


class PMNetConfig(PretrainedConfig):
    """Shape of a model. The defaults are the paper's model of 30M parameters.

    `layer_types` says which layers slide; without it, layer i slides if `use_sliding_window` and
    i >= `max_window_layers`. `memory_cumsum=False` switches recurrence off, `pmnet_memory_modules=False` builds a model
    without memory. `max_ngram` above 1 embeds the last 2 to so many bytes as well, in tables of `ngram_rows` (a power of
    two); it is ours, not the paper's.
    """

    model_type = "PMNet"
    keys_to_ignore_at_inference = ["past_key_values"]

    def __init__(
        self,
        vocab_size=384,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=12,
        num_attention_heads=6,
        num_key_value_heads=None,
        head_dim=64,
        memory_size=256,
        num_memory=4,
        num_memory_read_heads=4,
        memory_write_period=3,
        hidden_act="silu",
        max_position_embeddings=40960,
        initializer_range=0.02,
        rms_norm_eps=1e-6,
        use_cache=True,
        tie_word_embeddings=True,
        rope_theta=1e6,
        rope_scaling=None,
        attention_bias=False,
        attention_dropout=0.0,
        use_sliding_window=True,
        sliding_window=128,
        max_window_layers=0,
        layer_types=None,
        memory_cumsum=True,
        pmnet_memory_modules=True,
        memory_embedding_std=0.02,
        residual_init=1.0,
        max_ngram=1,
        ngram_rows=16384,
        bos_token_id=254,
        eos_token_id=255,
        pad_token_id=None,
        **kwargs,
    ):
        theta = (kwargs.pop("rope_parameters", None) or {}).get("rope_theta", rope_theta)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_attention_heads if num_key_value_heads is None else num_key_value_heads
        self.head_dim = head_dim
        self.memory_size = memory_size
        self.num_memory = num_memory
        self.num_memory_read_heads = num_memory_read_heads
        self.memory_write_period = memory_write_period
        self.hidden_act = hidden_act
        self.max_position_embeddings = max_position_embeddings
        self.initializer_range = initializer_range
        self.rms_norm_eps = rms_norm_eps
        self.use_cache = use_cache
        self.attention_bias = attention_bias
        self.attention_dropout = attention_dropout
        self.use_sliding_window = use_sliding_window
        self.sliding_window = sliding_window if use_sliding_window else None
        self.max_window_layers = max_window_layers
        self.memory_cumsum = memory_cumsum
        self.pmnet_memory_modules = pmnet_memory_modules
        self.memory_embedding_std = memory_embedding_std
        self.residual_init = residual_init
        self.max_ngram = max_ngram
        self.ngram_rows = ngram_rows
        if layer_types is None:
            layer_types = [
                "sliding_attention" if use_sliding_window and i >= max_window_layers else "full_attention"
                for i in range(num_hidden_layers)
            ]
        self.layer_types = list(layer_types)
        super().__init__(
            bos_token_id=bos_token_id,
            eos_token_id=eos_token_id,
            pad_token_id=pad_token_id,
            tie_word_embeddings=tie_word_embeddings,
            **kwargs,
        )
        self.tie_word_embeddings = tie_word_embeddings
        self.rope_theta = theta  # after the base class, which in later versions moves it into a dictionary
        if rope_scaling is not None:
            raise ValueError("rope_scaling must be null: no scaling is implemented")
        self._check()

    def _check(self):
        if self.ngram_rows < 1 or self.ngram_rows & (self.ngram_rows - 1) != 0:
            raise ValueError(f"ngram_rows is {self.ngram_rows}, expected a power of two")
        if self.hidden_act != "silu":
            raise ValueError(f"hidden_act is {self.hidden_act!r}, expected 'silu'")
        if self.num_attention_heads % self.num_key_value_heads != 0:
            raise ValueError(
                f"num_attention_heads is {self.num_attention_heads}, expected a multiple of num_key_value_heads, "
                f"{self.num_key_value_heads}"
            )
        if len(self.layer_types) != self.num_hidden_layers:
            raise ValueError(f"layer_types has {len(self.layer_types)} entries, expected {self.num_hidden_layers}")
        for kind in self.layer_types:
            if kind not in ("sliding_attention", "full_attention"):
                raise ValueError(f"layer_types has {kind!r}, expected 'sliding_attention' or 'full_attention'")

    @property
    def num_levels(self):
        """Levels of the memory tree."""
        return -(-self.num_hidden_layers // self.memory_write_period) if self.pmnet_memory_modules else 0

    def window_of(self, layer):
        """Bytes that a layer's attention sees; 0: all."""
        return self.sliding_window if self.layer_types[layer] == "sliding_attention" else 0

    def to_diff_dict(self):
        """transformers leaves out what equals its own defaults; the program wants every size and switch."""
        keys = super().to_diff_dict()
        keys.pop("rope_parameters", None)
        for key in (
            "bos_token_id",
            "eos_token_id",
            "pad_token_id",
            "tie_word_embeddings",
            "rope_theta",
            "max_position_embeddings",
        ):
            keys[key] = getattr(self, key)
        keys["rope_scaling"] = None
        if self.pmnet_memory_modules:
            keys.pop("pmnet_memory_modules", None)
        if self.memory_embedding_std == 0.02:
            keys.pop("memory_embedding_std", None)
        if self.residual_init == 1:
            keys.pop("residual_init", None)
        if self.max_ngram == 1:
            keys.pop("max_ngram", None)
        if self.ngram_rows == 16384:
            keys.pop("ngram_rows", None)
        return keys


__all__ = ["PMNetConfig"]
