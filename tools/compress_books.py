#!/usr/bin/env python3
"""Bits per byte that general compressors need for each text alone, beside those of `pmnet eval --json`.

Usage: compress_books.py [--eval eval.json] TEXT[.gz]...
Prints a Markdown table, one row per text and the mean over bytes. With --eval, the texts must be those that were
evaluated, and only as many bytes of each are compressed as were read. xz and 7z (for PPMd) must be installed.
"""
import argparse
import gzip
import json
import lzma
import pathlib
import subprocess
import sys
import tempfile


def read_text(path):
    data = pathlib.Path(path).read_bytes()
    return gzip.decompress(data) if path.endswith(".gz") else data


def xz_bytes(data):
    return len(lzma.compress(data, preset=9))


def ppmd_bytes(data):
    """Size of a PPMd stream of order 16 in a 7z archive, headers included (about 130 bytes)."""
    with tempfile.TemporaryDirectory() as folder:
        archive = pathlib.Path(folder) / "text.7z"
        subprocess.run(["7z", "a", "-m0=PPMd:o=16:mem=256m", "-si", str(archive)], input=data, check=True,
                       stdout=subprocess.DEVNULL)
        return archive.stat().st_size


def evaluated(path):
    """({text: (bytes read, bits per byte of each model)}, labels of the models) of the JSON of `pmnet eval`."""
    models = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["models"]
    rows = zip(*(model["documents"] for model in models))
    documents = {pathlib.Path(row[0]["name"]).name: (row[0]["bytes"], [d["bits"] / d["bytes"] for d in row]) for row in rows}
    return documents, [model["label"] for model in models]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eval", help="JSON file written by pmnet eval")
    parser.add_argument("texts", nargs="+")
    options = parser.parse_args()
    documents, labels = evaluated(options.eval) if options.eval else ({}, [])
    print("| text | bytes |", " | ".join([*labels, "xz -9", "PPMd"]), "|")
    print("|---|---|" + "---|" * (len(labels) + 2))
    totals = [0.0] * (len(labels) + 2)
    total_bytes = 0
    for path in options.texts:
        name = pathlib.Path(path).name
        data = read_text(path)
        document = documents.get(name)
        if options.eval and document is None:
            sys.exit(f"{options.eval} has no document {name}; evaluate the same texts")
        bits = []
        if document:
            data, bits = data[:document[0]], list(document[1])
        bits += [8 * size / len(data) for size in (xz_bytes(data), ppmd_bytes(data))]
        print(f"| {name.removesuffix('.gz').removesuffix('.txt')} | {len(data):,} |",
              " | ".join(f"{b:.3f}" for b in bits), "|")
        total_bytes += len(data)
        totals = [total + b * len(data) for total, b in zip(totals, bits)]
    print(f"| **all, by bytes** | {total_bytes:,} |", " | ".join(f"**{t / total_bytes:.3f}**" for t in totals), "|")


if __name__ == "__main__":
    main()
