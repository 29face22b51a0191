"""Times one training step (forward and backward) of a Hugging Face model; prints the JSON `pmnet bench` reads.

Run by `pmnet bench --peers` in its own virtual environment, with the config.json of our baseline of the same size.
"""

import argparse
import json
import resource
import statistics
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM


def stay_within_free_memory() -> None:
    """An allocation that the machine cannot serve becomes an error here, instead of ending other programs."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    resource.setrlimit(resource.RLIMIT_DATA, (free, free))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--iterations", type=int, default=1)
    args = parser.parse_args()

    stay_within_free_memory()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    config = AutoConfig.from_pretrained(args.config)
    if hasattr(config, "attention_dropout"):
        config.attention_dropout = 0.0  # with dropout PyTorch has no fast attention on CPUs
    model = AutoModelForCausalLM.from_config(config).train()
    ids = torch.randint(0, 254, (args.batch, args.context))

    def step() -> None:
        model.zero_grad(set_to_none=True)
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()

    step()  # warm-up
    rates = []
    start = time.perf_counter()
    while len(rates) < args.iterations or time.perf_counter() - start < args.seconds:
        begin = time.perf_counter()
        step()
        rates.append(ids.numel() / (time.perf_counter() - begin))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"bytes_per_second": statistics.median(rates), "peak_bytes": peak}))


if __name__ == "__main__":
    main()
