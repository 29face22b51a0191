#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/input_options.h"
#include "cli/outputs.h"
#include "cli/seed_option.h"
#include "cli/size_option.h"
#include "data/corpus_stat.h"
#include "data/shard_cache.h"
#include "data/stories.h"
#include "report/progress.h"
#include "report/table.h"

namespace pmnet {

namespace {

class PackDisplay {
 public:
  PackCallback callback() {
    return [this](const PackProgress& progress) {
      if (!meter_) meter_ = std::make_unique<RateMeter>(static_cast<double>(progress.total_input_bytes));
      meter_->set_done(static_cast<double>(progress.input_bytes));
      line_.update([&] {
        return fmt::format("{:3.0f}%  {} documents  {}  {}  {} left", 100 * meter_->share(),
                           format_count(progress.documents), format_bytes(progress.document_bytes),
                           format_byte_rate(meter_->rate()), format_duration(meter_->seconds_left()));
      });
    };
  }

 private:
  ProgressLine line_;
  std::unique_ptr<RateMeter> meter_;
};

void print_skips(const SkipLog& skips) {
  for (const auto& [reason, skip] : skips)
    fmt::print("skipped  {} x {}, first: {}\n", format_count(skip.count), reason, skip.first);
}

void print_lengths(const CorpusStat& stat) {
  std::array<uint64_t, 65> histogram{};  // [k]: documents of 2^(k-1) to 2^k - 1 bytes
  for (const auto& [length, documents] : stat.lengths) histogram[std::bit_width(length)] += documents;
  const uint64_t most = *std::max_element(histogram.begin(), histogram.end());
  Table table({"document bytes", "documents", ""});
  for (size_t k = 1; k < histogram.size(); ++k) {
    const uint64_t count = histogram[k];
    if (count == 0) continue;
    table.add_row({fmt::format("{} to {}", format_count(uint64_t{1} << (k - 1)), format_count((uint64_t{1} << k) - 1)),
                   format_count(count), std::string((count * 40 + most - 1) / most, '#')});
  }
  fmt::print("\n{}", table.text());
}

void print_stat(const CorpusStat& stat) {
  Table table({"format", "files", "on disk", "documents", "text"});
  const auto add = [&](const std::string& name, const FormatCount& count) {
    table.add_row({name, format_count(count.files), format_bytes(count.file_bytes), format_count(count.documents),
                   format_bytes(count.document_bytes)});
  };
  for (const auto& [name, count] : stat.by_format) add(name, count);
  add("total", stat.total);
  fmt::print("{}", table.text());
  if (stat.total.documents > 0) {
    fmt::print("\nshortest {}, mean {}, median {}, longest {}\n", format_bytes(stat.length_quantile(0)),
               format_bytes(stat.total.document_bytes / stat.total.documents), format_bytes(stat.length_quantile(0.5)),
               format_bytes(stat.length_quantile(1)));
    print_lengths(stat);
    fmt::print("\nsample   {}\n{}\n", stat.sample_origin, printable(stat.sample));
  }
  if (stat.prompt_documents > 0)
    fmt::print("\nprompts  {} documents begin with one, {} in all; they are read but not trained on\n",
               format_count(stat.prompt_documents), format_bytes(stat.prompt_bytes));
  fmt::print("\n");
  print_skips(stat.skips);
  if (stat.documents_with_marker_bytes > 0)
    fmt::print(
        "note     {} document(s) hold the bytes 254 or 255, the usual BOS and EOS ({} times, first in {}): this is "
        "not UTF-8 text; train with BOS and EOS at the free ids 256 and 257\n",
        format_count(stat.documents_with_marker_bytes), format_count(stat.marker_bytes), stat.first_with_marker);
  for (const std::string& reason : stat.refused) fmt::print("refused  {}\n", reason);
}

void run_stat(const InputOptions& options) {
  CorpusStat stat;
  {
    PackDisplay display;
    stat = examine_inputs(options.inputs, options.read, display.callback());
  }
  print_stat(stat);
  if (!stat.refused.empty())
    fail("{} of {} files cannot be read, see above; training on them would stop", stat.refused.size(),
         stat.total.files);
  if (stat.total.documents == 0) fail("the corpus is empty: no document has any text; name other data");
}

void run_pack(const InputOptions& options, const std::string& out, bool force) {
  if (!out.ends_with(".pmshard")) fail("--out is '{}'; expected a name that ends in .pmshard", out);
  const std::vector<InputFile> inputs = find_inputs(options.inputs);
  OutputRules rules{.force = force, .inputs = {}};
  for (const InputFile& input : inputs) rules.inputs.emplace_back(input.path);
  require_free_file(out, rules);
  PackResult result;
  {
    PackDisplay display;
    result = pack_files(inputs, options.read, out, display.callback());
  }
  print_skips(result.skips);
  fmt::print("{}: {} documents, {}\n", out, format_count(result.documents), format_bytes(result.document_bytes));
}

struct StoriesOptions {
  std::string out;
  bool force = false;
  int64_t bytes = 10'000'000;
  int64_t typical_bytes = static_cast<int64_t>(StoryOptions().typical_bytes);
  StoryOptions story;
};

void run_stories(const StoriesOptions& options) {
  constexpr int64_t kMinLength = 100, kMaxLength = 1'000'000'000;
  if (options.bytes < 1) fail("--bytes is {}; expected a number above 0", options.bytes);
  if (options.typical_bytes < kMinLength || options.typical_bytes > kMaxLength)
    fail("--length is {}; expected a number from {} to {}", options.typical_bytes, kMinLength, kMaxLength);
  require_free_file(options.out, {.force = options.force, .inputs = {}});
  StoryOptions story = options.story;
  story.typical_bytes = static_cast<uint64_t>(options.typical_bytes);
  RateMeter meter(static_cast<double>(options.bytes));
  uint64_t stories = 0;
  {
    ProgressLine line;
    stories = write_stories(options.out, static_cast<uint64_t>(options.bytes), story, [&](uint64_t done) {
      meter.set_done(static_cast<double>(done));
      line.update([&] {
        return fmt::format("{:3.0f}%  {}  {} left", 100 * meter.share(), format_byte_rate(meter.rate()),
                           format_duration(meter.seconds_left()));
      });
    });
  }
  fmt::print("{}: {} synthetic stories\n", options.out, format_count(stories));
  if (!options.out.ends_with(".jsonl"))
    fmt::print("stories are two empty lines apart: read them as documents with --split-on '\\n\\n\\n'\n");
}

}  // namespace

void add_data_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("data", "Inspect, pack or generate training text");
  command->require_subcommand(1);

  const auto stat_options = std::make_shared<InputOptions>();
  CLI::App* stat =
      command->add_subcommand("stat", "Count documents and bytes; print a sample and what would be skipped");
  add_input_options(*stat, *stat_options);
  stat->callback([stat_options] { run_stat(*stat_options); });

  const auto pack_options = std::make_shared<InputOptions>();
  const auto out = std::make_shared<std::string>();
  const auto force = std::make_shared<bool>(false);
  CLI::App* pack = command->add_subcommand("pack", "Write one shard that training reads without preparation");
  add_input_options(*pack, *pack_options);
  pack->add_option("--out", *out, "Shard to write, a name that ends in .pmshard")->type_name("FILE")->required();
  add_force_option(*pack, *force);
  pack->callback([pack_options, out, force] { run_pack(*pack_options, *out, *force); });

  const auto stories_options = std::make_shared<StoriesOptions>();
  CLI::App* stories =
      command->add_subcommand("stories", "Generate synthetic stories whose ends need facts from their beginnings");
  stories->add_option("out,--out", stories_options->out, "File to write; .jsonl for one record per story")
      ->type_name("FILE")
      ->required();
  as_size(stories->add_option("--bytes", stories_options->bytes, "How much text, such as 10M")->capture_default_str());
  require_seed(stories->add_option("--seed", stories_options->story.seed, "Random seed")->capture_default_str());
  as_size(stories->add_option("--length", stories_options->typical_bytes, "Typical bytes of a story")
              ->capture_default_str());
  add_force_option(*stories, stories_options->force);
  stories->callback([stories_options] { run_stories(*stories_options); });
}

}  // namespace pmnet
