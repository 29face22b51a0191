#include "data/byte_source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/hash.h"
#include "base/machine.h"
#include "data/data_files.h"
#include "support/errors.h"
#include "support/files.h"

namespace pmnet {
namespace {

using namespace testing;
using Documents = std::vector<std::string>;

TEST(PlainFiles, AnyNameAndCompressionGivesTheBytes) {
  const TemporaryFolder folder;
  const std::string text = random_text(1, 700'000) + std::string("\0\xFF\xFE\r\n", 5);
  write_file(folder / "a.txt", text);
  write_file(folder / "a.bin", text);
  write_file(folder / "a.txt.gz", gzip(text));
  write_file(folder / "a.GZ", gzip(text));
  write_file(folder / "a.zst", zstd(text));
  write_file(folder / "two.gz", gzip(text.substr(0, 1000)) + gzip(text.substr(1000)));
  write_file(folder / "two.zst", zstd(text.substr(0, 1000)) + zstd(text.substr(1000)));
  for (const char* name : {"a.txt", "a.bin", "a.txt.gz", "a.GZ", "a.zst", "two.gz", "two.zst"})
    EXPECT_EQ(read_documents(folder / name), Documents{text}) << name;
}

TEST(PlainFiles, EmptyFileIsSkippedAndCounted) {
  const TemporaryFolder folder;
  write_file(folder / "empty.txt", "");
  SkipLog skips;
  EXPECT_TRUE(read_documents(folder / "empty.txt", {}, skips).empty());
  EXPECT_EQ(skips.at("empty file").count, 1u);
  expect_mentions(skips.at("empty file").first, {"empty.txt"});
}

TEST(PlainFiles, SplitsAtSeparatorsWhereverTheBufferEnds) {
  const TemporaryFolder folder;
  const std::string separator = "\n==\n";
  Documents expected;
  std::string text;
  for (int i = 0; i < 40; ++i) {
    // Around the size of the read buffer, so that separators fall across its end at every offset.
    expected.push_back(random_text(i, 256 * 1024 / 4 - 3 + i % 7) + "\n=");
    text += (i ? separator : "") + expected.back();
  }
  write_file(folder / "many.txt", text);
  ReadOptions options;
  options.split_on = separator;
  EXPECT_EQ(read_documents(folder / "many.txt", options), expected);
}

TEST(PlainFiles, EmptyStretchesBetweenSeparatorsAreSkipped) {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", "--one----two--");
  ReadOptions options;
  options.split_on = "--";
  SkipLog skips;
  EXPECT_EQ(read_documents(folder / "a.txt", options, skips), (Documents{"one", "two"}));
  EXPECT_EQ(skips.at("empty document").count, 2u);
}

TEST(CompressedFiles, EveryTruncationIsAnErrorNamingTheFile) {
  const TemporaryFolder folder;
  const std::string text = random_text(3, 40'000);
  for (const auto& [name, whole] : {std::pair{std::string("cut.gz"), gzip(text)}, {"cut.zst", zstd(text)}}) {
    for (int percent = 0; percent < 100; ++percent) {
      write_file(folder / name, whole.substr(0, whole.size() * percent / 100));
      if (percent == 0 && name == "cut.zst") continue;  // nothing at all is a valid series of no frames
      expect_mentions(user_error_of([&] { read_documents(folder / name); }), {name, "cut off"});
    }
  }
}

TEST(CompressedFiles, FlippedBitsAreNeverReadAsOtherText) {
  const TemporaryFolder folder;
  const std::string text = random_text(4, 4'000);
  for (const auto& [name, whole] : {std::pair{std::string("bad.gz"), gzip(text)}, {"bad.zst", zstd(text)}}) {
    int refused = 0;
    for (int i = 0; i < 400; ++i) {
      std::string damaged = whole;
      damaged[splitmix64(i) % damaged.size()] ^= static_cast<char>(1 << i % 8);
      write_file(folder / name, damaged);
      Documents documents;
      if (user_error_of([&] { documents = read_documents(folder / name); }) != "(no error)")
        ++refused;
      else
        EXPECT_EQ(documents, Documents{text}) << name << " " << i;  // a flip in the file name field of gzip's header
    }
    EXPECT_GT(refused, 350) << name;
  }
}

TEST(CompressedFiles, OtherContentIsRefused) {
  const TemporaryFolder folder;
  write_file(folder / "a.gz", "plain text");
  write_file(folder / "a.zst", "plain text");
  write_file(folder / "tail.gz", gzip("text") + "garbage");
  for (const char* name : {"a.gz", "a.zst", "tail.gz"})
    expect_mentions(user_error_of([&] { read_documents(folder / name); }), {name, "damaged"});
}

TEST(Jsonl, TakesTheTextFieldAndFormsOfLines) {
  const TemporaryFolder folder;
  write_file(folder / "a.jsonl",
             "\xEF\xBB\xBF{\"id\": 1, \"text\": \"one\\n\"}\r\n\n  \n{\"text\":\"zw\\u00f6i "
             "\\ud83d\\ude00\",\"meta\":{\"text\":[1]}}\n"
             "{\"text\": \"last\"}");
  write_file(folder / "a.jsonl.gz", gzip(whole_file(folder / "a.jsonl")));
  write_file(folder / "a.ndjson.zst", zstd(whole_file(folder / "a.jsonl")));
  const Documents expected = {"one\n", "zwöi 😀", "last"};
  for (const char* name : {"a.jsonl", "a.jsonl.gz", "a.ndjson.zst"}) EXPECT_EQ(read_documents(folder / name), expected);
}

TEST(Jsonl, LongLinesCrossBuffers) {
  const TemporaryFolder folder;
  Documents expected;
  std::string lines;
  for (int i = 0; i < 12; ++i) {
    expected.push_back(random_text(i, 100'000 * (i % 5) + 1));
    lines += "{\"text\": \"" + expected.back() + "\"}\n";
  }
  write_file(folder / "a.jsonl", lines);
  EXPECT_EQ(read_documents(folder / "a.jsonl"), expected);
}

TEST(Jsonl, PromptAndCompletion) {
  const TemporaryFolder folder;
  write_file(folder / "a.jsonl",
             "{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n{\"prompt\": \"x\", \"completion\": \"\"}\n");
  SkipLog skips;
  const auto reader = open_documents(find_inputs({folder / "a.jsonl"}).at(0), {}, skips);
  ASSERT_TRUE(reader->next());
  EXPECT_EQ(reader->piece(), "2+2=4");
  EXPECT_EQ(reader->prompt_bytes(), 4u);
  EXPECT_FALSE(reader->next());
  EXPECT_EQ(skips.at("empty or null text").count, 1u);
}

TEST(Jsonl, BadRecordsNameFileLineAndFault) {
  const TemporaryFolder folder;
  const std::string deep(100'000, '[');
  const std::pair<std::string, std::string> cases[] = {
      {"{\"text\": 5}", "is a number, expected text"},
      {"{\"text\": {\"a\": 1}}", "is an object, expected text"},
      {"{\"text\": [\"a\"]}", "is a list, expected text"},
      {"{\"text\": true}", "is true or false"},
      {"{\"body\": \"a\", \"id\": 2}", "(it has 'body', 'id')"},
      {"{\"prompt\": \"a\"}", "nor both 'prompt' and 'completion'"},
      {"[1, 2]", "not a JSON object"},
      {"\"text\"", "not a JSON object"},
      {"{\"text\": \"a\"", "not valid JSON"},
      {"{\"text\": \"a\"} x", "not valid JSON"},
      {"{\"text\": \"\xFF\"}", "not valid JSON"},
      {"{\"text\": \"\\ud800\"}", "not valid JSON"},
      {"{\"text\": \"a\", \"text\": \"b\"}", "appears twice"},
      {"{\"a\": " + deep, "not valid JSON"},
      {std::string("{\"text\": \"a\"}\0{", 15), "NUL"},
  };
  for (const auto& [line, fault] : cases) {
    write_file(folder / "bad.jsonl", "{\"text\": \"fine\"}\n" + line + "\n{\"text\": \"too\"}\n");
    expect_mentions(user_error_of([&] { read_documents(folder / "bad.jsonl"); }),
                    {"bad.jsonl', line 2", fault, "--skip-bad"});
    ReadOptions options;
    options.skip_bad_records = true;
    SkipLog skips;
    EXPECT_EQ(read_documents(folder / "bad.jsonl", options, skips), (Documents{"fine", "too"}));
    EXPECT_EQ(skips.at("malformed record").count, 1u);
  }
}

TEST(Jsonl, OversizedLineIsRefusedBeforeItIsStored) {
  const TemporaryFolder folder;
  write_file(folder / "a.jsonl", "");
  fs::resize_file(folder / "a.jsonl", uint64_t{3} << 30);  // sparse: one line of NUL bytes
  ReadOptions options;
  options.max_record_bytes = 1 << 20;
  expect_mentions(user_error_of([&] { read_documents(folder / "a.jsonl", options); }),
                  {"a.jsonl", "line 1", "1048576"});
}

TEST(FindInputs, FoldersAreSortedRecursiveAndEachFileOnce) {
  const TemporaryFolder folder;
  for (const char* name : {"b.txt", "a/z.txt", "a/b/c.jsonl", ".hidden/x.txt", "a/.secret", "d.txt.gz"})
    write_file(folder / name, gzip("x"));
  std::vector<std::string> found;
  for (const InputFile& file : find_inputs({folder.path(), folder / "b.txt", folder / "./a/../b.txt"}))
    found.push_back(fs::relative(file.path, folder.path()).string());
  EXPECT_EQ(found, (std::vector<std::string>{"a/b/c.jsonl", "a/z.txt", "b.txt", "d.txt.gz"}));
}

TEST(FindInputs, GlobsMatchFilesAndFolders) {
  const TemporaryFolder folder;
  for (const char* name : {"part-1.txt", "part-2.txt", "other.txt", "part-3/x.txt", "odd[1].txt"})
    write_file(folder / name, "x");
  EXPECT_EQ(find_inputs({folder / "part-*"}).size(), 3u);
  EXPECT_EQ(find_inputs({folder / "odd[1].txt"}).size(), 1u);
  expect_mentions(user_error_of([&] { find_inputs({folder / "none-*"}); }), {"none-*", "no file matches"});
}

TEST(FindInputs, WhatIsNoRegularFileIsRefusedAtOnce) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe.txt").c_str(), 0600), 0);
  fs::create_directory(folder / "nothing");
  fs::create_symlink("missing", folder / "dangling.txt");
  expect_mentions(user_error_of([&] { find_inputs({folder / "pipe.txt"}); }), {"pipe.txt", "regular file"});
  expect_mentions(user_error_of([&] { find_inputs({"/dev/zero"}); }), {"/dev/zero", "regular file"});
  expect_mentions(user_error_of([&] { find_inputs({folder / "nothing"}); }), {"nothing", "no files"});
  expect_mentions(user_error_of([&] { find_inputs({folder / "absent.txt"}); }),
                  {"absent.txt", "no such file or folder"});
  expect_mentions(user_error_of([&] { find_inputs({folder / std::string(300, 'n')}); }), {"too long"});
  expect_mentions(user_error_of([&] { find_inputs({folder / "dangling.txt"}); }), {"dangling.txt"});
  expect_mentions(user_error_of([&] { find_inputs({}); }), {"no data"});
  write_file(folder / "x.parquet.gz", gzip("x"));
  expect_mentions(user_error_of([&] { find_inputs({folder / "x.parquet.gz"}); }), {"decompress"});
}

TEST(FindInputs, PicklesAreRefusedByNameAndByContent) {
  const TemporaryFolder folder;
  write_file(folder / "model.pt", "text");
  write_file(folder / "data.pickle", "text");
  write_file(folder / "weights.bin", "PK\x03\x04..........................model/data.pkl");
  write_file(folder / "old.bin", "\x80\x02\x8a\x0al\xfc");
  write_file(folder / "framed", "\x80\x04\x95.....");
  for (const char* name : {"model.pt", "data.pickle", "weights.bin", "old.bin", "framed"})
    expect_mentions(user_error_of([&] { find_inputs({folder / name}); }), {name, "pickle", "safetensors"});
}

TEST(Streaming, FileThatShrinksMeanwhileIsAnErrorNamingIt) {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", random_text(1, 2'000'000));
  SkipLog skips;
  const auto reader = open_documents(find_inputs({folder / "a.txt"}).at(0), {}, skips);
  ASSERT_TRUE(reader->next());
  ASSERT_FALSE(reader->piece().empty());
  fs::resize_file(folder / "a.txt", 300'000);
  expect_mentions(user_error_of([&] {
                    while (!reader->piece().empty()) {
                    }
                  }),
                  {"a.txt", "cut off"});
}

TEST(Streaming, MemoryStaysFlatOverHundredsOfMegabytes) {
  const TemporaryFolder folder;
  constexpr size_t kBlock = 4 << 20;
  constexpr int kBlocks = 100;
  const std::string member = gzip(random_text(1, 1000) + std::string(kBlock - 1000, 'x'));
  const std::string line = "{\"text\": \"" + std::string(kBlock, 'y') + "\"}\n";
  const std::string record = gzip(line);
  {
    std::ofstream text(folder / "big.txt.gz", std::ios::binary), lines(folder / "big.jsonl.gz", std::ios::binary);
    for (int i = 0; i < kBlocks; ++i) {
      text << member;
      lines << record;
    }
  }
  write_file(folder / "sparse.bin", "");
  fs::resize_file(folder / "sparse.bin", uint64_t{kBlock} * kBlocks);
  for (const char* name : {"big.txt.gz", "big.jsonl.gz", "sparse.bin"}) {
    SkipLog skips;
    const auto reader = open_documents(find_inputs({folder / name}).at(0), {}, skips);
    uint64_t bytes = 0, start = 0;
    while (reader->next()) {
      for (std::string_view piece = reader->piece(); !piece.empty(); piece = reader->piece()) {
        bytes += piece.size();
        if (start == 0 && bytes >= 2 * kBlock) start = resident_bytes();
      }
    }
    EXPECT_EQ(bytes, uint64_t{kBlock} * kBlocks) << name;
    EXPECT_LT(resident_bytes(), start + (16 << 20)) << name;
  }
}

TEST(Jsonl, TheTextFieldMayHaveTheNameOfAnother) {
  const TemporaryFolder folder;
  write_file(folder / "a.jsonl", "{\"prompt\":\"q\",\"completion\":\"a\"}\n");
  ReadOptions options;
  for (const auto& [field, text] : {std::pair{"prompt", "q"}, std::pair{"completion", "a"}}) {
    options.text_field = field;
    EXPECT_EQ(read_documents(folder / "a.jsonl", options), Documents{text});
  }
}

}  // namespace
}  // namespace pmnet
