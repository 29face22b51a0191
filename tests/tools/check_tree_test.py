"""Bad trees must fail tools/check_tree.py, each for its own reason."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "tools" / "check_tree.py"


def check(files):
    with tempfile.TemporaryDirectory() as root:
        (pathlib.Path(root) / "src").mkdir()
        for name, text in files.items():
            path = pathlib.Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


class CheckTree(unittest.TestCase):
    def assert_refused(self, files, reason):
        code, output = check(files)
        self.assertEqual(code, 1, output)
        self.assertIn(reason, output)
        self.assertEqual(len(output.splitlines()), 1, output)

    def test_good_tree_passes(self):
        self.assertEqual(check({
            "src/base/error.h": "#include <string>\n",
            "src/ops/scan.cpp": '#include <ATen/ATen.h>\n#include "base/error.h"\n#include "ops/scan.h"\n',
            "src/cli/main.cpp": '#include "train/trainer.h"\n' * 400,
        }), (0, ""))

    def test_upward_include(self):
        self.assert_refused({"src/model/mlp.cpp": '#include "train/trainer.h"\n'}, "may not include train")

    def test_sideways_include(self):
        self.assert_refused({"src/data/shard.h": '  #  include "report/table.h"\n'}, "may not include report")

    def test_torch_in_torch_free_folder(self):
        for header in ["torch/library.h", "ATen/ATen.h", "c10/util/Exception.h"]:
            self.assert_refused({"src/kernels/scan.cpp": f"#include <{header}>\n"}, "free of LibTorch")

    def test_header_not_named_from_src(self):
        self.assert_refused({"src/model/mlp.cpp": '#include "mlp.h"\n'}, '"model/mlp.h"')

    def test_long_file(self):
        self.assert_refused({"tests/ops/scan_test.cpp": "\n" * 401}, "401 lines")

    def test_named_file_that_is_not_there(self):
        self.assert_refused({"src/ops/scan.cpp": "// See docs/gone.md and src/ops/scan.cpp.\n"}, "there is no docs/gone.md")

    def test_unknown_folder(self):
        self.assert_refused({"src/misc/things.h": "\n"}, "src/misc has no level")

    def test_not_a_source_tree(self):
        with tempfile.TemporaryDirectory() as root:
            done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
