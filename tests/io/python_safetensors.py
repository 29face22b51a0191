"""The Python `safetensors` package as a second opinion.

dump FILE      the tensors of FILE as JSON: name -> [dtype, shape, hex of the bytes]
write FILE     writes a file of many dtypes, then dumps what it meant to write
judge FILE     FILE holds one hex file per line; prints 1 (accepted) or 0 (refused) for each
"""
import json
import sys

import safetensors


def dump(tensors):
    print(json.dumps({name: [t["dtype"], list(t["shape"]), bytes(t["data"]).hex()] for name, t in tensors}))


def accepted(data):
    try:
        safetensors.deserialize(data)
        return 1
    except (safetensors.SafetensorError, ValueError):
        return 0


def write(path):
    import torch
    from safetensors.torch import save_file

    dtypes = {
        "F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "F64": torch.float64,
        "I64": torch.int64, "I32": torch.int32, "U8": torch.uint8, "BOOL": torch.bool,
    }
    shapes = {"matrix": [3, 5], "scalar": [], "empty": [0, 4]}
    tensors, shown = {}, []
    for dtype_name, dtype in dtypes.items():
        for label, shape in shapes.items():
            count = torch.Size(shape).numel()
            tensor = (torch.arange(count) * 3 % 7).to(dtype).reshape(shape)
            name = f"{dtype_name}.{label} \u00e9"
            tensors[name] = tensor
            data = bytes(tensor.contiguous().view(-1).view(torch.uint8).tolist()) if count else b""
            shown.append((name, {"dtype": dtype_name, "shape": shape, "data": data}))
    save_file(tensors, path, {"format": "pt"})
    dump(shown)


def main(command, path=None):
    if command == "dump":
        with open(path, "rb") as file:
            dump(safetensors.deserialize(file.read()))
    elif command == "write":
        write(path)
    elif command == "judge":
        with open(path) as file:
            print(" ".join(str(accepted(bytes.fromhex(line))) for line in file))


if __name__ == "__main__":
    main(*sys.argv[1:])
