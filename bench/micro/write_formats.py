"""Writes a text in every format that training reads: FOLDER/text.{gz,zst,jsonl,jsonl.gz,jsonl.zst,parquet}.

Usage: write_formats.py FOLDER/text.txt SEPARATOR. Documents are what stands between the separators.
"""
import json
import sys

import pyarrow
import pyarrow.parquet


def write(path, data):
    codec = {"gz": "gzip", "zst": "zstd"}.get(path.rsplit(".", 1)[1])
    with pyarrow.output_stream(path, compression=codec) as file:
        file.write(data)


def main(path, separator):
    with open(path, "rb") as file:
        data = file.read()
    stem = path.rsplit(".", 1)[0]
    documents = [text for text in data.decode().split(separator) if text]
    lines = "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in documents).encode()
    for ending in ("gz", "zst"):
        write(f"{stem}.{ending}", data)
    for ending in ("jsonl", "jsonl.gz", "jsonl.zst"):
        write(f"{stem}.{ending}", lines)
    pyarrow.parquet.write_table(pyarrow.table({"text": documents}), f"{stem}.parquet", compression="snappy")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].encode().decode("unicode_escape"))
