"""Times the Python package; prints the JSON that `pmnet bench --against` reads.

    pmnet bench --preset 30m --skip transformer,mamba --against 'Python=python bench/package.py --preset 30m'

--what train is one training step (forward and backward) of PMNetForCausalLM: --ops auto uses the kernels, --ops
composite plain PyTorch, --compile torch.compile. --what decode writes bytes with pmnet.Session.
"""

import argparse
import json
import resource
import statistics
import time

import torch

import pmnet


def train_step(args):
    """A function that makes one step, and how many bytes it reads."""
    config = pmnet.PMNetConfig(**{k: v for k, v in pmnet.create(args.preset).config.items() if k != "model_type"})
    model = pmnet.PMNetForCausalLM(config).use_ops(args.ops).train()
    run = torch.compile(model, fullgraph=True) if args.compile else model
    ids = torch.randint(0, 254, (args.batch, args.context))

    def step():
        model.zero_grad(set_to_none=True)
        run(input_ids=ids, labels=ids).loss.backward()

    return step, ids.numel()


def decode_step(args):
    session = pmnet.Session(pmnet.create(args.preset, seed=1))
    session.feed(bytes(range(97, 123)) * (args.context // 26 + 1))
    count = 32
    return lambda: sum(len(piece) for piece in session.generate(max_bytes=count, temperature=0.0)), count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--preset", default="30m")
    parser.add_argument("--what", choices=["train", "decode"], default="train")
    parser.add_argument("--ops", choices=["auto", "composite"], default="auto")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--default-allocator", action="store_true", help="do not reuse the memory of tensors")
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0)
    args = parser.parse_args()

    if not args.default_allocator:
        pmnet.reuse_tensor_memory()  # as the program does
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    step, size = (train_step if args.what == "train" else decode_step)(args)
    step()  # warm-up
    rates, cpu_rates = [], []
    start = time.perf_counter()
    while not rates or time.perf_counter() - start < args.seconds:
        begin, cpu = time.perf_counter(), time.process_time()
        step()
        rates.append(size / (time.perf_counter() - begin))
        cpu_rates.append(size / (time.process_time() - cpu))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        json.dumps(
            {
                "bytes_per_second": statistics.median(rates),
                "peak_bytes": peak,
                "bytes_per_cpu_second": statistics.median(cpu_rates),  # says more where other programs run beside it
                "steps": len(rates),
            }
        )
    )


if __name__ == "__main__":
    main()
