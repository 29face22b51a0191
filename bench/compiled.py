"""Times the plain PyTorch form of PMNet, eager and compiled in turns within one process, in CPU time on one thread.

    python bench/compiled.py --preset 5m --what train       # a training step; --what forward: a pass with its loss

Run it with the Python that has the package. Compilation takes minutes.
"""

import argparse
import statistics

import timing
import torch
from package import network


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--preset", default="5m")
    parser.add_argument("--what", choices=["train", "forward"], default="train")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=8)
    args = parser.parse_args()
    args.ops = "composite"

    torch.set_num_threads(1)
    torch.manual_seed(1)
    training = args.what == "train"
    torch.set_grad_enabled(training)
    model = network(args).train(training)
    forms = {"eager": model, "compiled": torch.compile(model, fullgraph=True)}
    ids = torch.randint(0, 254, (args.batch, args.context))

    def work(run):
        model.zero_grad(set_to_none=True)
        loss = run(input_ids=ids, labels=ids).loss
        if training:
            loss.backward()
        return ids.numel()

    def rate(run):
        size, _, cpu_seconds = timing.timed(lambda: work(run))()
        return size / cpu_seconds

    for run in forms.values():  # compilation and warm-up
        work(run)
        work(run)
    rounds = [{name: rate(run) for name, run in forms.items()} for _ in range(args.rounds)]
    for name in forms:
        print(f"{name}: {statistics.median(r[name] for r in rounds):,.1f} bytes per CPU second")
    ratios = [r["compiled"] / r["eager"] for r in rounds]
    print(f"ratio: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
