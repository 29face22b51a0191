"""Every operation with every argument spoiled in turn: an exception or a result, never the end of the process."""

import pathlib
import subprocess
import sys

import torch
from op_cases import cases

from pmnet import ops

SPOILED = {
    "no dimensions": lambda x: x.detach().flatten()[0],
    "empty": lambda x: x.detach()[:0],
    "a dimension more": lambda x: x.detach().unsqueeze(0),
    "an entry less": lambda x: x.detach()[..., :-1],
    "another dtype": lambda x: x.detach().to(torch.int16),
    "another device": lambda x: x.detach().to("meta"),
    "not contiguous": lambda x: x.detach().unsqueeze(-1).expand(*x.shape, 2)[..., 0],
    "no tensor": lambda x: "text",
}


EXPECTED = {"another dtype": "TypeError", "another device": "ValueError", "no tensor": "TypeError"}


def spoil_everything():
    """Prints one line per call: operation, place, how it was spoiled, exception or "ran", what it says."""
    for name, arguments in cases().items():
        for place, value in enumerate(arguments):
            if not isinstance(value, torch.Tensor):
                continue
            for how, change in SPOILED.items():
                given = [*arguments[:place], change(value), *arguments[place + 1 :]]
                outcome, sentence = "ran", ""
                try:
                    getattr(ops, name)(*given)
                except Exception as error:  # noqa: BLE001
                    outcome, sentence = type(error).__name__, str(error).split("\n")[0]
                print(name, place, how, outcome, sentence, sep="\t")


def test_no_argument_ends_the_process():
    program = "import test_bad_arguments as t; t.spoil_everything(); print('the end')"
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=pathlib.Path(__file__).parent, capture_output=True, text=True
    )
    *lines, last = result.stdout.splitlines()
    assert (result.returncode, last) == (0, "the end"), result.stdout[-300:] + result.stderr
    assert len(lines) == 8 * sum(isinstance(x, torch.Tensor) for given in cases().values() for x in given)
    for line in lines:
        name, _, how, outcome, sentence = line.split("\t")
        assert outcome in ("ran", "TypeError", "ValueError", "IndexError", "RuntimeError"), line
        if how in EXPECTED:
            assert outcome == EXPECTED[how], line
            assert sentence.startswith(name + ":"), line
