"""Arguments for every operation, with gradients where it has any."""

import torch

B, T, N, M, R, G, D, A, HEAD = 2, 7, 4, 6, 2, 4, 8, 3, 4


def random(*shape):
    return torch.randn(*shape, requires_grad=True)


def cases():
    """name -> arguments."""
    from pmnet import ops

    generator = torch.Generator().manual_seed(3)
    group = torch.randint(-1, G, (B, T), generator=generator)
    path = torch.randint(-(2**31), 2**31 - 1, (B, T, N, M), dtype=torch.int32, generator=generator)
    state = torch.randint(-(2**62), 2**62, (B, G, N, M), generator=generator)
    cos, sin = torch.randn(1, T, HEAD // 2), torch.randn(1, T, HEAD // 2)
    first_key, row_keys, positions = torch.tensor([0, 1]), torch.tensor([5, -6]), torch.tensor([9, 3])
    positive = torch.rand(B, T, D).requires_grad_()
    return {
        "rms_norm": (random(2, 3, D), random(D), 1e-6),
        "rms_norm_linear": (random(B, T, D), random(D), 1e-6, [random(5, D), random(3, D)], [random(5), random(3)]),
        "rotary": (random(B, T, A, HEAD), random(HEAD), cos, sin, 1e-6),
        "window_attention": (
            random(B, T, A, HEAD),
            random(B, T + 2, 1, HEAD),
            random(B, T + 2, 1, HEAD),
            first_key,
            3,
            0.5,
            0.25,
            row_keys,
            positions,
        ),
        "swiglu": (random(B, T, D), random(B, T, D)),
        "swiglu_linear": (random(B, T, D), random(B, T, D), random(3, D), random(3)),
        "circle_features": (path, ops.to_angle(path).requires_grad_(), random(G, N, M), group, False),
        "phase_attention": (random(B, T, R * M), random(B, T, N, 2 * M), random(R * M, 2 * M), random(R * M), R),
        "phase_values": (
            torch.rand(B, T, R, N).softmax(-1).requires_grad_(),
            random(B, T, N, 2 * M),
            random(R * M, 2 * M),
            random(R * M),
        ),
        "segmented_scan": (
            torch.rand(B, T, N, requires_grad=True),
            random(B, T, M),
            group,
            G,
            path,
            ops.to_angle(path).requires_grad_(),
            state,
            ops.to_angle(state).requires_grad_(),
            torch.rand(B, G),
            False,
        ),
        "cross_entropy": (random(5, D), random(9, D), torch.tensor([1, 2, -1, 4, 8])),
        "causal_conv": (random(B, T, D), random(D, 3), random(D), random(B, D, 2)),
        "selective_scan": (
            random(B, T, D),
            positive,
            (-torch.rand(D, 3)).requires_grad_(),
            random(B, T, 3),
            random(B, T, 3),
            random(D),
            random(B, T, D),
            random(B, D, 3),
        ),
    }


def flat(outputs):
    return [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)


def leaves(arguments):
    tensors = [y for x in arguments for y in (x if isinstance(x, list) else [x])]
    return [x for x in tensors if isinstance(x, torch.Tensor) and x.requires_grad]
