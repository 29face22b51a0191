#include "config/train_options.h"

namespace pmnet {
namespace {

using C = TrainConfig;
constexpr bool kFixed = true, kFree = false;
constexpr const char* kAdvice = "; 'pmnet train --print-config' lists all keys";

constexpr Range kSteps = from_to(0, 0x1p40);
constexpr Range kOneOrMoreSteps = from_to(1, 0x1p40);
constexpr Range kBytes = from_to(0, 0x1p52);
constexpr Range kCount = from_to(1, 0x1p20);
constexpr Range kFraction = from_to(0, 1);
constexpr Range kMomentDecay = from_to(0, 0.999999);

std::vector<TrainOption> make_options() {
  std::vector<TrainOption> options = {
      {"--preset", kFixed, "model.preset", &C::preset, "Named model size with random weights; 'pmnet info' lists them"},
      {"--config", kFixed, "model.config", &C::model_config,
       "Random weights of the size in this config.json, or in that of this folder"},
      {"--init", kFixed, "model.init", &C::init, "Model folder to fine-tune, with a fresh optimizer"},
      {"--arch", kFixed, "model.arch", &C::architecture,
       "Architecture; a baseline has as many parameters as the preset"},
      {"--dropout", kFixed, "model.dropout", &C::dropout, "Attention dropout; negative: that of the model",
       from_below(-1, 1)},
      {"", kFixed, "model.initializer_range", &C::initializer_range,
       "Standard deviation of new weights; negative: that of the model", from_to(-1, 100)},
      {"", kFixed, "model.memory_embedding_std", &C::memory_embedding_std,
       "Standard deviation of new memory embeddings; negative: that of the model", from_to(-1, 100)},
      {"", kFixed, "model.residual_init", &C::residual_init,
       "Factor of initializer_range in new matrices whose output is added to the residual stream; 0, as suits text: a "
       "new layer changes nothing; negative: that of the model",
       from_to(-1, 100)},
      {"", kFixed, "model.memory_keys", &C::memory_keys,
       "What addresses the memory's slots; the published form is state; empty: that of the model"},
      {"", kFixed, "model.memory_values", &C::memory_values,
       "What a read takes from the slots; the published form is anchored; empty: that of the model"},
      {"", kFixed, "model.memory_tree", &C::memory_tree,
       "false: a chain of memory groups instead of a tree, one group per level"},
      {"", kFixed, "model.max_ngram", &C::max_ngram,
       "Embeddings also of the last 2 to so many bytes; 0: as in the model", from_to(0, kMaxNgram)},
      {"", kFixed, "model.ngram_rows", &C::ngram_rows,
       "Rows of the table of each n, a power of two; 0: as in the model", from_to(0, kMaxNgramRows)},
      {"--binary", kFixed, "model.binary", &C::binary, "BOS and EOS at ids 256 and 257, for data that is not text"},

      {"--data", kFree, "data.inputs", &C::inputs, "Files, folders and globs to train on"},
      {"--weights", kFixed, "data.weights", &C::weights, "Sampling weight of each input", above_to(0, 1e9)},
      {"--validation", kFree, "data.validation", &C::validation, "Separate validation text"},
      {"--hold-out", kFixed, "data.", &C::hold_out,
       Field<HoldOut>{"hold_out", &HoldOut::by, "How validation text is held out of the data"}},
      {"", kFixed, "data.", &C::hold_out,
       Field<HoldOut>{"hold_out_fraction", &HoldOut::fraction, "Fraction held out", {0, 1, true, true}}},
      {"", kFixed, "data.", &C::hold_out,
       Field<HoldOut>{"hold_out_patterns", &HoldOut::patterns, "Files to hold out, with hold_out = \"path\""}},
      {"--samples", kFixed, "data.samples", &C::samples,
       "Cut samples from packed documents, or one document per sample"},
  };
  for (const Field<ReadOptions>& field : read_option_fields())
    options.push_back({flag_of(field.key), kFixed, "data.", &C::read, field});
  const std::vector<TrainOption> others = {
      {"--cache", kFree, "data.cache", &C::cache, "Folder for packed data; empty: the user's cache"},

      {"--batch", kFixed, "train.batch", &C::batch, "Samples per step, all ranks together", kCount},
      {"--accumulation", kFree, "train.accumulation", &C::accumulation, "Gradient accumulation steps", kCount},
      {"--context", kFixed, "train.context", &C::context, "Bytes per sample", from_to(2, kMaxContext)},
      {"--context-schedule", kFixed, "train.context_schedule", &C::context_schedule, "Later contexts, STEP:CONTEXT"},
      {"--chunk", kFree, "train.chunk", &C::chunk, "Bytes per forward pass, with exact gradients; 0: whole samples",
       from_to(0, kMaxContext)},
      {"--steps", kFree, "train.steps", &C::steps,
       fmt::format("Length of the run; 0: from --bytes, or {}", C::kDefaultSteps), kSteps},
      {"--bytes", kFree, "train.bytes", &C::bytes, "Length of the run in bytes, such as 500M; 0: from --steps", kBytes},
      {"--seed", kFixed, "train.seed", &C::seed, "Random seed for weights, data order and dropout", from_to(0, 0x1p53)},
      {"--carry", kFixed, "train.carry", &C::carry, "Carry memory from sample to sample of a document"},
      {"", kFree, "train.threads", &C::threads, "Threads per rank; 0: the cores divided among the ranks",
       from_to(0, 1024)},
      {"--device", kFree, "train.device", &C::device, "Device to train on"},
      {"--timeout", kFree, "train.timeout_seconds", &C::timeout_seconds, "How long ranks wait for each other",
       from_to(1, 86'400)},

      {"--lr", kFree, "optimizer.lr", &C::learning_rate, "Peak learning rate", from_to(0, 1e3)},
      {"--schedule", kFree, "optimizer.schedule", &C::schedule,
       "Learning rate after the warm-up; wsd is constant, then decays linearly, and a longer run can prolong it"},
      {"--min-lr-ratio", kFree, "optimizer.min_lr_ratio", &C::min_lr_ratio,
       "Final learning rate of cosine and wsd, as a fraction of lr", kFraction},
      {"", kFree, "optimizer.decay_fraction", &C::decay_fraction, "wsd: fraction of the steps over which it decays",
       kFraction},
      {"--warmup", kFree, "optimizer.warmup", &C::warmup, "Linear warm-up steps", kSteps},
      {"", kFree, "optimizer.beta1", &C::beta1, "AdamW first-moment decay", kMomentDecay},
      {"", kFree, "optimizer.beta2", &C::beta2, "AdamW second-moment decay", kMomentDecay},
      {"", kFree, "optimizer.eps", &C::eps, "AdamW epsilon", from_to(1e-30, 1)},
      {"--weight-decay", kFree, "optimizer.weight_decay", &C::weight_decay, "AdamW weight decay", from_to(0, 1e3)},
      {"", kFree, "optimizer.memory_embedding_lr", &C::memory_embedding_lr,
       "Learning rate of the memory embeddings, as a multiple of lr", from_to(0, 1e6)},
      {"", kFree, "optimizer.decay_everything", &C::decay_everything, "Decay norms, biases and embeddings too"},
      {"--clip", kFree, "optimizer.clip", &C::clip, "Maximum gradient norm; 0: no clipping", from_to(0, 1e9)},

      {"", kFixed, "memory.modules", &C::memory_modules, "false: a model without memory"},
      {"", kFixed, "memory.recurrence", &C::recurrence, "false: writes are not accumulated"},
      {"", kFixed, "memory.normalize_gradient", &C::normalize_gradient,
       "Divide the gradient of a write by the square root of the writes to its group"},
      {"", kFixed, "memory.unconstrained", &C::unconstrained,
       "Sums without phase wrapping, for the stability experiment"},
      {"", kFixed, "memory.straight_through", &C::straight_through,
       "What a token writes to and reads from a group also teaches the choice of that group"},
      {"", kFixed, "memory.route_balance", &C::route_balance,
       "Weight of a loss that is least when all slots of a group are chosen equally often; 0: none", from_to(0, 1e3)},
      {"", kFixed, "memory.zero_embeddings", &C::zero_embeddings, "Memory embeddings that are set to zero"},

      {"", kFree, "guard.max_not_finite", &C::max_not_finite,
       "Stop after so many consecutive steps with NaN or infinity", kOneOrMoreSteps},
      {"--spike-z", kFree, "guard.spike_z", &C::spike_z,
       "Skip updates whose loss is this many standard deviations above the mean; 0: off", from_to(0, 1e6)},
      {"", kFree, "guard.spike_window", &C::spike_window, "Steps over which that mean is taken", from_to(8, 0x1p20)},

      {"--eval-every", kFree, "eval.every", &C::eval_every, "Steps between validations; 0: only at the end", kSteps},
      {"--eval-bytes", kFree, "eval.bytes", &C::eval_bytes, "Held-out bytes per validation", from_to(1, 0x1p52)},
      {"--sample-every", kFree, "sample.every", &C::sample_every, "Steps between generated samples; 0: none", kSteps},
      {"", kFree, "sample.bytes", &C::sample_bytes, "Bytes per generated sample", kCount},
      {"--sample-prompt", kFree, "sample.prompt", &C::sample_prompt, "Prompt of generated samples"},
      {"", kFree, "sample.temperature", &C::sample_temperature, "Sampling temperature; 0 is greedy", from_to(0, 100)},
      {"--checkpoint-every", kFree, "checkpoint.every", &C::checkpoint_every,
       "Steps between checkpoints; 0: only by time and at the end", kSteps},
      {"", kFree, "checkpoint.minutes", &C::checkpoint_minutes, "Minutes between checkpoints; 0: only by steps",
       from_to(0, 1e6)},
      {"--keep", kFree, "checkpoint.keep", &C::keep, "How many of the newest checkpoints to keep", kCount},
      {"", kFree, "checkpoint.keep_best", &C::keep_best, "Also keep the checkpoint with the best validation"},
      {"--log-every", kFree, "log.every", &C::log_every, "Steps between logged points", kOneOrMoreSteps},
      {"", kFree, "log.limit", &C::log_limit, "Measure the machine's matrix-product rate at the start"},
  };
  options.insert(options.end(), others.begin(), others.end());
  return options;
}

}  // namespace

const std::vector<TrainOption>& train_options() {
  static const std::vector<TrainOption> options = make_options();
  return options;
}

void set_option(TrainConfig& config, const Assignment& assignment) {
  set_field(train_options(), config, assignment, kAdvice);
}

void read_run_file(TrainConfig& config, const std::filesystem::path& file) {
  set_fields(train_options(), config, read_toml(file), kAdvice);
}

void read_run_text(TrainConfig& config, const std::string& toml_text, const std::string& where) {
  set_fields(train_options(), config, parse_toml(toml_text, where), kAdvice);
}

std::string value_text(const TrainConfig& config, const TrainOption& option) {
  return field_to_toml(option.get(config));
}

std::string to_toml(const TrainConfig& config, bool with_help) {
  std::string text, section;
  for (const TrainOption& option : train_options()) {
    const size_t dot = option.key.find('.');
    if (option.key.substr(0, dot) != section) {
      section = option.key.substr(0, dot);
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    }
    const std::string line = fmt::format("{} = {}", option.key.substr(dot + 1), value_text(config, option));
    text += with_help ? fmt::format("{:<32}  # {}\n", line, option.help_text()) : line + "\n";
  }
  return text;
}

std::vector<std::string> chosen_options(const TrainConfig& config) {
  std::vector<std::string> lines;
  const TrainConfig defaults;
  for (const TrainOption& option : train_options()) {
    const std::string value = value_text(config, option);
    if (value != value_text(defaults, option)) lines.push_back(fmt::format("{} = {}", option.key, value));
  }
  return lines;
}

std::vector<std::string> fixed_differences(const TrainConfig& saved, const TrainConfig& now) {
  std::vector<std::string> differences;
  for (const TrainOption& option : train_options()) {
    const std::string before = value_text(saved, option), after = value_text(now, option);
    if (option.fixed && before != after)
      differences.push_back(fmt::format("{} is {} there and {} here", option.key, before, after));
  }
  return differences;
}

}  // namespace pmnet
