#!/usr/bin/env python3
"""Draws where the bytes of a text write to the root of the memory: one row per byte, one column per slot.

  pmnet inspect MODEL TEXT --tensors read.safetensors
  tools/address_map.py read.safetensors map.svg --every 2 --first 1 --rows 8
"""
import argparse
import html

from safetensors.numpy import load_file

CELL, LEFT, TOP = 26, 120, 46


def label(data, i):
    shown = lambda b: chr(b) if 32 < b < 127 else f"{b}"
    return f"{shown(data[i])} after {shown(data[i - 1])}" if i else shown(data[i])


def draw(tensors, rows):
    data, weights = tensors["bytes"].astype(int), tensors["weights"][:, 0]
    slots = weights.shape[1]
    width, height = LEFT + slots * CELL + 20, TOP + len(rows) * CELL + 20
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
           f'font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="{LEFT}" y="18">slot of the root; the darker, the more of the write goes there</text>']
    for n in range(slots):
        out.append(f'<text x="{LEFT + n * CELL + CELL / 2}" y="{TOP - 6}" text-anchor="middle" fill="#555">{n}</text>')
    for y, i in enumerate(rows):
        top = TOP + y * CELL
        out.append(f'<text x="{LEFT - 8}" y="{top + 17}" text-anchor="end">{html.escape(label(data, i))}</text>')
        for n in range(slots):
            share = float(weights[i, n])
            out.append(f'<rect x="{LEFT + n * CELL}" y="{top}" width="{CELL - 2}" height="{CELL - 2}" fill="#1f4e8c" '
                       f'fill-opacity="{0.04 + 0.96 * share:.3f}"><title>{share:.2f}</title></rect>')
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tensors")
    parser.add_argument("picture")
    parser.add_argument("--first", type=int, default=0, help="first byte")
    parser.add_argument("--every", type=int, default=1, help="step from row to row")
    parser.add_argument("--rows", type=int, default=16)
    given = parser.parse_args()
    tensors = load_file(given.tensors)
    rows = list(range(given.first, len(tensors["bytes"]), given.every))[: given.rows]
    with open(given.picture, "w", encoding="utf-8") as file:
        file.write(draw(tensors, rows))


if __name__ == "__main__":
    main()
