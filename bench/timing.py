"""What the scripts of this folder share: options, the clock, and the line of JSON that `pmnet bench --against` reads."""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable

import torch


def add_options(parser: argparse.ArgumentParser, context: int = 2048) -> None:
    parser.add_argument("--what", choices=["train", "decode"], default="train")
    parser.add_argument("--context", type=int, default=context, help="bytes per sequence, or read before decoding")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="measure at least this long")
    parser.add_argument("--iterations", type=int, default=1, help="and at least this often, after one warm-up")


def report(args: argparse.Namespace, step: Callable[[], tuple[int, float, float]]) -> None:
    """Repeats `step`, which gives bytes, seconds and CPU seconds, and prints the medians of the rates."""
    step()  # warm-up
    rates, cpu_rates = [], []
    start = time.perf_counter()
    while len(rates) < args.iterations or time.perf_counter() - start < args.seconds:
        size, seconds, cpu_seconds = step()
        rates.append(size / seconds)
        cpu_rates.append(size / cpu_seconds)
    print(
        json.dumps(
            {
                "bytes_per_second": statistics.median(rates),
                "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "bytes_per_cpu_second": statistics.median(cpu_rates),  # says more where other programs run beside it
            }
        )
    )


def timed(work: Callable[[], int]) -> Callable[[], tuple[int, float, float]]:
    """A step for `report` from work that gives the number of bytes it handled."""

    def step() -> tuple[int, float, float]:
        begin, cpu = time.perf_counter(), time.process_time()
        size = work()
        return size, time.perf_counter() - begin, time.process_time() - cpu

    return step


def generation(model, ids, count: int, **settings) -> Callable[[], tuple[int, float, float]]:
    """A step that decodes with `generate` of transformers; its clock starts at the first new byte, after the prefill."""

    class Stamps:
        def __init__(self) -> None:
            self.walls: list[float] = []
            self.cpus: list[float] = []

        def put(self, _value) -> None:
            self.walls.append(time.perf_counter())
            self.cpus.append(time.process_time())

        def end(self) -> None:
            pass

    def step() -> tuple[int, float, float]:
        stamps = Stamps()  # put: once with the prompt, then with every new byte
        more = {name: make() for name, make in settings.items()}
        model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=count + 1,
            min_new_tokens=count + 1,
            do_sample=False,
            pad_token_id=0,
            streamer=stamps,
            **more,
        )
        assert len(stamps.walls) == count + 2
        return count, stamps.walls[-1] - stamps.walls[1], stamps.cpus[-1] - stamps.cpus[1]

    return step
