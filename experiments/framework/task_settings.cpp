#include "experiments/framework/task_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

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
  table.add("memory_embedding_std", &shape.memory_embedding_std,
            "Standard deviation of PMNet's initial memory embeddings, the anchors; the paper's is 0.02", kNotNegative);
  table.add("residual_init", &shape.residual_init,
            "Factor of init in PMNet's and the Transformer's matrices whose output is added to the residual stream; "
            "the paper's is 1; 0: a new layer changes nothing",
            kNotNegative);
  table.add("memory_keys", &shape.memory_keys, "What addresses PMNet's slots; the published form is state");
  table.add("memory_values", &shape.memory_values, "What PMNet reads from its slots; the published form is anchored");
  table.add("memory_tree", &shape.memory_tree, "false: PMNet's memory is a chain of one group per level, not a tree");
  table.add("dropout", &shape.attention_dropout, "Of attention probabilities, PMNet and Transformer");
  table.add("transformer_layers", &transformer_layers, "Layers of the Transformer; 0: as many as PMNet",
            from_to(0, kMaxLayers));
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
  table.add("straight_through", &train.straight_through,
            "What a token writes to and reads from one of PMNet's groups also teaches the choice of that group");
  table.add("route_balance", &train.route_balance,
            "Weight of a loss that is least when all slots of a group are chosen equally often; 0: none", kNotNegative);
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
    TransformerConfig transformer = transformer_like(config, transformer_layers);
    transformer.initializer_range = config.initializer_range;
    transformer.residual_init = config.residual_init;
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
  table.add("first_seed", &first_seed, "Seed of the first training; the others have the next ones", kPositive);
  table.add("baseline_lr", &baseline_rates, "As lr, for Transformer and Mamba; empty: lr", kAboveZero);
  table.add("baseline_first_load", &baseline_first_load,
            "Curriculum: Transformer and Mamba begin with a stage of at most this load; 0: with the first",
            kNotNegative);
  table.add("samples", &samples, "Rows per cell and seed in tests", kPositive);
  table.add("test_bytes", &test_bytes, "Bytes of all rows of a cell in tests at most; 0: no limit", kNotNegative);
  table.add("validation_samples", &validation_samples, "Rows per cell in the evaluations of a training", kPositive);
  table.add("training_rows", &training_rows, "Different rows in training; 0: every row is fresh", kNotNegative);
  table.add("stages", &stages, "Curriculum: largest lengths of the stages before the last");
  table.add("stage_loads", &stage_loads, "Curriculum: largest load of each stage, the last included; empty: all loads");
  table.add("stage_rates", &stage_rates, "Curriculum: factor of the learning rate in each stage; empty: 1", kAboveZero);
  table.add("stage_decay", &stage_decay,
            "Curriculum: s steps into a stage after the first, the learning rate is divided by 1 + s / this; 0: never",
            kNotNegative);
  table.add("stage_batch", &stage_batch, "Curriculum: samples per step in each stage; empty: batch", kPositive);
  table.add("advance_at", &advance_at, "Accuracy on a stage's hardest rows that begins the next stage", kShare);
  table.add("stop_at", &stop_at, "Accuracy in the last stage that ends a training; 0: never", kShare);
  table.add("patience", &patience, "Steps without a better score that end a training; 0: any number", kNotNegative);
}

std::vector<std::string> TaskSettings::problems() {
  std::vector<std::string> found = TrainingSettings::problems();
  require_ascending(found, "stages", stages);
  require_ascending(found, "stage_loads", stage_loads);
  const auto require_each = [&](const char* key, size_t size) {
    require(found, size == 0 || size == stages.size() + 1,
            fmt::format("{} has {} values; one for each of the {} stages is needed, or none", key, size,
                        stages.size() + 1));
  };
  require_each("stage_loads", stage_loads.size());
  require_each("stage_rates", stage_rates.size());
  require_each("stage_batch", stage_batch.size());
  for (const int64_t rows : stage_batch)
    require(found, train.accumulation < 1 || rows % train.accumulation == 0,
            fmt::format("stage_batch has {}; accumulation, {}, must divide it", rows, train.accumulation));
  return found;
}

std::vector<int64_t> TaskSettings::seed_numbers() const {
  std::vector<int64_t> list(static_cast<size_t>(seeds));
  std::iota(list.begin(), list.end(), first_seed);
  return list;
}

const std::vector<double>& TaskSettings::rates_of(const CandidateSpec& candidate) const {
  return candidate.is_baseline() && !baseline_rates.empty() ? baseline_rates : learning_rates;
}

std::vector<TaskStage> TaskSettings::stages_of(const CandidateSpec& candidate, std::vector<TaskStage> of_course) const {
  if (!candidate.is_baseline() || baseline_first_load == 0) return of_course;
  TaskStage first = of_course.front();
  std::erase_if(first.loads, [&](int64_t load) { return load > baseline_first_load; });
  std::erase_if(first.cells, [&](const TaskCell& cell) { return cell.load > baseline_first_load; });
  if (!first.cells.empty()) first.most = first.cells.back().length;
  if (!first.loads.empty() && first.loads != of_course.front().loads) of_course.insert(of_course.begin(), first);
  return of_course;
}

std::vector<TaskStage> TaskSettings::stages_to(const TaskStage& last) const {
  std::vector<TaskStage> list;
  for (size_t i = 0; i < stages.size() + 1; ++i) {
    const bool is_last = i == stages.size();
    // A stage as long as the last one is a separate stage only when its loads are smaller.
    if (!is_last && (stages[i] < last.least || stages[i] > last.most)) continue;
    if (!is_last && stages[i] == last.most && stage_loads.empty()) continue;
    TaskStage stage = last;
    if (!is_last) stage.most = stages[i];
    if (!stage_loads.empty())
      std::erase_if(stage.loads, [&](int64_t load) { return load > stage_loads[i] && load != last.loads.front(); });
    if (!stage_rates.empty()) stage.rate = stage_rates[i];
    if (!stage_batch.empty()) stage.rows = stage_batch[i];
    list.push_back(stage);
  }
  return list;
}

int64_t TaskSettings::samples_of(const Task& task, const TaskCell& cell) const {
  return test_bytes == 0 ? samples : std::clamp<int64_t>(test_bytes / task.row_size(cell), 1, samples);
}

}  // namespace pmnet
