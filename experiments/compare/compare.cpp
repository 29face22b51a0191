#include "experiments/compare/compare.h"

#include <fmt/format.h>

#include <cmath>

#include "base/hash.h"
#include "config/costs.h"

namespace pmnet {

namespace {

constexpr double kMatched = 0.02;  // largest difference in parameters

}  // namespace

CompareSettings::CompareSettings(Recipe recipe) {
  switch (recipe) {
    case Recipe::kPaper:  // 30M parameters, 0.5 billion bytes, 2,048 bytes of context; the rest is chosen
      hidden = 256, intermediate = 512, layers = 12, heads = 6, head_dim = 64, memory = 256, read_heads = 4,
      write_period = 3, window = 128, dropout = 0.1, accumulation = 8;
      context = 2048, story_bytes = 2048, batch = 64, steps = 3815, warmup = 200, eval_every = 200, seeds = 1;
      learning_rate = 1e-3, min_lr_ratio = 0.1, weight_decay = 0.1, eval_bytes = 2'097'152;
      books.bytes = 131'072, books.documents = 30, attention_limit = 32'768;
      break;
    case Recipe::kCpu:  // half a million parameters, 16 bytes for each as in the paper, window and context a quarter
      window = 32, init = 0.06, context = 512, story_bytes = 512, batch = 16, steps = 840, warmup = 50,
      eval_every = 100;
      seeds = 3, learning_rate = 2e-3, min_lr_ratio = 0.1, weight_decay = 0.1;
      books.bytes = 32'768, books.documents = 12, attention_limit = 8192;
      break;
    case Recipe::kSmoke:
      hidden = 32, intermediate = 48, layers = 2, heads = 2, head_dim = 16, memory = 24, read_heads = 1, init = 0.08,
      write_period = 1, window = 8;
      context = 64, story_bytes = 200, batch = 4, steps = 12, warmup = 2, eval_every = 6, seeds = 1;
      eval_bytes = 512, learning_rate = 3e-3;
      books.bytes = 1024, books.documents = 3, attention_limit = 512;
      break;
  }
}

void CompareSettings::visit(const Visitor& visitor) {
  TaskSettings::visit(visitor);
  visitor("text", &text, "Texts to train on; none: tales of our own");
  visitor("text_field", &text_field, "Their field in JSONL, their column in Parquet");
  visitor("hold_out", &hold_out, "Share of them that is held out, to keep the best weights by");
  visitor("context", &context, "Bytes per sample");
  visitor("story_bytes", &story_bytes, "Typical length of the tales");
  visitor("eval_bytes", &eval_bytes, "Bytes of held-out text to look at");
  visitor("accumulation", &accumulation, "Parts of a batch, so that it fits into memory");
  visitor("dropout", &dropout, "Of attention probabilities");
  visitor("attention_limit", &attention_limit, "Bytes of a document that the Transformer reads");
  books.visit(visitor, "eval_text");
}

std::vector<std::string> CompareSettings::problems() {
  std::vector<std::string> found = TaskSettings::problems();
  for (std::string& problem : books.problems("eval_text")) found.push_back(std::move(problem));
  const auto positive = [&](const char* key, double value) {
    if (!(value > 0)) found.push_back(fmt::format("{} is {}; it must be above 0", key, value));
  };
  positive("context", static_cast<double>(context));
  positive("attention_limit", static_cast<double>(attention_limit));
  positive("eval_bytes", static_cast<double>(eval_bytes));
  if (accumulation < 1 || batch % accumulation != 0)
    found.push_back(fmt::format("accumulation is {}; it must divide the batch of {}", accumulation, batch));
  if (story_bytes < 100) found.push_back(fmt::format("story_bytes is {}; it must be 100 at least", story_bytes));
  if (!(hold_out > 0 && hold_out < 1)) found.push_back(fmt::format("hold_out is {}; it must be in (0, 1)", hold_out));
  if (!(dropout >= 0 && dropout < 1)) found.push_back(fmt::format("dropout is {}; it must be in [0, 1)", dropout));
  if (text.empty() != books.text.empty())
    found.push_back(fmt::format("{} is given and {} is not; give both, of different documents, or neither",
                                text.empty() ? "eval_text" : "text", text.empty() ? "text" : "eval_text"));
  if (books.bytes <= context)
    found.push_back(
        fmt::format("bytes is {}, which is within the trained context of {}; it must be longer", books.bytes, context));
  if (!found.empty()) return found;
  const auto parameters = static_cast<double>(parameter_count(config_of("pmnet")));
  for (const std::string& training : trainings()) {
    const double difference =
        std::abs(static_cast<double>(parameter_count(config_of(training))) - parameters) / parameters;
    if (difference > kMatched)
      found.push_back(
          fmt::format("{} cannot be given PMNet's number of parameters: it is {:.1f}% off, at most {:.0f}% "
                      "is fair; choose other sizes",
                      training, 100 * difference, 100 * kMatched));
  }
  return found;
}

const std::vector<std::string>& CompareSettings::trainings() {
  static const std::vector<std::string> names = {"pmnet", "pmnet without recurrence", "transformer", "mamba"};
  return names;
}

ModelConfig CompareSettings::config_of(const std::string& training) const {
  ModelConfig config = model_config(training == "transformer" ? Contender::kTransformer
                                    : training == "mamba"     ? Contender::kMamba
                                                              : Contender::kPmnet);
  if (auto* pmnet = std::get_if<PmnetConfig>(&config)) pmnet->attention_dropout = dropout;
  if (auto* transformer = std::get_if<TransformerConfig>(&config)) transformer->attention_dropout = dropout;
  return config;
}

TrainConfig CompareSettings::train_config_of(const std::string& training, int64_t seed) const {
  TrainConfig config = train_config(seed);
  config.context = context;
  config.eval_bytes = eval_bytes;
  config.accumulation = accumulation;
  config.recurrence = training != "pmnet without recurrence";
  return config;
}

Batch CompareSettings::random_batch() const {
  Batch random;
  random.rows = batch;
  random.context = context;
  for (int64_t i = 0; i < batch * (context + 1); ++i)
    random.ids.push_back(static_cast<int64_t>(splitmix64(static_cast<uint64_t>(i)) % 256));
  random.lengths.assign(batch, context);
  random.loss_mask.assign(batch * context, 1);
  random.continues.assign(batch, 0);
  for (int64_t row = 0; row < batch; ++row) random.sample_ids.push_back(row);
  return random;
}

std::string CompareSettings::train_part(const std::string& training, int64_t seed) {
  return fmt::format("train {}, seed {}", training, seed);
}

}  // namespace pmnet
