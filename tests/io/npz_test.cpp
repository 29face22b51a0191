#include "io/npz.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "support/errors.h"
#include "support/python.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

TEST(Npz, NumpyReadsWhatWasWritten) {
  const std::string python = python_with("numpy");
  if (python.empty()) GTEST_SKIP() << "no Python with numpy";
  const TemporaryFolder folder;
  const std::vector<uint8_t> bytes{0, 127, 255};
  const std::vector<int32_t> small{-1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> large{int64_t{1} << 40};
  const std::vector<float> floats{0.5F, -1.25F};
  const std::vector<double> doubles{1e300};
  const std::vector<TensorView> arrays{
      {"bytes", DType::kU8, {3}, bytes.data()},  {"small", DType::kI32, {3, 2}, small.data()},
      {"large", DType::kI64, {1}, large.data()}, {"floats", DType::kF32, {1, 2, 1}, floats.data()},
      {"one", DType::kF64, {}, doubles.data()},  {"none", DType::kF32, {0, 4}, nullptr}};
  write_npz(folder / "arrays.npz", arrays);
  std::ofstream(folder / "check.py") << R"(
import sys, zipfile
import numpy
assert zipfile.ZipFile(sys.argv[1]).testzip() is None
arrays = numpy.load(sys.argv[1], allow_pickle=False)
assert sorted(arrays) == ['bytes', 'floats', 'large', 'none', 'one', 'small'], sorted(arrays)
def check(name, dtype, value):
    array, expected = arrays[name], numpy.array(value, dtype)
    assert array.dtype == expected.dtype and array.shape == expected.shape, (name, array.dtype, array.shape)
    assert (array == expected).all(), (name, array)
check('bytes', 'u1', [0, 127, 255])
check('small', 'i4', [[-1, 2], [3, 4], [5, 6]])
check('large', 'i8', [1 << 40])
check('floats', 'f4', [[[0.5], [-1.25]]])
check('one', 'f8', 1e300)
check('none', 'f4', numpy.zeros((0, 4)))
)";
  EXPECT_EQ(
      std::system((python + " " + (folder / "check.py").string() + " " + (folder / "arrays.npz").string()).c_str()), 0);
}

TEST(Npz, RefusesWhatAnArchiveCannotHold) {
  const TemporaryFolder folder;
  const float value = 0;
  EXPECT_THROW(write_npz(folder / "a.npz", std::vector<TensorView>{{"x", DType::kBF16, {1}, &value}}),
               std::logic_error);
  EXPECT_NE(user_error_of([&] {
              write_npz(folder / "file/a.npz", std::vector<TensorView>{{"x", DType::kF32, {1}, &value}});
              write_npz(folder / "file/a.npz/b.npz", std::vector<TensorView>{{"x", DType::kF32, {1}, &value}});
            }),
            "(no error)");
}

}  // namespace
}  // namespace pmnet
