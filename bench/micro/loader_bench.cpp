// How fast text becomes batches, next to how fast a small model eats them.
//
//   read/<format>    documents out of a file, decoding alone
//   pack/<format>    from a file to the first batch of a run that has never seen it: what a run waits for once
//   batches/<mode>   batches out of the packed documents: what every step waits for
//   train/3m         training, all threads
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/amx_guard.h"
#include "base/error.h"
#include "bench/case.h"
#include "data/batcher.h"
#include "data/corpus.h"
#include "data/stories.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kTextBytes = uint64_t{64} << 20;
constexpr int64_t kRows = 8, kContext = 2048;

// The same text in every format, in a folder that goes with the program.
class Texts {
 public:
  Texts() {
    std::string name = (fs::temp_directory_path() / "pmnet_loader_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail("cannot make a folder in {}", fs::temp_directory_path().string());
    folder_ = name;
    write_stories(file("txt"), kTextBytes, {.typical_bytes = 20000});
    const std::string root = PMNET_SOURCE_DIR;
    const std::string command =
        fmt::format("'{0}/.venv/bin/python' '{0}/bench/micro/write_formats.py' '{1}' '\\n\\n\\n'", root, file("txt"));
    if (std::system(command.c_str()) != 0)
      fail(
          "bench/micro/write_formats.py could not write the text in other formats; './pmnet info' sets up the Python "
          "it "
          "needs");
  }
  ~Texts() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string file(const std::string& ending) const { return (folder_ / ("text." + ending)).string(); }
  fs::path folder() const { return folder_; }

 private:
  fs::path folder_;
};

ReadOptions read_options() {
  ReadOptions options;
  options.split_on = kStorySeparator;
  return options;
}

CorpusSpec corpus_of(const Texts& texts, const std::string& ending, const fs::path& cache) {
  CorpusSpec spec;
  spec.sources = {{.inputs = {texts.file(ending)}}};
  spec.read = read_options();
  spec.cache_folder = cache.string();
  return spec;
}

BatchOptions batch_options(SampleMode mode) {
  BatchOptions options;
  options.mode = mode;
  options.rows = kRows;
  options.context = kContext;
  return options;
}

void time_read(benchmark::State& state, const Texts& texts, const std::string& ending) {
  const InputFile file = find_inputs({texts.file(ending)}).at(0);
  int64_t bytes = 0;
  for ([[maybe_unused]] auto iteration : state) {
    SkipLog skips;
    const auto reader = open_documents(file, read_options(), skips);
    while (reader->next())
      for (std::string_view piece = reader->piece(); !piece.empty(); piece = reader->piece())
        bytes += static_cast<int64_t>(piece.size());
  }
  state.SetBytesProcessed(bytes);
}

void time_pack(benchmark::State& state, const Texts& texts, const std::string& ending) {
  const fs::path cache = texts.folder() / "cache";
  int64_t bytes = 0;
  for ([[maybe_unused]] auto iteration : state) {
    const Corpus corpus = open_corpus(corpus_of(texts, ending, cache));
    Batcher batcher(std::make_shared<DocumentSet>(corpus.train), batch_options(SampleMode::kPacked));
    benchmark::DoNotOptimize(batcher.make(0).hash);
    bytes += static_cast<int64_t>(corpus.train.bytes());
    state.PauseTiming();
    fs::remove_all(cache);
    state.ResumeTiming();
  }
  state.SetBytesProcessed(bytes);
}

void time_batches(benchmark::State& state, const Texts& texts, SampleMode mode) {
  const Corpus corpus = open_corpus(corpus_of(texts, "txt", texts.folder() / "kept"));
  Batcher batcher(std::make_shared<DocumentSet>(corpus.train), batch_options(mode));
  int64_t step = 0, bytes = 0;
  for ([[maybe_unused]] auto iteration : state)
    for (const int64_t length : batcher.make(step++).lengths) bytes += length;
  state.SetBytesProcessed(bytes);
}

void time_training(benchmark::State& state) {
  const BenchCase bench_case{.what = "train", .preset = "3m", .context = kContext, .batch = kRows};
  double rate = 0;
  for ([[maybe_unused]] auto iteration : state) rate = run_case(bench_case).bytes_per_second;
  state.counters["bytes_per_second"] = rate;
}

void register_all(const Texts& texts) {
  using benchmark::RegisterBenchmark;
  for (const char* ending : {"txt", "gz", "zst", "jsonl", "jsonl.gz", "jsonl.zst", "parquet"}) {
    RegisterBenchmark(fmt::format("read/{}", ending).c_str(), time_read, std::cref(texts), ending)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
    RegisterBenchmark(fmt::format("pack/{}", ending).c_str(), time_pack, std::cref(texts), ending)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
  const std::pair<const char*, SampleMode> modes[] = {
      {"packed", SampleMode::kPacked}, {"per_document", SampleMode::kPerDocument}, {"carry", SampleMode::kCarry}};
  for (const auto& [name, mode] : modes)
    RegisterBenchmark(fmt::format("batches/{}", name).c_str(), time_batches, std::cref(texts), mode)
        ->Unit(benchmark::kMicrosecond)
        ->UseRealTime();
  RegisterBenchmark("train/3m", time_training)->Iterations(1)->Unit(benchmark::kMillisecond)->UseRealTime();
}

}  // namespace
}  // namespace pmnet

int main(int argc, char** argv) {
  pmnet::guard_against_broken_amx();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  try {
    const pmnet::Texts texts;
    pmnet::register_all(texts);
    benchmark::RunSpecifiedBenchmarks();
  } catch (const pmnet::UserError& error) {
    fmt::print(stderr, "loader_bench: {}\n", error.what());
    return 2;
  }
  return 0;
}
