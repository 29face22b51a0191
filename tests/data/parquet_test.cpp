#include <gtest/gtest.h>

#include <cstdlib>

#include "base/hash.h"
#include "data/data_files.h"
#include "data/parquet_reader.h"
#include "support/errors.h"
#include "support/files.h"

namespace pmnet {
namespace {

using namespace testing;
using Documents = std::vector<std::string>;

// Writes the test's files with pyarrow; skips the test where there is none.
class Parquet : public ::testing::Test {
 protected:
  void SetUp() override {
    python_ = std::string(PMNET_SOURCE_DIR) + "/.venv/bin/python";
    if (!parquet_available()) GTEST_SKIP() << "libpmnet_parquet.so was not built: pyarrow is not installed";
    if (std::system((python_ + " -c 'import pyarrow.parquet' 2>/dev/null").c_str()) != 0)
      GTEST_SKIP() << "no pyarrow in .venv to write test files with";
  }

  void run_python(const std::string& code) {
    write_file(folder_ / "make.py",
               "import pyarrow as pa, pyarrow.parquet as pq, os\nos.chdir('" + folder_.path().string() + "')\n" + code);
    ASSERT_EQ(std::system((python_ + " " + (folder_ / "make.py").string()).c_str()), 0);
  }

  TemporaryFolder folder_;
  std::string python_;
};

TEST_F(Parquet, ReadsRowGroupsCodecsAndEncodings) {
  run_python(R"(
texts = ['document %d ' % i + 'äöü\n' * (i % 50) for i in range(1000)]
table = pa.table({'id': list(range(1000)), 'text': texts})
for codec in ['none', 'snappy', 'gzip', 'zstd', 'lz4', 'brotli']:
    pq.write_table(table, codec + '.parquet', compression=codec, row_group_size=128)
pq.write_table(table, 'plain.parquet', use_dictionary=False, row_group_size=999)
pq.write_table(table, 'delta.parquet', use_dictionary=False, column_encoding={'text': 'DELTA_BYTE_ARRAY'})
pq.write_table(table, 'v2.parquet', data_page_version='2.0', write_page_checksum=True)
pq.write_table(pa.table({'text': pa.array(texts, pa.large_string())}), 'large.parquet')
pq.write_table(pa.table({'text': pa.array([t.encode() for t in texts], pa.binary())}), 'binary.parquet')
pq.write_table(pa.table({'text': pa.array(texts).dictionary_encode()}), 'dictionary.parquet')
)");
  Documents expected;
  for (int i = 0; i < 1000; ++i) {
    expected.push_back("document " + std::to_string(i) + " ");
    for (int k = 0; k < i % 50; ++k) expected.back() += "äöü\n";
  }
  for (const char* name :
       {"none", "snappy", "gzip", "zstd", "lz4", "brotli", "plain", "delta", "v2", "large", "binary", "dictionary"})
    EXPECT_EQ(read_documents(folder_ / (std::string(name) + ".parquet")), expected) << name;
}

TEST_F(Parquet, NullAndEmptyRowsAreSkipped) {
  run_python(
      "pq.write_table(pa.table({'text': ['a', None, '', 'b', None]}), 'a.parquet', row_group_size=2)\n"
      "pq.write_table(pa.table({'text': pa.array([], pa.string())}), 'empty.parquet')\n");
  SkipLog skips;
  EXPECT_EQ(read_documents(folder_ / "a.parquet", {}, skips), (Documents{"a", "b"}));
  EXPECT_EQ(skips.at("empty or null text").count, 3u);
  EXPECT_TRUE(read_documents(folder_ / "empty.parquet", {}, skips).empty());
  EXPECT_EQ(skips.at("empty file").count, 1u);
}

TEST_F(Parquet, WrongColumnsAreNamed) {
  run_python(
      "pq.write_table(pa.table({'body': ['a'], 'number': [1], 'list': [['a']], 'struct': [{'text': 'a'}], "
      "'price': pa.array([b'1'], pa.binary(1))}), 'a.parquet')\n");
  const auto fault = [&](const char* column) {
    ReadOptions options;
    options.text_field = column;
    return user_error_of([&] { read_documents(folder_ / "a.parquet", options); });
  };
  expect_mentions(fault("text"), {"a.parquet", "no column 'text'", "'body'", "--text-field"});
  expect_mentions(fault("number"), {"column 'number'", "expected text"});
  expect_mentions(fault("list"), {"column 'list' is nested"});
  expect_mentions(fault("struct"), {"column 'struct' is nested"});
  expect_mentions(fault("price"), {"column 'price'", "expected text"});
  EXPECT_EQ(fault("body"), "(no error)");
}

TEST_F(Parquet, TruncatedAndForeignFilesAreRefused) {
  run_python(
      "pq.write_table(pa.table({'text': ['document %d' % i for i in range(3000)]}), 'a.parquet', "
      "row_group_size=500)\n");
  const std::string whole = whole_file(folder_ / "a.parquet");
  for (int percent = 0; percent < 100; ++percent) {
    write_file(folder_ / "cut.parquet", whole.substr(0, whole.size() * percent / 100));
    expect_mentions(user_error_of([&] { read_documents(folder_ / "cut.parquet"); }), {"cut.parquet", "Parquet"});
  }
  std::string footer = whole;
  footer.replace(footer.size() - 8, 4, "\xFF\xFF\xFF\x7F");
  for (const std::string& content :
       {std::string("PAR1"), std::string("text, not Parquet"), footer, "PAR1" + std::string(100, '\0') + "PAR1"}) {
    write_file(folder_ / "bad.parquet", content);
    expect_mentions(user_error_of([&] { read_documents(folder_ / "bad.parquet"); }), {"bad.parquet"});
  }
}

TEST_F(Parquet, MutatedFilesNeverCrash) {
  run_python(
      "pq.write_table(pa.table({'text': ['document %d' % i for i in range(200)]}), 'a.parquet', row_group_size=50, "
      "compression='snappy', write_page_checksum=True)\n");
  const std::string whole = whole_file(folder_ / "a.parquet");
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = whole;
    for (int k = 0; k <= i % 3; ++k) damaged[splitmix64(i, k) % damaged.size()] = static_cast<char>(splitmix64(k, i));
    write_file(folder_ / "bad.parquet", damaged);
    refused += user_error_of([&] { read_documents(folder_ / "bad.parquet"); }) != "(no error)";
  }
  EXPECT_GT(refused, 1000);
}

TEST_F(Parquet, MemoryLimitStopsOversizedPages) {
  run_python(
      "pq.write_table(pa.table({'text': ['x' * 50_000_000]}), 'a.parquet', compression='zstd', "
      "use_dictionary=False)\n");
  ReadOptions options;
  options.parquet_memory_bytes = 16 << 20;
  expect_mentions(user_error_of([&] { read_documents(folder_ / "a.parquet", options); }), {"a.parquet", "row group 1"});
  EXPECT_EQ(read_documents(folder_ / "a.parquet").at(0).size(), 50'000'000u);
}

}  // namespace
}  // namespace pmnet
