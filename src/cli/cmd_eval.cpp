#include <ATen/Parallel.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/stop_signal.h"
#include "cli/commands.h"
#include "cli/enum_option.h"
#include "cli/input_options.h"
#include "cli/model_argument.h"
#include "cli/outputs.h"
#include "cli/size_option.h"
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
  EvalSettings settings{.rows = 0};  // 0: by the number of threads
  bool no_recurrence = false;
  std::vector<std::string> zero_embeddings;
  bool per_document = false;
  EvalFiles files;
  bool force = false;
};

// Each model as it is, and once more for every switch; models without memory have no switches.
std::vector<Candidate> candidates_of(const EvalOptions& options) {
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
      candidates.push_back(
          {.label = named.label + suffix, .engine = make_engine(opened.weights, switches), .limit = 0});
    };
    add("", {});
    if (!has_memory(opened.config)) continue;
    if (options.no_recurrence) add(", no recurrence", {.recurrence = false});
    for (const std::string& word : options.zero_embeddings)
      add(fmt::format(", {} embeddings zero", word), {.zero_embeddings = *find_enum<ZeroEmbeddings>(word)});
    switched = true;
  }
  if (!switched && (options.no_recurrence || !options.zero_embeddings.empty()))
    fail("--no-recurrence and --zero-embeddings need a PMNet with memory, and none of the models is one");
  return candidates;
}

void check(const EvalOptions& options, const std::vector<InputFile>& inputs) {
  const auto refuse_below = [](const char* name, int64_t value, int64_t least) {
    if (value < least) fail("{} is {}; expected at least {}", name, value, least);
  };
  refuse_below("--chunk", options.settings.chunk, 1);
  refuse_below("--window", options.settings.window, 1);
  refuse_below("--limit", options.limits.max_bytes, 0);
  refuse_below("--min-bytes", options.limits.min_bytes, 0);
  refuse_below("--documents", options.limits.documents, 0);
  refuse_below("--parallel", options.settings.rows, 0);
  OutputRules rules{.force = options.force, .inputs = {}};
  for (const InputFile& input : inputs) rules.inputs.emplace_back(input.path);
  for (const std::string& file : {options.files.json, options.files.csv, options.files.plot})
    require_free_file(file, rules);
}

Evaluation evaluate_with_progress(const std::vector<Candidate>& candidates, DocumentQueue& queue,
                                  const EvalSettings& settings, int64_t documents_wanted) {
  const StopSignals signals;
  ProgressLine line;
  RateMeter share(1);
  const double started = steady_seconds();
  EvalHooks hooks;
  hooks.stop = [] { return StopSignals::requested(); };
  hooks.progress = [&](int64_t bytes, size_t documents) {
    double done = queue.share();
    if (documents_wanted > 0)
      done = std::max(done, static_cast<double>(documents) / static_cast<double>(documents_wanted));
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

void run_eval(EvalOptions& options) {
  const std::vector<InputFile> inputs = find_inputs(options.texts.inputs);
  check(options, inputs);
  EvalSettings settings = options.settings;
  if (settings.rows == 0) settings.rows = rows_for_threads(at::get_num_threads());
  DocumentQueue queue(inputs, options.texts.read, options.limits);
  const Evaluation evaluation =
      evaluate_with_progress(candidates_of(options), queue, settings, options.limits.documents);
  require_documents(evaluation, queue, options.limits);
  const std::string protocol = protocol_of(settings, options.limits);
  fmt::print("{}", eval_summary(evaluation, queue, protocol, options.per_document));
  write_files(options.files, evaluation, protocol);
}

}  // namespace

void add_eval_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("eval", "Measure bits per byte of texts of any length, by position");
  const auto o = std::make_shared<EvalOptions>();
  command->add_option("model", o->first_model, fmt::format("{}; NAME=DIR gives it a name", kModelHelp))
      ->type_name("DIR");
  add_input_options(*command, o->texts)->required(false);
  command->add_option("--model", o->more_models, "A further model to compare with the first; may be repeated")
      ->type_name("NAME=DIR")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--no-recurrence", o->no_recurrence, "Also score each PMNet with memory recurrence disabled");
  command
      ->add_option("--zero-embeddings", o->zero_embeddings,
                   "Also score each PMNet with these memory embeddings set to zero")
      ->delimiter(',')
      ->check(CLI::IsMember({"all", "root", "leaf"}))
      ->type_name("all,root,leaf");
  as_size(
      command->add_option("--limit", o->limits.max_bytes, "Read only so many bytes of each document, such as 128k"));
  as_size(command->add_option("--min-bytes", o->limits.min_bytes, "Skip documents shorter than this"));
  as_size(command->add_option("--documents", o->limits.documents, "Stop after this many documents"));
  as_size(command->add_option("--chunk", o->settings.chunk, "Bytes of a document per pass")->capture_default_str());
  as_size(command
              ->add_option("--window", o->settings.window,
                           "Bytes per point of the windowed curve; doubled while a text has too many points")
              ->capture_default_str());
  as_size(command->add_option("--parallel", o->settings.rows, "Documents to read at once [by the number of threads]"));
  command->add_flag("--score-eos", o->settings.score_eos, "Also score EOS at the end of each whole document");
  add_enum_option(*command, "--protocol", o->settings.protocol,
                  "Carry every state through a document, or evaluate as the paper's scripts do");
  command->add_flag("--per-document", o->per_document, "Also print one line per document");
  command->add_option("--json", o->files.json, "Write all results to this file")->type_name("FILE");
  command->add_option("--csv", o->files.csv, "Write the curves to this file")->type_name("FILE");
  command->add_option("--plot", o->files.plot, "Plot the curves to this .svg or .png file")->type_name("FILE");
  add_force_option(*command, o->force);
  command->footer("Ctrl-C stops early and prints the results so far; a second Ctrl-C exits at once.");
  command->callback([o] {
    default_model(o->first_model, o->texts.inputs);
    run_eval(*o);
  });
}

}  // namespace pmnet
