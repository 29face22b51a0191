"""Times a model of Hugging Face transformers; prints the JSON `pmnet bench` reads.

Run by `pmnet bench --peers`, in its own virtual environment, with the config.json of our baseline of the same size, and
by bench/turns.py. --what train is one training step (forward and backward), --what decode writes bytes with `generate`.
--config may be a folder that brings its own code (`auto_map`), such as a clone of the authors' repository.
"""

import argparse
import resource
import sys

import timing
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging


def stay_within_free_memory() -> None:
    """An allocation that the machine cannot serve becomes an error here, instead of ending other programs."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    resource.setrlimit(resource.RLIMIT_DATA, (free, free))


def train_step(args, model):
    ids = torch.randint(0, 254, (args.batch, args.context))

    def work():
        model.zero_grad(set_to_none=True)
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        return ids.numel()

    return timing.timed(work)


def decode_step(args, model, count=16):
    own_cache = getattr(sys.modules[type(model).__module__], "PMNetCache", None)  # the authors' model wants its own
    settings = {"past_key_values": lambda: own_cache(config=model.config)} if own_cache else {}
    return timing.generation(model, torch.randint(0, 254, (args.batch, args.context)), count, **settings)


def main() -> None:
    parser = argparse.ArgumentParser()
    timing.add_options(parser)
    parser.add_argument("--config", required=True, help="config.json, or a folder with one")
    args = parser.parse_args()

    logging.set_verbosity_error()
    stay_within_free_memory()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    config = AutoConfig.from_pretrained(args.config, trust_remote_code=True)
    if hasattr(config, "attention_dropout"):
        config.attention_dropout = 0.0  # with dropout PyTorch has no fast attention on CPUs
    model = AutoModelForCausalLM.from_config(config, trust_remote_code=True)
    timing.report(args, train_step(args, model.train()) if args.what == "train" else decode_step(args, model.eval()))


if __name__ == "__main__":
    main()
