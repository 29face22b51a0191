"""Times the Python package; prints the JSON that `pmnet bench --against` reads. bench/turns.py makes tables with it.

    pmnet bench --preset 30m --skip transformer,mamba --against 'Python=python bench/package.py --preset 30m'

--what train is one training step (forward and backward) of PMNetForCausalLM: --ops auto uses the kernels, --ops
composite plain PyTorch, --compile torch.compile. --what decode writes bytes with pmnet.Session, or, with --hf, with
PMNetForCausalLM.generate.
"""

import argparse

import timing
import torch

import pmnet


def network(args):
    config = pmnet.PMNetConfig(**{k: v for k, v in pmnet.create(args.preset).config.items() if k != "model_type"})
    return pmnet.PMNetForCausalLM(config).use_ops(args.ops)


def train_step(args):
    model = network(args).train()
    run = torch.compile(model, fullgraph=True) if args.compile else model
    ids = torch.randint(0, 254, (args.batch, args.context))

    def work():
        model.zero_grad(set_to_none=True)
        run(input_ids=ids, labels=ids).loss.backward()
        return ids.numel()

    return timing.timed(work)


def decode_step(args, count=16):
    if args.hf:
        return timing.generation(network(args).eval(), torch.randint(0, 254, (args.batch, args.context)), count)
    session = pmnet.Session(pmnet.create(args.preset, seed=1))
    session.feed(torch.randint(0, 254, (1, args.context)))
    # Random weights seldom write EOS, which would end the text; what was written is what counts.
    return timing.timed(lambda: sum(len(piece) for piece in session.generate(max_bytes=count, temperature=0.0)))


def main():
    parser = argparse.ArgumentParser()
    timing.add_options(parser)
    parser.add_argument("--preset", default="30m")
    parser.add_argument("--ops", choices=["auto", "composite"], default="auto")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--hf", action="store_true", help="decode with PMNetForCausalLM instead of pmnet.Session")
    parser.add_argument("--default-allocator", action="store_true", help="do not reuse the memory of tensors")
    args = parser.parse_args()

    if not args.default_allocator:
        pmnet.reuse_tensor_memory()  # as the program does
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    timing.report(args, train_step(args) if args.what == "train" else decode_step(args))


if __name__ == "__main__":
    main()
