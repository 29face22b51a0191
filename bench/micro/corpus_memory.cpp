// Whether memory stays flat over a corpus of any size: makes a text of so many GB (default 10), packs it and walks
// through one epoch of batches, telling at each GB how much memory is resident. The text and its shard, twice the size,
// lie in TMPDIR meanwhile.
//
// Usage: corpus_memory [GB]
#include <fmt/format.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/machine.h"
#include "data/batcher.h"
#include "data/corpus.h"
#include "data/stories.h"
#include "report/progress.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kGigabyte = 1'000'000'000;

// One line for each GB that was passed.
class MemoryLog {
 public:
  explicit MemoryLog(std::string what) : what_(std::move(what)) {}
  void at(uint64_t bytes) {
    if (bytes < next_) return;
    fmt::print("{:<8} {:>5.1f} GB  {:>7.1f} MB resident  {:>6.1f} s\n", what_, static_cast<double>(bytes) / 1e9,
               static_cast<double>(resident_bytes()) / 1e6, steady_seconds() - start_);
    std::fflush(stdout);
    next_ = (bytes / kGigabyte + 1) * kGigabyte;
  }

 private:
  std::string what_;
  uint64_t next_ = 0;
  double start_ = steady_seconds();
};

// The same tales over and over: what is measured depends on their number, not on their words.
void write_text(const fs::path& path, uint64_t bytes) {
  constexpr uint64_t kTales = 2000;
  std::string block;
  for (uint64_t number = 0; number < kTales; ++number)
    block += make_story({.seed = 1, .typical_bytes = 10000}, number) + kStorySeparator;
  FileWriter file(path, bytes);
  MemoryLog log("text");
  while (file.written() < bytes) {
    file.write(block);
    log.at(file.written());
  }
  file.finish();
}

void run(uint64_t gigabytes, const fs::path& folder) {
  write_text(folder / "text.txt", gigabytes * kGigabyte);
  CorpusSpec spec;
  spec.sources = {{.inputs = {(folder / "text.txt").string()}}};
  spec.read.split_on = kStorySeparator;
  spec.cache_folder = (folder / "cache").string();
  MemoryLog pack_log("pack");
  Corpus corpus = open_corpus(spec, [&](const PackProgress& progress) { pack_log.at(progress.document_bytes); });
  const auto documents = std::make_shared<DocumentSet>(std::move(corpus.train));
  fmt::print("{} documents\n", documents->documents());

  BatchOptions options;
  Batcher batcher(documents, options);
  MemoryLog log("batches");
  uint64_t bytes = 0;
  for (int64_t step = 0; step < batcher.steps_per_epoch(); ++step) {
    for (const int64_t length : batcher.make(step).lengths) bytes += static_cast<uint64_t>(length);
    log.at(bytes);
  }
}

}  // namespace
}  // namespace pmnet

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  const int64_t gigabytes = argc > 1 ? std::atoll(argv[1]) : 10;
  if (argc > 2 || gigabytes < 1) {
    fmt::print(stderr, "usage: corpus_memory [GB]\n");
    return 2;
  }
  std::string folder = (fs::temp_directory_path() / "pmnet_corpus_XXXXXX").string();
  int code = 0;
  try {
    if (::mkdtemp(folder.data()) == nullptr)
      pmnet::fail("cannot make a folder in {}", fs::temp_directory_path().string());
    pmnet::run(static_cast<uint64_t>(gigabytes), folder);
  } catch (const pmnet::UserError& error) {
    fmt::print(stderr, "corpus_memory: {}\n", error.what());
    code = 2;
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return code;
}
