#!/usr/bin/env python3
"""Where two models differ: their bits per byte by the place of a byte in its word, and by how far back the text last
had the six bytes before it.

  PYTHONPATH=build/release/python tools/compare_bytes.py MODEL OTHER --limit 32000 TEXT[.gz]...

Prints a Markdown table. Needs the Python package and numpy.
"""
import argparse

import numpy as np

import pmnet
from compress_books import read_text

CONTEXT = 6  # bytes that count as the same place in a text
WORD_PLACES = {"no letter": (0, 0), "1st letter of a word": (1, 1), "2nd": (2, 2), "3rd": (3, 3), "4th and 5th": (4, 5),
               "6th and later": (6, None)}
DISTANCES = {"never": (0, 0), "within 378 bytes": (1, 378), "379 to 2,048": (379, 2048), "further": (2049, None)}


def places_in_words(data):
    """1 for the first letter of a word, 2 for the second, ...; 0 for other bytes."""
    places = np.zeros(len(data), int)
    for i, byte in enumerate(data):
        if chr(byte).isascii() and chr(byte).isalpha():
            places[i] = (places[i - 1] if i else 0) + 1
    return places


def distances(data):
    """Bytes back to the last place with the same CONTEXT bytes before it; 0: there is none."""
    found = np.zeros(len(data), int)
    last = {}
    for i in range(CONTEXT, len(data)):
        context = data[i - CONTEXT:i]
        found[i] = i - last.get(context, i)
        last[context] = i
    return found


def rows(title, groups, values, bits, other):
    lead = bits - other
    for name, (first, end) in groups.items():
        chosen = (values >= first) & (values <= (values.max() if end is None else end))
        if chosen.any():
            yield (f"| {title}: {name} | {chosen.mean():.1%} | {bits[chosen].mean():.3f} | {other[chosen].mean():.3f} | "
                   f"{lead[chosen].mean():.3f} | {lead[chosen].sum() / lead.sum():.1%} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, help="bytes of each text")
    parser.add_argument("model")
    parser.add_argument("other")
    parser.add_argument("texts", nargs="+")
    options = parser.parse_args()
    texts = [read_text(path)[:options.limit] for path in options.texts]
    bits, other = (np.concatenate([pmnet.Session(model).score(data) for data in texts])
                   for model in (pmnet.load(options.model), pmnet.load(options.other)))
    print("| bytes | share | model | other | lead of the other | share of the lead |\n|---|---|---|---|---|---|")
    print(f"| all | 100.0% | {bits.mean():.3f} | {other.mean():.3f} | {(bits - other).mean():.3f} | 100.0% |")
    for title, groups, find in (("place in the word", WORD_PLACES, places_in_words),
                                ("last seen", DISTANCES, distances)):
        print("\n".join(rows(title, groups, np.concatenate([find(data) for data in texts]), bits, other)))


if __name__ == "__main__":
    main()
