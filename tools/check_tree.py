#!/usr/bin/env python3
"""Checks the shape of the source tree: include direction, folders free of LibTorch, length of the files, and that files
named in comments exist.

Usage: check_tree.py [ROOT]. Prints one line per problem; exit code 1 if there is any.
"""
import pathlib
import re
import sys

# A folder of src/ includes itself and folders of a strictly lower level. So model sees neither data nor files, and ops
# know nothing of configurations.
LEVELS = {
    "base": 0,
    "kernels": 1, "config": 1,
    "ops": 2, "io": 2, "data": 2, "report": 2,
    "model": 3,
    "engine": 4,
    "eval": 5,
    "train": 6,
    "bench": 7, "experiments": 7, "api": 7,
    "cli": 8,
}
TORCH_FREE = {"base", "kernels", "config", "io", "data", "report"}
TOP_FOLDERS = {"bench", "experiments"}  # beside src/; no part of the library
MAX_LINES = 400

SOURCE_FOLDERS = ["include", "src", "experiments", "bench", "tests", "examples", "tools", "cmake",
                  "python"]
SOURCE_SUFFIXES = {".cpp", ".h", ".py", ".cmake", ".txt"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
NAMED_FILE = re.compile(
    r"\b(?:src|tests|docs|tools|bench|experiments|examples|include|recipes)/[a-z0-9_/.-]+\.(?:md|cpp|h|py|toml)\b")
TORCH_HEADER = re.compile(r"^(torch|ATen|c10|caffe2)/")


def include_problem(folder, header):
    """Why a file of src/<folder> may not include this header; None if it may."""
    if folder in TORCH_FREE and TORCH_HEADER.match(header):
        return f"{folder} must stay free of LibTorch"
    target = header.split("/")[0]
    if target not in LEVELS or target == folder:
        return None
    if LEVELS[target] >= LEVELS[folder]:
        return f"{folder} (level {LEVELS[folder]}) may not include {target} (level {LEVELS[target]})"
    return None


def problems_of_file(root, path):
    parts = path.relative_to(root).parts
    lines = path.read_text(encoding="utf-8").splitlines()
    if len(lines) > MAX_LINES and "fixtures" not in parts:
        yield f"{len(lines)} lines, the limit is {MAX_LINES}: split it by meaning"
    made_up = parts[:2] in {("tests", "tools"), ("tests", "docs")}  # trees of the tests of the checks
    if path.suffix in {".cpp", ".h", ".py"} and not made_up:
        for number, line in enumerate(lines, start=1):
            for name in NAMED_FILE.findall(line):
                if not (root / name).exists() and not INCLUDE.match(line):
                    yield f"line {number}: there is no {name}"
    if parts[0] not in {"src"} | TOP_FOLDERS or path.suffix not in {".cpp", ".h"}:
        return
    folder = parts[0] if parts[0] in TOP_FOLDERS else parts[1]
    if folder not in LEVELS:
        yield f"folder src/{folder} has no level; add it to the table in tools/check_tree.py"
        return
    for number, line in enumerate(lines, start=1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, header = match.groups()
        if quote == '"' and "/" not in header:
            yield f"line {number}: write \"{folder}/{header}\": headers are named from src/"
        problem = include_problem(folder, header)
        if problem:
            yield f"line {number}: {header}: {problem}"


def problems_of_tree(root):
    for folder in SOURCE_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix in SOURCE_SUFFIXES:
                for problem in problems_of_file(root, path):
                    yield f"{path.relative_to(root)}: {problem}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    if not (root / "src").is_dir():
        print(f"check_tree: {root} has no folder src; give the root of the source tree")
        return 2
    found = list(problems_of_tree(root))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
