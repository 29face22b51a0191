#include "experiments/framework/task_settings.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/suggest.h"
#include "config/presets.h"

namespace pmnet {

const std::vector<std::string>& contender_names() {
  static const std::vector<std::string> names = {"pmnet", "window", "transformer", "mamba"};  // as enumerated
  return names;
}

const std::string& contender_name(Contender contender) { return contender_names().at(static_cast<size_t>(contender)); }

Contender contender_of(const std::string& name) {
  for (size_t i = 0; i < contender_names().size(); ++i)
    if (contender_names()[i] == name) return static_cast<Contender>(i);
  fail("there is no model '{}' among {}{}", name, fmt::join(contender_names(), ", "),
       did_you_mean(name, contender_names()));
}

const char* contender_title(Contender contender) {
  switch (contender) {
    case Contender::kPmnet:
      return "PMNet";
    case Contender::kWindow:
      return "Window only";
    case Contender::kTransformer:
      return "Transformer";
    case Contender::kMamba:
      return "Mamba";
  }
  return "";
}

void require(std::vector<std::string>& problems, bool fine, const std::string& sentence) {
  if (!fine) problems.push_back(sentence);
}

void TaskSettings::visit(const Visitor& visitor) {
  visitor("seeds", &seeds, "Trainings of each model");
  visitor("hidden", &hidden, "Residual width d of PMNet");
  visitor("intermediate", &intermediate, "Feed-forward width f");
  visitor("layers", &layers, "Layers L");
  visitor("heads", &heads, "Attention heads A");
  visitor("head_dim", &head_dim, "Width of a head");
  visitor("memory", &memory, "Phases per memory slot M");
  visitor("slots", &slots, "Slots per group N");
  visitor("read_heads", &read_heads, "Heads of the memory read R");
  visitor("write_period", &write_period, "Layers per memory level P");
  visitor("window", &window, "Sliding window w in bytes");
  visitor("init", &init, "Standard deviation of PMNet's and the Transformer's initial weights");
  visitor("batch", &batch, "Samples per step");
  visitor("chunk", &chunk, "Bytes per pass with exact gradients; 0: whole samples");
  visitor("steps", &steps, "Steps at most");
  visitor("warmup", &warmup, "Steps of linear warm-up");
  visitor("eval_every", &eval_every, "Steps between evaluations");
  visitor("lr", &learning_rate, "Learning rate after the warm-up");
  visitor("min_lr_ratio", &min_lr_ratio, "Where the cosine ends, as a share of it");
  visitor("clip", &clip, "Largest gradient norm");
  visitor("weight_decay", &weight_decay, "Of AdamW");
}

std::vector<std::string> TaskSettings::problems() {
  std::vector<std::string> found;
  const std::pair<const char*, double> positive[] = {{"seeds", seeds},      {"batch", batch},
                                                     {"steps", steps},      {"eval_every", eval_every},
                                                     {"lr", learning_rate}, {"write_period", write_period},
                                                     {"init", init}};
  for (const auto& [key, value] : positive)
    require(found, value > 0, fmt::format("{} is {}; it must be above 0", key, value));
  require(found, chunk >= 0, fmt::format("chunk is {}; it must not be negative", chunk));
  if (!found.empty()) return found;
  return pmnet::problems(pmnet_config());
}

PmnetConfig TaskSettings::pmnet_config() const {
  PmnetConfig config;
  config.hidden_size = hidden;
  config.intermediate_size = intermediate;
  config.num_layers = layers;
  config.num_heads = config.num_kv_heads = heads;
  config.head_dim = head_dim;
  config.memory_size = memory;
  config.num_memory = slots;
  config.num_read_heads = read_heads;
  config.write_period = write_period;
  config.sliding_window = window;
  config.initializer_range = init;
  config.layer_types.assign(static_cast<size_t>(std::clamp<int64_t>(layers, 0, kMaxLayers)), LayerType::kSliding);
  return config;
}

ModelConfig TaskSettings::model_config(Contender contender) const {
  PmnetConfig config = pmnet_config();
  switch (contender) {
    case Contender::kPmnet:
      break;
    case Contender::kWindow:
      config.memory_modules = false;
      break;
    case Contender::kTransformer: {
      TransformerConfig transformer = transformer_like(config);
      transformer.initializer_range = init;
      return transformer;
    }
    case Contender::kMamba:
      return mamba_like(config);
  }
  return config;
}

TrainConfig TaskSettings::train_config(int64_t seed) const {
  TrainConfig config;
  config.batch = batch;
  config.chunk = chunk;
  config.steps = steps;
  config.warmup = warmup;
  config.eval_every = eval_every;
  config.learning_rate = learning_rate;
  config.min_lr_ratio = min_lr_ratio;
  config.clip = clip;
  config.weight_decay = weight_decay;
  config.seed = seed;
  config.checkpoint_minutes = 2;
  return config;
}

}  // namespace pmnet
