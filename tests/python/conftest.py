"""What the tests of the package share."""

from __future__ import annotations

import json
import pathlib

import pytest
import torch

FIXTURES = pathlib.Path(__file__).parent.parent / "fixtures"
PMNET_FIXTURES = sorted(
    folder for folder in FIXTURES.iterdir() if folder.is_dir() and folder.name not in ("llama", "mamba")
)


@pytest.fixture(autouse=True)
def one_seed():
    torch.manual_seed(1)


@pytest.fixture(scope="session")
def tiny_model():
    import pmnet

    return pmnet.create("tiny", seed=1)


def read_tensors(file):
    """A safetensors file, without the package of that name: header, then the bytes of every tensor."""
    data = pathlib.Path(file).read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    types = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "I32": torch.int32}
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        values = torch.frombuffer(bytearray(data[begin:end]), dtype=types[entry["dtype"]])
        tensors[name] = values.view(entry["shape"]) if end > begin else values
    return tensors
