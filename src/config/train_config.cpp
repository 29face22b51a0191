#include "config/train_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "config/presets.h"
#include "config/train_options.h"

namespace pmnet {
namespace {

bool read_number(std::string_view text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

using Problems = std::vector<std::string>;

void check(Problems& problems, bool holds, std::string sentence) {
  if (!holds) problems.push_back(std::move(sentence));
}

void check_model(const TrainConfig& c, Problems& p) {
  const int sources = !c.preset.empty() + !c.model_config.empty() + !c.init.empty();
  check(p, sources == 1,
        fmt::format("{} of model.preset, model.config and model.init are set, expected exactly one",
                    sources == 0 ? "none" : std::to_string(sources)));
  if (!c.preset.empty() && !find_preset(c.preset))
    p.push_back(fmt::format("model.preset is {}", unknown_name(c.preset, preset_names())));
  check(p, !c.binary || c.init.empty(),
        "model.binary changes BOS and EOS, which the weights of model.init were trained with");
  check(p, c.memory_modules || c.init.empty(), "memory.modules = false needs a new model, not model.init");
  check(p, (c.initializer_range < 0 && c.memory_embedding_std < 0 && c.residual_init < 0) || c.init.empty(),
        "model.initializer_range, model.memory_embedding_std and model.residual_init are for new models, and "
        "model.init has weights already");
  check(p, (!c.memory_keys && !c.memory_values && c.memory_tree) || c.init.empty(),
        "model.memory_keys, model.memory_values and model.memory_tree are for new models, and model.init has weights "
        "already");
  check(p, (c.max_ngram == 0 && c.ngram_rows == 0) || c.init.empty(),
        "model.max_ngram and model.ngram_rows are for new models, and model.init has weights already");
}

void check_data(const TrainConfig& c, Problems& p) {
  check(p, !c.inputs.empty(), "data.inputs is empty, expected files, folders or globs to train on");
  check(p, c.weights.empty() || c.weights.size() == c.inputs.size(),
        fmt::format("data.weights has {} entries and data.inputs {}, expected one for each", c.weights.size(),
                    c.inputs.size()));
  check(p, (c.hold_out.by == HoldOut::By::kPath) == !c.hold_out.patterns.empty(),
        "data.hold_out_patterns belongs to data.hold_out = 'path', and the other way round");
  check(p, !c.carry || !c.unconstrained, "train.carry cannot be combined with memory.unconstrained");
  check(p, !c.carry || c.samples == SampleMode::kPacked,
        "train.carry walks through documents and needs data.samples = 'packed'");
}

void check_training(const TrainConfig& c, int64_t world, Problems& p) {
  if (c.batch > 0 && c.accumulation > 0)
    check(p, c.batch % (world * c.accumulation) == 0,
          fmt::format("train.batch is {}, expected a multiple of {} ranks x train.accumulation {}", c.batch, world,
                      c.accumulation));
  check(p, c.steps == 0 || c.bytes == 0, "train.steps and train.bytes are both set, expected one of them");
  try {
    c.stages();
  } catch (const UserError& error) {
    p.emplace_back(error.what());
  }
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
  Problems found = range_problems(train_options(), *this);
  check_model(*this, found);
  check_data(*this, found);
  check_training(*this, world, found);
  return found;
}

}  // namespace pmnet
