#include <fmt/ranges.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/standard_streams.h"
#include "base/stop_signal.h"
#include "cli/commands.h"
#include "cli/input_options.h"
#include "cli/model_argument.h"
#include "cli/outputs.h"
#include "cli/size_option.h"
#include "data/byte_tokenizer.h"
#include "eval/documents.h"
#include "eval/inspect_page.h"
#include "eval/scorer.h"
#include "report/progress.h"
#include "train/open_model.h"

namespace pmnet {

namespace {

constexpr int64_t kLargestLimit = int64_t{4} << 20;  // the results of every byte are held in memory

struct InspectOptions {
  std::string model, out = "inspect.html", tensors;
  InputOptions input;
  int64_t limit = 16384;
  std::vector<std::string> slots;
  bool force = false;
};

struct Excerpt {
  std::string name, bytes;
};

Excerpt read_excerpt(const InspectOptions& options) {
  DocumentQueue queue(find_inputs(options.input.inputs), options.input.read,
                      {.max_bytes = options.limit, .min_bytes = 0, .documents = 1});
  std::optional<DocumentCursor> document = queue.next();
  if (!document) fail("{}: holds no text; name a file that does", fmt::join(options.input.inputs, " "));
  return {document->name(), document->read(static_cast<size_t>(options.limit))};
}

void check(const InspectOptions& options) {
  if (options.limit < 1 || options.limit > kLargestLimit)
    fail("--limit is {}; expected a number of bytes from 1 to {}", options.limit, kLargestLimit);
  OutputRules rules{.force = options.force, .inputs = {}};
  for (const InputFile& input : find_inputs(options.input.inputs)) rules.inputs.emplace_back(input.path);
  for (const std::string& file : {options.out, options.tensors}) require_free_file(file, rules);
}

void run_inspect(const InspectOptions& options) {
  check(options);
  Excerpt excerpt = read_excerpt(options);
  const OpenedModel opened = open_model(options.model);
  require_memory(*opened.engine, options.model);
  require_byte_vocabulary(*opened.engine, options.model);
  std::vector<SlotName> slots = parse_slots(*opened.engine, options.slots);
  if (const auto special = ByteTokenizer(opened.config).find_special_byte(excerpt.bytes))
    print_error("note: byte {} of the text is BOS or EOS to this model", *special);

  const StopSignals signals;
  ProgressLine progress;
  const auto total = static_cast<double>(excerpt.bytes.size());
  RateMeter meter(total);
  const Inspection inspection = inspect(opened.engine, std::move(excerpt.bytes), [&](int64_t bytes_read) {
    meter.set_done(static_cast<double>(bytes_read));
    progress.update([&] {
      return fmt::format("{} of {} bytes, {}, {} left", format_count(bytes_read),
                         format_count(static_cast<uint64_t>(total)), format_byte_rate(meter.rate()),
                         format_duration(meter.seconds_left()));
    });
    return !StopSignals::requested();
  });
  progress.finish();
  if (StopSignals::requested()) print_error("note: stopped; the page shows what was read");

  if (slots.empty()) slots = busiest_slots(inspection);
  inspection_page(inspection, slots, {.model = options.model, .text = excerpt.name}).write_html(options.out);
  if (!options.tensors.empty()) write_tensors(inspection, options.tensors);
  fmt::print("{} bytes of {} at {:.4f} bits per byte (one sequence, BOS fed and not scored)\n",
             format_count(inspection.num_bytes()), excerpt.name, inspection.bits_per_byte());
  fmt::print("{}\n", options.out);
  if (!options.tensors.empty()) fmt::print("{}\n", options.tensors);
}

}  // namespace

void add_inspect_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("inspect", "Write a page that shows how the memory reads a text");
  const auto options = std::make_shared<InspectOptions>();
  command->add_option("model", options->model, kModelHelp)->type_name("DIR");
  add_input_options(*command, options->input)->required(false);
  command->add_option("--out", options->out, "Page to write")->type_name("FILE")->capture_default_str();
  command->add_option("--tensors", options->tensors, "Also write the numbers to this .safetensors file")
      ->type_name("FILE");
  as_size(command->add_option("--limit", options->limit, "Bytes of the text to read")->capture_default_str());
  command
      ->add_option("--slots", options->slots,
                   "Slots whose phases are drawn, LEVEL.GROUP.SLOT or LEVEL.GROUP [busiest group of each level]")
      ->type_name("SLOT")
      ->delimiter(',');
  add_force_option(*command, options->force);
  command->footer("Only the first document of the inputs is read.");
  command->callback([options] {
    default_model(options->model, options->input.inputs);
    run_inspect(*options);
  });
}

}  // namespace pmnet
