#include "config/train_options.h"

#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/suggest.h"
#include "config/option_value.h"

namespace pmnet {
namespace {

using C = TrainConfig;
constexpr bool kFixed = true, kFree = false;

const std::array kOptions = std::to_array<TrainOption>({
    {"model.preset", "--preset", "Named shape with random weights, see 'pmnet info'", &C::preset, kFixed},
    {"model.config", "--config", "Shape from a config.json or a folder with one, random weights", &C::model_config,
     kFixed},
    {"model.init", "--init", "Model folder to go on from, with a fresh optimizer", &C::init, kFixed},
    {"model.arch", "--arch", "pmnet, or a baseline of equal size: transformer, mamba", &C::architecture, kFixed},
    {"model.dropout", "--dropout", "On attention probabilities; negative: as the model says", &C::dropout, kFixed},
    {"model.binary", "--binary", "BOS and EOS at ids 256 and 257, for data that is not text", &C::binary, kFixed},

    {"data.inputs", "--data", "Files, folders and globs to train on", &C::inputs, kFree},
    {"data.weights", "--weights", "Share of the samples, one number per input", &C::weights, kFixed},
    {"data.validation", "--validation", "Held-out text of its own", &C::validation, kFree},
    {"data.hold_out", "--hold-out", "Held out of the data: auto, hash, tail, path, none", &C::hold_out, kFixed},
    {"data.hold_out_fraction", "", "How much of it", &C::hold_out_fraction, kFixed},
    {"data.hold_out_patterns", "", "Files to hold out, with hold_out = \"path\"", &C::hold_out_patterns, kFixed},
    {"data.samples", "--samples", "packed, or one document per sample: document", &C::samples, kFixed},
    {"data.text_field", "--text-field", "JSONL field or Parquet column with the text", &C::text_field, kFixed},
    {"data.prompt_field", "", "JSONL field that is read but not trained on", &C::prompt_field, kFixed},
    {"data.completion_field", "", "JSONL field that follows the prompt", &C::completion_field, kFixed},
    {"data.split_on", "--split-on", "Cuts plain files into documents", &C::split_on, kFixed},
    {"data.skip_bad", "--skip-bad", "Skip malformed records instead of stopping", &C::skip_bad, kFixed},
    {"data.cache", "--cache", "Folder for packed data", &C::cache, kFree},

    {"train.batch", "--batch", "Samples per step, all ranks together", &C::batch, kFixed},
    {"train.accumulation", "--accumulation", "Passes that each rank cuts its samples into", &C::accumulation, kFree},
    {"train.context", "--context", "Bytes per sample", &C::context, kFixed},
    {"train.context_schedule", "--context-schedule", "Later contexts, STEP:CONTEXT", &C::context_schedule, kFixed},
    {"train.chunk", "--chunk", "Bytes per pass with exact gradients; 0: whole samples", &C::chunk, kFree},
    {"train.steps", "--steps", "Length of the run; 0: from the bytes", &C::steps, kFree},
    {"train.bytes", "--bytes", "Length of the run in bytes, such as 500M", &C::bytes, kFree},
    {"train.seed", "--seed", "Of weights, order of the data and dropout", &C::seed, kFixed},
    {"train.carry", "--carry", "Carry memory from sample to sample of a document", &C::carry, kFixed},
    {"train.threads", "", "Threads per rank; 0: the cores divided among the ranks", &C::threads, kFree},
    {"train.device", "--device", "cpu or cuda", &C::device, kFree},
    {"train.timeout_seconds", "--timeout", "How long ranks wait for each other", &C::timeout_seconds, kFree},

    {"optimizer.lr", "--lr", "Learning rate after the warm-up", &C::learning_rate, kFree},
    {"optimizer.schedule", "--schedule",
     "After the warm-up: cosine, constant, or wsd (constant, then a linear decay), which a longer run can prolong",
     &C::schedule, kFree},
    {"optimizer.min_lr_ratio", "--min-lr-ratio", "Where cosine and wsd end, as a share of the learning rate",
     &C::min_lr_ratio, kFree},
    {"optimizer.decay_fraction", "", "wsd: share of the steps over which the learning rate decays", &C::decay_fraction,
     kFree},
    {"optimizer.warmup", "--warmup", "Steps of linear warm-up", &C::warmup, kFree},
    {"optimizer.beta1", "", "AdamW", &C::beta1, kFree},
    {"optimizer.beta2", "", "AdamW", &C::beta2, kFree},
    {"optimizer.eps", "", "AdamW", &C::eps, kFree},
    {"optimizer.weight_decay", "--weight-decay", "AdamW", &C::weight_decay, kFree},
    {"optimizer.decay_everything", "", "Also norms, biases and embeddings", &C::decay_everything, kFree},
    {"optimizer.clip", "--clip", "Largest gradient norm; 0: any", &C::clip, kFree},

    {"memory.modules", "", "false: a model without memory", &C::memory_modules, kFixed},
    {"memory.recurrence", "", "false: writes are not accumulated", &C::recurrence, kFixed},
    {"memory.normalize_gradient", "", "Divide write gradients by the square root of the writes", &C::normalize_gradient,
     kFixed},
    {"memory.unconstrained", "", "Sums without wrapping, for the stability experiment", &C::unconstrained, kFixed},
    {"memory.zero_embeddings", "", "none, all, root, leaf", &C::zero_embeddings, kFixed},

    {"guard.max_not_finite", "", "Stop after so many steps in a row with NaN or infinity", &C::max_not_finite, kFree},
    {"guard.spike_z", "--spike-z", "Skip updates this many deviations above the recent past; 0: off", &C::spike_z,
     kFree},
    {"guard.spike_window", "", "Steps of that past", &C::spike_window, kFree},

    {"eval.every", "--eval-every", "Steps between validations; 0: only at the end", &C::eval_every, kFree},
    {"eval.bytes", "--eval-bytes", "Held-out bytes per validation", &C::eval_bytes, kFree},
    {"sample.every", "--sample-every", "Steps between generated samples; 0: none", &C::sample_every, kFree},
    {"sample.bytes", "", "Length of a sample", &C::sample_bytes, kFree},
    {"sample.prompt", "--sample-prompt", "What a sample goes on from", &C::sample_prompt, kFree},
    {"sample.temperature", "", "0: always the likeliest byte", &C::sample_temperature, kFree},
    {"checkpoint.every", "--checkpoint-every", "Steps between checkpoints; 0: only by time and at the end",
     &C::checkpoint_every, kFree},
    {"checkpoint.minutes", "", "Minutes between checkpoints; 0: only by steps", &C::checkpoint_minutes, kFree},
    {"checkpoint.keep", "--keep", "How many of the newest to keep", &C::keep, kFree},
    {"checkpoint.keep_best", "", "Keep the one with the best validation too", &C::keep_best, kFree},
    {"log.every", "--log-every", "Steps between logged points", &C::log_every, kFree},
    {"log.limit", "", "Measure at the start what matrix products reach here", &C::log_limit, kFree},
});

const TrainOption& find_option(const std::string& key, const std::string& where) {
  std::vector<std::string> keys;
  for (const TrainOption& option : kOptions) {
    if (key == option.key) return option;
    keys.emplace_back(option.key);
  }
  std::string hint = did_you_mean(key, keys);
  for (const std::string& known : keys)  // the section forgotten
    if (hint.empty() && known.ends_with("." + key)) hint = "; did you mean '" + known + "'?";
  fail("{}: unknown key '{}'{}", where, key, hint.empty() ? "; 'pmnet train --print-config' lists them" : hint);
}

std::string toml_of(bool value) { return value ? "true" : "false"; }
std::string toml_of(int64_t value) { return std::to_string(value); }
std::string toml_of(double value) { return fmt::format("{}", value); }
// A JSON string is a TOML string.
std::string toml_of(const std::string& value) {
  return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}
template <typename T>
std::string toml_of(const std::vector<T>& values) {
  std::vector<std::string> parts;
  for (const T& value : values) parts.push_back(toml_of(value));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace

std::span<const TrainOption> train_options() { return kOptions; }

void set_option(TrainConfig& config, const std::string& key, const std::vector<std::string>& values,
                const std::string& where) {
  const TrainOption& option = find_option(key, where);
  std::visit([&](auto member) { assign_value(config.*member, values, key, where); }, option.field);
}

std::string value_text(const TrainConfig& config, const TrainOption& option) {
  return std::visit([&](auto member) { return toml_of(config.*member); }, option.field);
}

std::string to_toml(const TrainConfig& config, bool with_help) {
  std::string text, section;
  for (const TrainOption& option : kOptions) {
    const std::string key = option.key;
    const size_t dot = key.find('.');
    if (key.substr(0, dot) != section) {
      section = key.substr(0, dot);
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    }
    const std::string line = fmt::format("{} = {}", key.substr(dot + 1), value_text(config, option));
    text += with_help ? fmt::format("{:<32}  # {}\n", line, option.help) : line + "\n";
  }
  return text;
}

std::vector<std::string> chosen_options(const TrainConfig& config) {
  std::vector<std::string> lines;
  const TrainConfig defaults;
  for (const TrainOption& option : kOptions) {
    const std::string value = value_text(config, option);
    if (value != value_text(defaults, option)) lines.push_back(fmt::format("{} = {}", option.key, value));
  }
  return lines;
}

std::vector<std::string> fixed_differences(const TrainConfig& saved, const TrainConfig& now) {
  std::vector<std::string> differences;
  for (const TrainOption& option : kOptions) {
    const std::string before = value_text(saved, option), after = value_text(now, option);
    if (option.fixed && before != after)
      differences.push_back(fmt::format("{} is {} there and {} here", option.key, before, after));
  }
  return differences;
}

}  // namespace pmnet
