"""The layers of PMNet. Eq. numbers are those of the paper; letters: B batch, T time, d width, N slots, M phases, R read
heads, G groups of a level. `ops` are the operations to use: those of the package `pmnet`, or composite_pmnet.
"""

import math

import torch
from torch import nn

from .composite_pmnet import composite


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x, ops=composite):
        return ops.rms_norm(x, self.weight, self.eps)


def project(ops, x, norm, layers):
    """What linear layers make of one normed input; layers that were replaced (LoRA and its like) are called."""
    if all(type(layer) is nn.Linear for layer in layers):
        biases = [layer.bias for layer in layers if layer.bias is not None]
        return ops.rms_norm_linear(x, norm.weight, norm.eps, [layer.weight for layer in layers], biases)
    y = norm(x, ops)
    return [layer(y) for layer in layers]


def weights_of(layer, name):
    if type(layer) is not nn.Linear:
        raise TypeError(f"{name} must stay an nn.Linear, its weights are used directly; leave it out of target_modules")
    return layer.weight, layer.bias


class NgramTable(nn.Embedding):
    """Rows for the hashes of n bytes. A new one says nothing."""


class NgramEmbedding(nn.ModuleDict):
    """Hash n-gram embeddings (ours, not the paper's): one row for the last 2, 3, ... bytes each."""

    MULTIPLIER, FOLD, SHIFT = 0x9E3779B97F4A7C15 - (1 << 64), 32, 40

    def __init__(self, config):
        sizes = range(2, config.max_ngram + 1)
        super().__init__({str(n): NgramTable(config.ngram_rows, config.hidden_size) for n in sizes})

    def forward(self, ids, recent, lengths):
        """The sum of the rows of ids [B,T], and the codes, 1 + id, that the next tokens need; those before ids are
        `recent` [B,n-1] (None: start of text).
        """
        (B, T), kept = ids.shape, len(self)
        codes = torch.cat((ids.new_zeros((B, kept)) if recent is None else recent, ids + 1), 1)
        end = ids.new_full((B,), T) if lengths is None else lengths
        latest = codes.gather(1, end.unsqueeze(1) + torch.arange(kept, device=ids.device))
        total, hashed = 0, codes[:, kept:]
        for i, table in enumerate(self.values()):  # int64 wraps around, and its shifts keep the sign
            hashed = hashed * self.MULTIPLIER + codes[:, kept - 1 - i : kept - 1 - i + T]
            mixed = (hashed ^ (hashed >> self.FOLD & 0xFFFFFFFF)) * self.MULTIPLIER
            total = total + table(mixed >> self.SHIFT & (table.num_embeddings - 1))
        return total, latest


class PMNetMLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        d, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(d, inner, bias=False)
        self.up_proj = nn.Linear(d, inner, bias=False)
        self.down_proj = nn.Linear(inner, d, bias=False)

    def forward(self, ops, x, norm):
        gate, up = project(ops, x, norm, [self.gate_proj, self.up_proj])
        if type(self.down_proj) is nn.Linear:
            return ops.swiglu_linear(gate, up, self.down_proj.weight, self.down_proj.bias)
        return self.down_proj(ops.swiglu(gate, up))


class PMNetAttention(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        d, bias = config.hidden_size, config.attention_bias
        self.layer, self.head_dim, self.window = layer, config.head_dim, config.window_of(layer)
        self.dropout, self.eps = config.attention_dropout, config.rms_norm_eps
        self.q_proj = nn.Linear(d, config.num_attention_heads * self.head_dim, bias=bias)
        self.k_proj = nn.Linear(d, config.num_key_value_heads * self.head_dim, bias=bias)
        self.v_proj = nn.Linear(d, config.num_key_value_heads * self.head_dim, bias=bias)
        self.o_proj = nn.Linear(config.num_attention_heads * self.head_dim, d, bias=bias)
        self.q_norm = RMSNorm(self.head_dim, self.eps)
        self.k_norm = RMSNorm(self.head_dim, self.eps)

    def forward(self, ops, x, norm, rope, tokens, cache):
        B, T, _ = x.shape
        q, k, v = (
            y.view(B, T, -1, self.head_dim) for y in project(ops, x, norm, [self.q_proj, self.k_proj, self.v_proj])
        )
        q = ops.rotary(q, self.q_norm.weight, rope[0], rope[1], self.eps)
        k = ops.rotary(k, self.k_norm.weight, rope[0], rope[1], self.eps)
        first_key = None
        if cache is not None:
            if len(cache.keys) > self.layer:
                kept = cache.keys[self.layer].shape[1]
                first_key = (kept - tokens.positions).clamp_min(0)  # a young row has fewer keys than places
                k, v = (torch.cat((c[self.layer].to(y.dtype), y), 1) for c, y in ((cache.keys, k), (cache.values, v)))
            for c, y in ((cache.keys, k), (cache.values, v)):
                tokens.store(c, self.layer, self._latest(y, tokens, k.shape[1] - T).detach())
        dropout = self.dropout if self.training else 0.0
        row_keys = torch.randint(-(2**62), 2**62, (B,), device=x.device) if dropout > 0 else None
        scale = 1.0 / math.sqrt(self.head_dim)
        y = ops.window_attention(
            q, k, v, first_key, self.window, scale, dropout, row_keys, tokens.positions if dropout > 0 else None
        )
        return self.o_proj(y.flatten(2))

    def _latest(self, x, tokens, kept):
        """The tokens that the next one may see."""
        keep = min(self.window - 1, x.shape[1]) if self.window > 0 else x.shape[1]
        if tokens.lengths is None:
            return x[:, x.shape[1] - keep :]
        places = kept + tokens.lengths.unsqueeze(1) - keep + torch.arange(keep, device=x.device)
        return x.gather(1, places.clamp_min(0)[:, :, None, None].expand(-1, -1, *x.shape[2:]))


class MemoryWrite(nn.Module):
    """One level down the tree: routes every token and adds its write to the memory of its group."""

    def __init__(self, config):
        super().__init__()
        d, M = config.hidden_size, config.memory_size
        self.recurrence = config.memory_cumsum
        self.norm = RMSNorm(d, config.rms_norm_eps)
        self.proj_q = nn.Linear(d, M)
        self.proj_k = nn.Linear(2 * M, M)
        self.proj_v = nn.Linear(d, M)
        self.proj_out = nn.Linear(M, M)

    def forward(self, ops, x, path, group, anchors, initial):
        """path: turns and angle [B,T,N,M] of the levels above. Returns those of this level, next group and memory."""
        B, T, _ = x.shape
        query, value = project(ops, x, self.norm, [self.proj_q, self.proj_v])
        turns, angle = path
        # Above the root there is no path: all tokens share the keys, which tie exactly where anchors are equal.
        where = group if turns is not None or angle is not None else group.new_zeros((1, 1))
        features = ops.circle_features(turns, angle, anchors, where)  # Eq. 2
        w_k, b_k = weights_of(self.proj_k, "memory_write_module.proj_k")
        a = ops.phase_attention(query, features, w_k, b_k, 1).squeeze(2)  # Eq. 1-3
        m = math.pi * self.proj_out(value).tanh()  # Eq. 5
        next_group = torch.where(group >= 0, group * a.shape[-1] + a.detach().argmax(-1), group)  # Eq. 4
        G = anchors.shape[0]
        if not self.recurrence:  # every token is a sequence of its own, and nothing is kept
            alone = [None if p is None else p.reshape(B * T, 1, *p.shape[2:]) for p in (turns, angle)]
            out = ops.segmented_scan(
                a.reshape(B * T, 1, -1), m.reshape(B * T, 1, -1), group.reshape(-1, 1).clamp_max(0), 1, *alone
            )
            return [y.view(B, T, *y.shape[2:]) if y.numel() else None for y in out[:2]], next_group, None
        scale = None
        if self.training:  # Eq. 9: 1/sqrt(writes to the group), on the gradient alone
            counts = torch.zeros((B, G), dtype=torch.float32, device=x.device)
            scale = counts.scatter_add(1, group.clamp_min(0), (group >= 0).float()).clamp_min(1).rsqrt()
        out = ops.segmented_scan(a, m, group, G, turns, angle, initial, None, scale)  # Eq. 6
        # Without gradients the kernels give turns alone, in float64 the values are angles.
        path = [out[0] if x.dtype != torch.float64 else None, out[1] if out[1].numel() or x.numel() == 0 else None]
        return path, next_group, out[2]


class MemoryRead(nn.Module):
    def __init__(self, config):
        super().__init__()
        d, width = config.hidden_size, config.num_memory_read_heads * config.memory_size
        self.heads = config.num_memory_read_heads
        self.norm = RMSNorm(d, config.rms_norm_eps)
        self.proj_q = nn.Linear(d, width)
        self.proj_kv = nn.Linear(2 * config.memory_size, 2 * width)  # the rows of the keys, then those of the values
        self.proj_out = nn.Linear(width, d)

    def forward(self, ops, x, features):
        weight, bias = weights_of(self.proj_kv, "memory_read_module.proj_kv")
        (w_k, w_v), (b_k, b_v) = weight.chunk(2), bias.chunk(2)
        (query,) = project(ops, x, self.norm, [self.proj_q])
        a = ops.phase_attention(query, features, w_k, b_k, self.heads)  # Eq. 7
        return self.proj_out(ops.phase_values(a, features, w_v, b_v))  # Eq. 8


class PMNetDecoderLayer(nn.Module):
    def __init__(self, config, layer):
        super().__init__()
        self.layer, self.level = layer, layer // config.memory_write_period
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = PMNetAttention(config, layer)
        self.mlp = PMNetMLP(config)
        self.writes = config.pmnet_memory_modules and layer % config.memory_write_period == 0
        if config.pmnet_memory_modules:
            self.memory_read_module = MemoryRead(config)
        if self.writes:
            self.memory_write_module = MemoryWrite(config)
        added = [self.self_attn.o_proj, self.mlp.down_proj]  # what they give is added to the residual stream
        if config.pmnet_memory_modules:
            added.append(self.memory_read_module.proj_out)
        for projection in added:
            projection.init_scale = config.residual_init

    def forward(self, ops, x, memory, anchors, rope, tokens, cache):
        """memory: turns, angle, group, next group and features of the level, handed from layer to layer."""
        x = x + self.self_attn(ops, x, self.input_layernorm, rope, tokens, cache)
        if self.writes:
            turns, angle, _, group, _ = memory
            initial = cache.turns[self.level] if cache is not None and len(cache.turns) > self.level else None
            path, next_group, state = self.memory_write_module(ops, x, (turns, angle), group, anchors, initial)
            if cache is not None and state is not None:
                tokens.store(cache.turns, self.level, state)
            memory = (*path, group, next_group, ops.circle_features(*path, anchors, group))
        if memory[4] is not None:
            x = x + self.memory_read_module(ops, x, memory[4])
        return x + self.mlp(ops, x, self.post_attention_layernorm), memory


class Tokens:
    """Where the tokens of one pass stand: rows without padding, or padded on the right."""

    def __init__(self, positions, lengths):
        self.positions, self.lengths = positions, lengths  # int64 [B]; lengths None: no padding

    @staticmethod
    def store(parts, index, value):
        if index == len(parts):
            parts.append(value)
        else:
            parts[index] = value


def rotary_table(positions, num_tokens, width, theta, dtype):
    """cos and sin [B,T,width/2], formed in double: position * frequency has no digits to lose."""
    step = torch.arange(num_tokens, dtype=torch.float64, device=positions.device)
    exponent = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device) * (-1.0 / width)
    angle = (positions.double().unsqueeze(1) + step).unsqueeze(-1) * torch.pow(theta, exponent)
    return angle.cos().to(dtype), angle.sin().to(dtype)
