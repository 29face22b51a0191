#include "experiments/framework/task_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "config/presets.h"

namespace pmnet {

TrainingSettings::TrainingSettings() { train.checkpoint_minutes = 2; }

void TrainingSettings::list_fields(SettingsTable& table) {
  Settings::list_fields(table);
  table.add("seeds", &seeds, "Trainings of each model", kPositive);
  table.add("preset", &preset, "Shape of PMNet that the next keys change, such as 30m; empty: only those keys");
  table.add("hidden", &shape.hidden_size, "Residual width d of PMNet");
  table.add("intermediate", &shape.intermediate_size, "Feed-forward width f");
  table.add("layers", &shape.num_layers, "Layers L", from_to(1, kMaxLayers));
  table.add("heads", &shape.num_heads, "Attention heads A");
  table.add("head_dim", &shape.head_dim, "Width of a head");
  table.add("memory", &shape.memory_size, "Phases per memory slot M");
  table.add("slots", &shape.num_memory, "Slots per group N");
  table.add("read_heads", &shape.num_read_heads, "Heads of the memory read R");
  table.add("write_period", &shape.write_period, "Layers per memory level P", kPositive);
  table.add("window", &shape.sliding_window, "Sliding window w in bytes");
  table.add("init", &shape.initializer_range, "Standard deviation of PMNet's and the Transformer's initial weights",
            kAboveZero);
  table.add("memory_embedding_std", &shape.memory_embedding_std, "Standard deviation of PMNet's initial anchors",
            from_to(0, 100));
  table.add("memory_keys", &shape.memory_keys, "What addresses PMNet's slots; the published form is state");
  table.add("memory_values", &shape.memory_values, "What PMNet reads from its slots; the published form is anchored");
  table.add("dropout", &shape.attention_dropout, "Of attention probabilities, PMNet and Transformer");
  table.add("batch", &train.batch, "Samples per step", kPositive);
  table.add("accumulation", &train.accumulation, "Parts of a batch, so that it fits into memory", kPositive);
  table.add("chunk", &train.chunk, "Bytes per pass with exact gradients; 0: whole samples", kNotNegative);
  table.add("steps", &train.steps, "Steps at most", kPositive);
  table.add("warmup", &train.warmup, "Steps of linear warm-up", kNotNegative);
  table.add("eval_every", &train.eval_every, "Steps between evaluations", kPositive);
  table.add("lr", &learning_rates, "Learning rate after the warm-up; of a list, the best of each model counts",
            kAboveZero);
  table.add("schedule", &train.schedule, "Of the learning rate after the warm-up");
  table.add("min_lr_ratio", &train.min_lr_ratio, "Where the cosine ends, as a share of it");
  table.add("clip", &train.clip, "Largest gradient norm");
  table.add("weight_decay", &train.weight_decay, "Of AdamW");
  table.add("memory_embedding_lr", &train.memory_embedding_lr, "Learning rate of PMNet's anchors, as a multiple of lr",
            kNotNegative);
  table.add("begin_from", &begin_from,
            "Folder of an experiment whose trained weights are the start; empty: random ones");
}

std::vector<std::string> TrainingSettings::problems() {
  std::vector<std::string> found = Settings::problems();
  require(found, !learning_rates.empty(), "lr is empty; give at least one learning rate");
  require(found, train.accumulation < 1 || train.batch % train.accumulation == 0,
          fmt::format("accumulation is {}; it must divide the batch of {}", train.accumulation, train.batch));
  if (!found.empty()) return found;
  return pmnet::problems(pmnet_config());
}

void TrainingSettings::apply_preset() {
  if (!preset.empty()) shape = pmnet::preset(preset);
}

PmnetConfig TrainingSettings::pmnet_config() const {
  PmnetConfig config = shape;
  config.num_kv_heads = config.num_heads;
  config.layer_types.assign(static_cast<size_t>(config.num_layers), LayerType::kSliding);
  return config;
}

ModelConfig TrainingSettings::model_config(CandidateKind kind) const {
  PmnetConfig config = pmnet_config();
  if (kind == CandidateKind::kMamba) return mamba_like(config);
  if (kind == CandidateKind::kTransformer) {
    TransformerConfig transformer = transformer_like(config);
    transformer.initializer_range = config.initializer_range;
    return transformer;
  }
  config.memory_modules = kind == CandidateKind::kPmnet;
  return config;
}

TrainConfig TrainingSettings::train_config(const CandidateSpec& candidate, double learning_rate, int64_t seed) const {
  TrainConfig config = train;
  config.seed = seed;
  config.learning_rate = learning_rate;
  config.recurrence = candidate.trained.recurrence != false;
  config.normalize_gradient = candidate.trained.normalize_gradient;
  config.unconstrained = candidate.trained.unconstrained;
  return config;
}

CandidateSpec TrainingSettings::candidate(CandidateKind kind, int64_t limit) const {
  const std::string name = enum_name(kind);
  return {name, title_of(kind), name, model_config(kind), {}, {}, limit};
}

void TaskSettings::list_fields(SettingsTable& table) {
  TrainingSettings::list_fields(table);
  table.add("samples", &samples, "Rows per cell and seed in tests", kPositive);
  table.add("validation_samples", &validation_samples, "Rows per cell in the evaluations of a training", kPositive);
  table.add("training_rows", &training_rows, "Different rows in training; 0: every row is fresh", kNotNegative);
  table.add("stages", &stages, "Curriculum: largest lengths of the stages before the last");
  table.add("stage_loads", &stage_loads, "Curriculum: largest load of each stage, the last included; empty: all loads");
  table.add("advance_at", &advance_at, "Accuracy on a stage's hardest rows that begins the next stage", kShare);
  table.add("stop_at", &stop_at, "Accuracy in the last stage that ends a training; 0: never", kShare);
}

std::vector<std::string> TaskSettings::problems() {
  std::vector<std::string> found = TrainingSettings::problems();
  require_ascending(found, "stages", stages);
  require_ascending(found, "stage_loads", stage_loads);
  require(found, stage_loads.empty() || stage_loads.size() == stages.size() + 1,
          fmt::format("stage_loads has {} values; one for each of the {} stages is needed, or none", stage_loads.size(),
                      stages.size() + 1));
  return found;
}

std::vector<TaskStage> TaskSettings::stages_to(const TaskStage& last) const {
  std::vector<TaskStage> list;
  for (size_t i = 0; i < stages.size() + 1; ++i) {
    const bool is_last = i == stages.size();
    // A stage as long as the last one is a stage of its own only when its loads are smaller.
    if (!is_last && (stages[i] < last.least || stages[i] > last.most)) continue;
    if (!is_last && stages[i] == last.most && stage_loads.empty()) continue;
    TaskStage stage = last;
    if (!is_last) stage.most = stages[i];
    if (!stage_loads.empty())
      std::erase_if(stage.loads, [&](int64_t load) { return load > stage_loads[i] && load != last.loads.front(); });
    list.push_back(stage);
  }
  return list;
}

void ProbeSettings::list_fields(SettingsTable& table) {
  TaskSettings::list_fields(table);
  table.add("candidates", &candidates, "Models to train");
  table.add("loads", &loads, "Numbers of facts per row, trained and tested", from_to(1, kMaxPosition));
  table.add("lengths", &lengths, "Bytes between facts and questions, tested", from_to(0, kMaxPosition));
  table.add("least", &least, "Smallest length in training", kNotNegative);
  table.add("most", &most, "Largest length in training", kNotNegative);
  table.add("log_lengths", &log_lengths, "Draw lengths evenly over factors instead of bytes");
  table.add("attention_limit", &attention_limit, "Longest test of the Transformer", kPositive);
  table.add("control_limit", &control_limit, "Longest test of models that cannot know", kPositive);
}

std::vector<std::string> ProbeSettings::problems() {
  std::vector<std::string> found = TaskSettings::problems();
  require(found, !loads.empty() && !lengths.empty(), "loads and lengths must not be empty");
  require(found, least <= most, fmt::format("least is {}; it must not be above most, {}", least, most));
  require_ascending(found, "loads", loads);
  require_ascending(found, "lengths", lengths);
  require(found, lengths.empty() || lengths.back() > reach(),
          fmt::format("lengths must go beyond the {} bytes that the windows reach", reach()));
  require(found, std::find(candidates.begin(), candidates.end(), CandidateKind::kPmnet) != candidates.end(),
          "candidates must hold pmnet");
  return found;
}

std::vector<TaskCell> ProbeSettings::cells() const {
  std::vector<TaskCell> list;
  for (const int64_t load : loads)
    for (const int64_t length : lengths) list.push_back({load, length});
  return list;
}

std::vector<CandidateSpec> ProbeSettings::all_candidates() const {
  std::vector<CandidateSpec> list;
  for (const CandidateKind kind : candidates) {
    list.push_back(candidate(kind, kind == CandidateKind::kTransformer ? attention_limit
                                   : kind == CandidateKind::kWindow    ? control_limit
                                                                       : 0));
    if (kind == CandidateKind::kPmnet) list.push_back(without_recurrence(list.back(), control_limit));
  }
  return list;
}

}  // namespace pmnet
