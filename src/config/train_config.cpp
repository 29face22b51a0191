#include "config/train_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/suggest.h"
#include "config/presets.h"

namespace pmnet {
namespace {

constexpr int64_t kMaxContext = int64_t{1} << 28;
constexpr int64_t kMaxSteps = int64_t{1} << 40;

bool read_number(std::string_view text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

class Problems {
 public:
  void check(bool holds, std::string sentence) {
    if (!holds) list.push_back(std::move(sentence));
  }
  // Inclusive bounds; false for NaN.
  template <typename T>
  void range(const char* key, T value, T low, T high) {
    check(value >= low && value <= high, fmt::format("{} is {}, expected {} to {}", key, value, low, high));
  }
  void choice(const char* key, const std::string& value, const std::vector<std::string>& choices) {
    check(std::find(choices.begin(), choices.end(), value) != choices.end(),
          fmt::format("{} is '{}', expected {}{}", key, value, fmt::join(choices, ", "), did_you_mean(value, choices)));
  }
  std::vector<std::string> list;
};

void check_model(const TrainConfig& c, Problems& p) {
  const int sources = !c.preset.empty() + !c.model_config.empty() + !c.init.empty();
  p.check(sources == 1, fmt::format("{} of model.preset, model.config and model.init are set, expected exactly one",
                                    sources == 0 ? "none" : std::to_string(sources)));
  if (!c.preset.empty())
    p.check(find_preset(c.preset).has_value(),
            fmt::format("there is no preset '{}' among {}{}", c.preset, fmt::join(preset_names(), ", "),
                        did_you_mean(c.preset, preset_names())));
  if (!c.architecture.empty()) p.choice("model.arch", c.architecture, {"pmnet", "transformer", "mamba"});
  p.check(c.dropout < 1,
          fmt::format("model.dropout is {}, expected 0 to below 1, or negative for the model's own", c.dropout));
  p.check(!c.binary || c.init.empty(),
          "model.binary changes BOS and EOS, which the weights of model.init know already");
  p.check(c.memory_modules || c.init.empty(), "memory.modules = false needs a new model, not model.init");
  p.choice("memory.zero_embeddings", c.zero_embeddings, {"none", "all", "root", "leaf"});
}

void check_data(const TrainConfig& c, Problems& p) {
  p.check(!c.inputs.empty(), "data.inputs is empty, expected files, folders or globs to train on");
  p.check(c.weights.empty() || c.weights.size() == c.inputs.size(),
          fmt::format("data.weights has {} entries and data.inputs {}, expected one for each", c.weights.size(),
                      c.inputs.size()));
  for (const double weight : c.weights)
    p.check(weight > 0 && std::isfinite(weight), fmt::format("data.weights holds {}, expected above 0", weight));
  p.choice("data.hold_out", c.hold_out, {"auto", "hash", "tail", "path", "none"});
  p.check(c.hold_out_fraction > 0 && c.hold_out_fraction < 1,
          fmt::format("data.hold_out_fraction is {}, expected between 0 and 1", c.hold_out_fraction));
  p.check((c.hold_out == "path") == !c.hold_out_patterns.empty(),
          "data.hold_out_patterns belongs to data.hold_out = 'path', and the other way round");
  p.choice("data.samples", c.samples, {"packed", "document"});
  p.check(!c.carry || !c.unconstrained, "train.carry cannot be combined with memory.unconstrained");
  p.check(!c.carry || c.samples == "packed", "train.carry walks through documents and needs data.samples = 'packed'");
}

void check_training(const TrainConfig& c, int64_t world, Problems& p) {
  p.range<int64_t>("train.batch", c.batch, 1, 1 << 20);
  p.range<int64_t>("train.accumulation", c.accumulation, 1, 1 << 20);
  if (c.batch > 0 && c.accumulation > 0)
    p.check(c.batch % (world * c.accumulation) == 0,
            fmt::format("train.batch is {}, expected a multiple of {} ranks x train.accumulation {}", c.batch, world,
                        c.accumulation));
  p.range<int64_t>("train.context", c.context, 2, kMaxContext);
  p.range<int64_t>("train.chunk", c.chunk, 0, kMaxContext);
  p.range<int64_t>("train.steps", c.steps, 0, kMaxSteps);
  p.range<int64_t>("train.bytes", c.bytes, 0, int64_t{1} << 52);
  p.check(c.steps == 0 || c.bytes == 0, "train.steps and train.bytes are both set, expected one of them");
  p.range<int64_t>("train.seed", c.seed, 0, int64_t{1} << 53);
  p.range<int64_t>("train.threads", c.threads, 0, 1024);
  p.range<int64_t>("train.timeout_seconds", c.timeout_seconds, 1, 86'400);
  p.choice("train.device", c.device, {"cpu", "cuda"});
  try {
    c.stages();
  } catch (const UserError& error) {
    p.list.push_back(error.what());
  }
  p.range("optimizer.lr", c.learning_rate, 0.0, 1e3);
  p.choice("optimizer.schedule", c.schedule, {"cosine", "constant", "wsd"});
  p.range("optimizer.min_lr_ratio", c.min_lr_ratio, 0.0, 1.0);
  p.range("optimizer.decay_fraction", c.decay_fraction, 0.0, 1.0);
  p.range<int64_t>("optimizer.warmup", c.warmup, 0, kMaxSteps);
  p.range("optimizer.beta1", c.beta1, 0.0, 0.999999);
  p.range("optimizer.beta2", c.beta2, 0.0, 0.999999);
  p.range("optimizer.eps", c.eps, 1e-30, 1.0);
  p.range("optimizer.weight_decay", c.weight_decay, 0.0, 1e3);
  p.range("optimizer.clip", c.clip, 0.0, 1e9);
}

void check_intervals(const TrainConfig& c, Problems& p) {
  p.range<int64_t>("guard.max_not_finite", c.max_not_finite, 1, kMaxSteps);
  p.range("guard.spike_z", c.spike_z, 0.0, 1e6);
  p.range<int64_t>("guard.spike_window", c.spike_window, 8, 1 << 20);
  p.range<int64_t>("eval.every", c.eval_every, 0, kMaxSteps);
  p.range<int64_t>("eval.bytes", c.eval_bytes, 1, int64_t{1} << 52);
  p.range<int64_t>("sample.every", c.sample_every, 0, kMaxSteps);
  p.range<int64_t>("sample.bytes", c.sample_bytes, 1, 1 << 20);
  p.range("sample.temperature", c.sample_temperature, 0.0, 100.0);
  p.range<int64_t>("checkpoint.every", c.checkpoint_every, 0, kMaxSteps);
  p.range("checkpoint.minutes", c.checkpoint_minutes, 0.0, 1e6);
  p.range<int64_t>("checkpoint.keep", c.keep, 1, 1 << 20);
  p.range<int64_t>("log.every", c.log_every, 1, kMaxSteps);
}

}  // namespace

std::vector<ContextStage> TrainConfig::stages() const {
  std::vector<ContextStage> stages{{0, context}};
  for (const std::string& entry : context_schedule) {
    const size_t colon = entry.find(':');
    ContextStage stage;
    if (colon == std::string::npos || !read_number(std::string_view(entry).substr(0, colon), stage.first_step) ||
        !read_number(std::string_view(entry).substr(colon + 1), stage.context))
      fail("train.context_schedule holds '{}', expected STEP:CONTEXT such as 1000:4096", entry);
    if (stage.first_step <= stages.back().first_step || stage.context < 2 || stage.context > kMaxContext)
      fail("train.context_schedule holds '{}', expected growing steps above 0 and a context of 2 to {}", entry,
           kMaxContext);
    stages.push_back(stage);
  }
  return stages;
}

int64_t TrainConfig::longest_context() const {
  int64_t longest = 0;
  for (const ContextStage& stage : stages()) longest = std::max(longest, stage.context);
  return longest;
}

int64_t TrainConfig::total_steps() const {
  if (bytes == 0) return steps > 0 ? steps : kDefaultSteps;
  const std::vector<ContextStage> all = stages();
  int64_t left = bytes;
  for (size_t i = 0; i < all.size(); ++i) {
    const int64_t per_step = batch * all[i].context;
    const int64_t needed = (left + per_step - 1) / per_step;
    if (i + 1 == all.size() || all[i].first_step + needed <= all[i + 1].first_step) return all[i].first_step + needed;
    left -= (all[i + 1].first_step - all[i].first_step) * per_step;
  }
  return 0;
}

int64_t TrainConfig::positions_before(int64_t step) const {
  const std::vector<ContextStage> all = stages();
  int64_t positions = 0;
  for (size_t i = 0; i < all.size() && all[i].first_step < step; ++i) {
    const int64_t end = i + 1 < all.size() ? std::min(step, all[i + 1].first_step) : step;
    positions += (end - all[i].first_step) * batch * all[i].context;
  }
  return positions;
}

std::vector<std::string> TrainConfig::problems(int64_t world) const {
  Problems found;
  check_model(*this, found);
  check_data(*this, found);
  check_training(*this, world, found);
  check_intervals(*this, found);
  return found.list;
}

}  // namespace pmnet
