// Whole evaluations and training runs, as the commands of the program do them.
#include <ATen/Parallel.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <numbers>

#include "base/error.h"
#include "base/stop_signal.h"
#include "bindings.h"
#include "config/train_options.h"
#include "eval/eval_report.h"
#include "train/run.h"

namespace pmnet::python {
namespace {

struct EvalArguments {
  std::vector<std::string> inputs, labels;
  std::vector<std::shared_ptr<Model>> models;
  bool no_recurrence = false;
  DocumentLimits limits;
  EvalSettings settings;
  std::string text_field, split_on;
};

// The JSON that 'pmnet eval --json' writes.
std::string evaluate_inputs(const EvalArguments& a) {
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < a.models.size(); ++i) {
    const Model& model = *a.models[i];
    candidates.push_back({.label = a.labels[i], .engine = model.engine, .limit = 0});
    if (!a.no_recurrence) continue;
    if (!model.weights) fail("'{}' is quantized; the memory of a float32 model can be disabled", a.labels[i]);
    candidates.push_back({.label = a.labels[i] + ", no recurrence",
                          .engine = make_engine(model.weights, {.recurrence = false}),
                          .limit = 0});
  }
  ReadOptions read;
  read.text_field = a.text_field;
  read.split_on = a.split_on;
  EvalSettings settings = a.settings;
  if (settings.rows == 0) settings.rows = rows_for_threads(at::get_num_threads());
  DocumentQueue queue(find_inputs(a.inputs), read, a.limits);
  const Evaluation evaluation = evaluate(candidates, queue, settings);
  require_documents(evaluation, queue, a.limits);
  nlohmann::ordered_json json{{"protocol", protocol_of(settings, a.limits)}};
  json.update(to_json(evaluation));
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const char* name_of(StepOutcome outcome) {
  constexpr const char* kNames[] = {"updated", "not_finite", "spike", "stopped"};
  return kNames[static_cast<int>(outcome)];
}

const char* name_of(RunSummary::End end) {
  constexpr const char* kNames[] = {"finished", "finished_before", "stopped", "not_finite"};
  return kNames[static_cast<int>(end)];
}

nb::dict step_dict(const StepReport& report, const TrainerProgress& progress) {
  nb::dict step;
  step["step"] = progress.step;
  step["bytes"] = progress.bytes;
  step["outcome"] = name_of(report.outcome);
  step["loss"] = report.loss;
  step["bits_per_byte"] = report.loss / std::numbers::ln2;
  step["scored"] = report.scored;
  step["gradient_norm"] = report.gradient_norm;
  step["learning_rate"] = report.learning_rate;
  return step;
}

using Settings = std::vector<std::pair<std::string, std::vector<std::string>>>;

TrainConfig merged(const RunRequest& request, const std::string& run_file, const Settings& settings) {
  TrainConfig config;
  const std::filesystem::path saved = request.out / "run.toml";
  if (request.resume && std::filesystem::exists(saved)) read_run_file(config, saved);
  if (!run_file.empty()) read_run_file(config, run_file);
  for (const auto& [key, values] : settings) set_option(config, {key, values, "train()"});
  return config;
}

nb::dict train(const std::string& out, const Settings& settings, const std::string& run_file, bool resume, bool force,
               const nb::object& on_step) {
  RunRequest request{.out = out, .resume = resume, .force = force};
  if (!on_step.is_none())
    request.on_step = [&](const StepReport& report, const TrainerProgress& progress) {
      const nb::gil_scoped_acquire python;
      return !on_step(step_dict(report, progress)).is(nb::handle(Py_False));
    };
  const RunSummary summary = without_gil([&] {
    ProcessGroup group;
    return run_training(merged(request, run_file, settings), request, group);
  });
  nb::dict result;
  result["end"] = name_of(summary.end);
  result["step"] = summary.step;
  result["bits_per_byte"] = summary.train_bpb;
  result["validation_bits_per_byte"] = summary.validation_bpb;
  result["checkpoint"] = summary.checkpoint.string();
  result["seconds"] = summary.seconds;
  result["bytes_per_second"] = summary.bytes_per_second;
  return result;
}

}  // namespace

void bind_jobs(nb::module_& m) {
  m.def(
      "evaluate",
      [](const std::vector<std::shared_ptr<Model>>& models, const std::vector<std::string>& labels,
         const std::vector<std::string>& inputs, int64_t limit, int64_t min_bytes, int64_t documents, int64_t chunk,
         int64_t parallel, bool score_eos, bool no_recurrence, const std::string& text_field,
         const std::string& split_on) {
        const EvalArguments arguments{.inputs = inputs,
                                      .labels = labels,
                                      .models = models,
                                      .no_recurrence = no_recurrence,
                                      .limits = {.max_bytes = limit, .min_bytes = min_bytes, .documents = documents},
                                      .settings = {.chunk = chunk, .rows = parallel, .score_eos = score_eos},
                                      .text_field = text_field,
                                      .split_on = split_on};
        return without_gil([&] { return evaluate_inputs(arguments); });
      },
      nb::arg("models"), nb::arg("labels"), nb::arg("inputs"), nb::arg("limit"), nb::arg("min_bytes"),
      nb::arg("documents"), nb::arg("chunk"), nb::arg("parallel"), nb::arg("score_eos"), nb::arg("no_recurrence"),
      nb::arg("text_field"), nb::arg("split_on"));
  m.def("train_options", [] {
    std::vector<std::pair<std::string, std::string>> keys;
    for (const TrainOption& option : train_options()) keys.emplace_back(option.key, option.help_text());
    return keys;
  });
  m.def("train", &train, nb::arg("out"), nb::arg("settings"), nb::arg("run_file"), nb::arg("resume"), nb::arg("force"),
        nb::arg("on_step").none());
}

}  // namespace pmnet::python
