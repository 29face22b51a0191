#include <ATen/Parallel.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/atomic_folder.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/stop_signal.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/input_options.h"
#include "eval/eval_report.h"
#include "report/progress.h"
#include "train/open_model.h"

namespace pmnet {

namespace {

struct EvalOptions {
  std::string first_model;
  std::vector<std::string> more_models;
  InputOptions texts;
  DocumentLimits limits;
  EvalSettings settings;
  int64_t rows = 0;  // 0: chosen
  bool no_recurrence = false;
  std::vector<std::string> zero_embeddings;
  bool per_document = false;
  std::string json_file, csv_file, plot_file;
};

ZeroEmbeddings zeroed_by(const std::string& word) {
  return word == "all" ? ZeroEmbeddings::kAll : word == "root" ? ZeroEmbeddings::kRoot : ZeroEmbeddings::kLeaf;
}

// Each model as it is, and once more for every switch; what has no memory has no switches.
std::vector<Candidate> models_of(const EvalOptions& options) {
  std::vector<std::string> models = {options.first_model};
  models.insert(models.end(), options.more_models.begin(), options.more_models.end());
  std::vector<Candidate> candidates;
  bool switched = false;
  for (const std::string& text : models) {
    const NamedModel named = parse_named_model(text);
    const OpenedModel opened = open_model(named.folder);
    const auto add = [&](const std::string& suffix, const MemorySwitches& switches) {
      for (const Candidate& other : candidates)
        if (other.label == named.label + suffix)
          fail("two models are called '{}'; give them names: --model NAME={}", other.label, named.folder);
      candidates.push_back({.label = named.label + suffix, .model = opened.model, .switches = switches, .limit = 0});
    };
    add("", {});
    if (!has_memory(opened.config)) continue;
    if (options.no_recurrence) add(", no recurrence", {.recurrence = false});
    for (const std::string& word : options.zero_embeddings)
      add(fmt::format(", {} embeddings zero", word), {.zero_embeddings = zeroed_by(word)});
    switched = true;
  }
  if (!switched && (options.no_recurrence || !options.zero_embeddings.empty()))
    fail("--no-recurrence and --zero-embeddings need a PMNet with memory, and none of the models is one");
  return candidates;
}

void check(const EvalOptions& options) {
  const auto refuse_below = [](const char* name, int64_t value, int64_t least) {
    if (value < least) fail("{} is {}; expected at least {}", name, value, least);
  };
  refuse_below("--chunk", options.settings.chunk, 1);
  refuse_below("--window", options.settings.window, 1);
  refuse_below("--limit", options.limits.max_bytes, 0);
  refuse_below("--min-bytes", options.limits.min_bytes, 0);
  refuse_below("--documents", options.limits.documents, 0);
  refuse_below("--parallel", options.rows, 0);
  for (const std::string& file : {options.json_file, options.csv_file, options.plot_file})
    if (!file.empty() && std::filesystem::is_directory(file)) fail("{} is a folder; name a file", file);
}

Evaluation run(const EvalOptions& options, const std::vector<Candidate>& candidates, DocumentQueue& queue,
               const EvalSettings& settings) {
  const StopSignals signals;
  ProgressLine line;
  RateMeter share(1);
  const double started = steady_seconds();
  EvalHooks hooks;
  hooks.stop = [] { return StopSignals::requested(); };
  hooks.progress = [&](int64_t bytes, size_t documents) {
    double done = queue.share();
    if (options.limits.documents > 0)
      done = std::max(done, static_cast<double>(documents) / static_cast<double>(options.limits.documents));
    share.set_done(done);
    line.update([&] {
      return fmt::format("{:3.0f}%  {} documents  {} x {}  {}  {} left", 100 * share.share(), format_count(documents),
                         format_bytes(static_cast<uint64_t>(bytes)), candidates.size(),
                         format_byte_rate(static_cast<double>(bytes) / (steady_seconds() - started)),
                         format_duration(share.seconds_left()));
    });
  };
  return evaluate(candidates, queue, settings, hooks);
}

void require_texts(const EvalOptions& options, const DocumentQueue& queue, const Evaluation& evaluation) {
  if (evaluation.stopped) return;
  const auto found = static_cast<int64_t>(evaluation.documents.size());
  const std::string shorter = queue.too_short() > 0
                                  ? fmt::format(" ({} are shorter than --min-bytes {})",
                                                format_count(queue.too_short()), format_count(options.limits.min_bytes))
                                  : "";
  if (found == 0) fail("there is nothing to score: no document has any text{}; name other texts", shorter);
  if (found < options.limits.documents)
    fail("--documents asks for {} but there are only {}{}; ask for fewer or name more texts", options.limits.documents,
         found, shorter);
}

void write_files(const EvalOptions& options, const Evaluation& evaluation, const std::string& protocol) {
  if (!options.json_file.empty()) {
    nlohmann::ordered_json json{{"program", "pmnet " + version()}, {"protocol", protocol}};
    json.update(to_json(evaluation));
    write_file_atomically(options.json_file, json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  if (!options.csv_file.empty()) write_file_atomically(options.csv_file, curve_table(evaluation).csv());
  if (!options.plot_file.empty()) write_charts(eval_charts(evaluation), options.plot_file);
}

void run_eval(EvalOptions& options) {
  finish_input_options(options.texts);
  check(options);
  const std::vector<InputFile> files = find_inputs(options.texts.inputs);
  const std::vector<Candidate> candidates = models_of(options);
  EvalSettings settings = options.settings;
  settings.rows = options.rows > 0 ? options.rows : rows_for_threads(at::get_num_threads());
  DocumentQueue queue(files, options.texts.read, options.limits);
  const Evaluation evaluation = run(options, candidates, queue, settings);
  require_texts(options, queue, evaluation);

  const std::string protocol = protocol_of(settings, options.limits);
  fmt::print("protocol  {}\n", protocol);
  fmt::print("texts     {} documents, {}{}{}\n", format_count(evaluation.documents.size()),
             format_bytes(static_cast<uint64_t>(evaluation.bytes())),
             queue.too_short() > 0 ? fmt::format("; {} too short", format_count(queue.too_short())) : "",
             evaluation.stopped ? "; STOPPED before the end, what follows is what had been read" : "");
  for (const auto& [reason, skip] : queue.skips())
    fmt::print("skipped   {} x {}, first: {}\n", format_count(skip.count), reason, skip.first);
  if (evaluation.marker_bytes > 0)
    fmt::print("note      {} bytes of the texts are ones that a model takes for the start or end of a text\n",
               format_count(static_cast<uint64_t>(evaluation.marker_bytes)));
  if (evaluation.documents.empty()) return;
  fmt::print("\n{}\n{}", model_table(evaluation).text(), octave_table(evaluation).text());
  if (options.per_document) fmt::print("\n{}", document_table(evaluation).text());
  write_files(options, evaluation, protocol);
}

}  // namespace

void add_eval_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("eval", "Bits per byte of texts of any length, by position");
  const auto o = std::make_shared<EvalOptions>();
  const auto size = [](CLI::Option* option) {
    option->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))->type_name("N");
  };
  command->add_option("model", o->first_model, "Model folder or folder of a training run; NAME=DIR gives it a name")
      ->type_name("DIR")
      ->required();
  add_input_options(*command, o->texts);
  command->add_option("--model", o->more_models, "A further model, beside the first; may be repeated")
      ->type_name("NAME=DIR")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--no-recurrence", o->no_recurrence, "Also every PMNet whose memory keeps nothing");
  command->add_option("--zero-embeddings", o->zero_embeddings, "Also every PMNet without these memory embeddings")
      ->delimiter(',')
      ->check(CLI::IsMember({"all", "root", "leaf"}))
      ->type_name("all,root,leaf");
  size(command->add_option("--limit", o->limits.max_bytes, "Read only the first bytes of each document, such as 128k"));
  size(command->add_option("--min-bytes", o->limits.min_bytes, "Leave out documents shorter than this"));
  size(command->add_option("--documents", o->limits.documents, "Stop after so many documents"));
  size(command->add_option("--chunk", o->settings.chunk, "Bytes of a document per pass")->capture_default_str());
  size(command
           ->add_option("--window", o->settings.window,
                        "Bytes per point of the windowed curve; doubled as often as a text is too long for it")
           ->capture_default_str());
  size(command->add_option("--parallel", o->rows, "Documents to read at once [by the number of threads]"));
  command->add_flag("--score-eos", o->settings.score_eos, "Score the end of each whole document too");
  command->add_flag("--per-document", o->per_document, "Also print one line per document");
  command->add_option("--json", o->json_file, "Write everything to this file")->type_name("FILE");
  command->add_option("--csv", o->csv_file, "Write the curves to this file")->type_name("FILE");
  command->add_option("--plot", o->plot_file, "Draw the curves to this .svg or .png file")->type_name("FILE");
  command->footer("Ctrl-C ends it early and prints what has been read so far; a second one ends it at once.");
  command->callback([o] { run_eval(*o); });
}

}  // namespace pmnet
