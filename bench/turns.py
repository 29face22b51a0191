"""Times the program, the Python package and its rivals in turns, and prints a table of medians.

    python bench/turns.py --program ./pmnet --preset 30m --what train \
        --peers PYTHON --authors FOLDER             # what is not given is left out

Run it with the Python that has the package. --peers names one with torch, transformers 4.57 and einops: Hugging Face's
Llama and Mamba-2 then have about as many parameters as the preset. --authors is a clone of the authors' repository.
Each round runs every candidate once, in a separate process.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent

# The size of Hugging Face's Mamba-2 for the parameters of a preset: layers and width.
MAMBA2 = {"30m": (14, 576), "119m": (18, 1024)}


def mamba2_config(preset: str) -> dict:
    layers, width = MAMBA2[preset]
    return {
        "model_type": "mamba2",
        "architectures": ["Mamba2ForCausalLM"],
        "vocab_size": 384,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "state_size": 128,
        "expand": 2,
        "head_dim": 64,
        "num_heads": 2 * width // 64,
        "n_groups": 1,
        "chunk_size": 64,  # what its plain PyTorch form needs memory for
        "tie_word_embeddings": True,
        "bos_token_id": 254,
        "eos_token_id": 255,
        "pad_token_id": 0,
    }


def candidates(args: argparse.Namespace, folder: pathlib.Path) -> dict[str, list[str]]:
    """label -> command that prints one line of JSON."""
    case = ["--what", args.what, "--context", str(args.context), "--seconds", str(args.seconds)]
    threads = ["--threads", str(args.threads)]
    package = [sys.executable, str(HERE / "package.py"), "--preset", args.preset, *case, *threads]
    found = {
        "the program": [args.program, *threads, "bench-case", "--preset", args.preset, *case],
        "Python, kernels" if args.what == "train" else "Python, Session": package,
    }
    if args.what == "decode":
        found["Python, PMNetForCausalLM.generate"] = [*package, "--hf"]
    if args.composite:
        found["Python, plain PyTorch"] = [*package, "--ops", "composite", "--default-allocator"]
        found["Python, plain PyTorch, compiled"] = [*package, "--ops", "composite", "--default-allocator", "--compile"]
    if args.peers:
        peers = [args.peers, str(HERE / "peers.py"), *case, *threads, "--config"]
        if args.authors:
            own = folder / "authors"
            new_model(args, own, "pmnet")
            write_authors_code(pathlib.Path(args.authors), own)
            found["the authors' code"] = [*peers, str(own)]
        new_model(args, folder / "llama", "transformer")
        (folder / "mamba2").mkdir()
        (folder / "mamba2" / "config.json").write_text(json.dumps(mamba2_config(args.preset)))
        found["Hugging Face Llama"] = [*peers, str(folder / "llama")]
        found["Hugging Face Mamba-2"] = [*peers, str(folder / "mamba2")]
    return {label: command for label, command in found.items() if not any(part in label for part in args.skip)}


def new_model(args: argparse.Namespace, folder: pathlib.Path, architecture: str) -> None:
    command = [args.program, "new", args.preset, "--arch", architecture, "--out", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def write_authors_code(source: pathlib.Path, target: pathlib.Path) -> None:
    """Puts the authors' files, and the `auto_map` that names them, into a folder of ours."""
    for file in target.glob("*.py"):
        file.unlink()
    for file in source.glob("*_pmnet.py"):
        shutil.copy(file, target)
    config = json.loads((target / "config.json").read_text())
    config["auto_map"] = json.loads((source / "config.json").read_text())["auto_map"]
    (target / "config.json").write_text(json.dumps(config))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="./pmnet")
    parser.add_argument("--preset", choices=sorted(MAMBA2), default="30m")
    parser.add_argument("--what", choices=["train", "decode"], default="train")
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpu-time", action="store_true", help="rates per CPU second: for a machine with other work")
    parser.add_argument("--composite", action="store_true", help="also plain PyTorch, eager and compiled")
    parser.add_argument("--peers", metavar="PYTHON")
    parser.add_argument("--authors", metavar="FOLDER")
    parser.add_argument("--skip", action="append", default=[], metavar="TEXT", help="leave out labels with this text")
    parser.add_argument("--record", metavar="FILE", help="keep the rounds here; those of earlier calls count too")
    args = parser.parse_args()

    rounds: dict[str, list[dict]] = {}
    if args.record and pathlib.Path(args.record).exists():
        rounds = json.loads(pathlib.Path(args.record).read_text())
    with tempfile.TemporaryDirectory() as folder:
        commands = candidates(args, pathlib.Path(folder))
        for _ in range(args.rounds):
            for label, command in commands.items():
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode == 0:
                    rounds.setdefault(label, []).append(json.loads(done.stdout.splitlines()[-1]))
                else:
                    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                    print(f"{label}: exit code {done.returncode}: {last}", file=sys.stderr)
                if args.record:
                    pathlib.Path(args.record).write_text(json.dumps(rounds))
    print_table(rounds, "bytes_per_cpu_second" if args.cpu_time else "bytes_per_second")


def print_table(rounds: dict[str, list[dict]], unit: str) -> None:
    def rates(label: str) -> list[float]:
        return [one[unit] for one in rounds.get(label, [])]

    what = "bytes/s" if unit == "bytes_per_second" else "bytes per CPU second"
    print(f"| | {what} | range | of the program's rate | peak memory | rounds |\n|---|---|---|---|---|---|")
    program = rates("the program")
    for label, found in rounds.items():
        rate = rates(label)
        share = statistics.median(rate) / statistics.median(program) if program else float("nan")
        peak = max(one["peak_bytes"] for one in found) / 1e9
        print(
            f"| {label} | {statistics.median(rate):,.1f} | {min(rate):,.1f} – {max(rate):,.1f} | {share:.2f} | "
            f"{peak:.2f} GB | {len(rate)} |"
        )


if __name__ == "__main__":
    main()
