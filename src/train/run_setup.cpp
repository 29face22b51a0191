#include "train/run_setup.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/machine.h"
#include "config/config_json.h"
#include "config/presets.h"
#include "report/progress.h"
#include "train/device.h"

namespace pmnet {

namespace {

constexpr int64_t kBinaryBos = 256, kBinaryEos = 257;

ModelConfig preset_config(const TrainConfig& config) {
  return like(config.architecture.value_or(Architecture::kPmnet), preset(config.preset));
}

ModelConfig stored_config(const TrainConfig& config) {
  const std::filesystem::path given = config.init.empty() ? config.model_config : config.init;
  ModelConfig stored = read_config(std::filesystem::is_directory(given) ? given / "config.json" : given).config;
  if (!config.architecture || config.architecture == architecture_of(stored)) return stored;
  // Only a shape, no weights: a PMNet has baselines of matching size.
  const auto* pmnet = std::get_if<PmnetConfig>(&stored);
  if (config.init.empty() && pmnet != nullptr) return like(*config.architecture, *pmnet);
  fail("model.arch is '{}' and {} is a {}; leave model.arch out", enum_name(*config.architecture), given.string(),
       enum_name(architecture_of(stored)));
}

void apply_changes(const TrainConfig& config, ModelConfig& model) {
  auto* pmnet = std::get_if<PmnetConfig>(&model);
  if (config.binary)
    std::visit(
        [](auto& c) {
          c.bos_token_id = kBinaryBos;
          c.eos_token_id = kBinaryEos;
        },
        model);
  if (config.dropout >= 0) {
    if (pmnet != nullptr)
      pmnet->attention_dropout = config.dropout;
    else if (auto* transformer = std::get_if<TransformerConfig>(&model))
      transformer->attention_dropout = config.dropout;
    else if (config.dropout > 0)
      fail("model.dropout is {}, but Mamba has no attention to drop; leave it out", config.dropout);
  }
  if (config.initializer_range >= 0)
    std::visit([&](auto& c) { c.initializer_range = config.initializer_range; }, model);
  if (config.residual_init >= 0) {
    if (pmnet != nullptr)
      pmnet->residual_init = config.residual_init;
    else if (auto* transformer = std::get_if<TransformerConfig>(&model))
      transformer->residual_init = config.residual_init;
    else
      fail("model.residual_init belongs to PMNet and the Transformer, this model is a mamba");
  }
  const auto require_pmnet = [&](const char* key) {
    if (pmnet == nullptr) fail("{} belongs to PMNet, this model is a {}", key, enum_name(architecture_of(model)));
  };
  if (!config.memory_modules) {
    require_pmnet("memory.modules");
    pmnet->memory_modules = false;
  }
  if (config.memory_embedding_std >= 0) {
    require_pmnet("model.memory_embedding_std");
    pmnet->memory_embedding_std = config.memory_embedding_std;
  }
  if (config.memory_keys) {
    require_pmnet("model.memory_keys");
    pmnet->memory_keys = *config.memory_keys;
  }
  if (config.memory_values) {
    require_pmnet("model.memory_values");
    pmnet->memory_values = *config.memory_values;
  }
  if (config.max_ngram > 0) std::visit([&](auto& c) { c.max_ngram = config.max_ngram; }, model);
  if (config.ngram_rows > 0) std::visit([&](auto& c) { c.ngram_rows = config.ngram_rows; }, model);
  if (!config.memory_tree) {
    require_pmnet("model.memory_tree");
    pmnet->memory_tree = false;
  }
}

void check_carry(const TrainConfig& config, const ModelConfig& model) {
  const auto* pmnet = std::get_if<PmnetConfig>(&model);
  const bool grows =
      std::holds_alternative<TransformerConfig>(model) || (pmnet != nullptr && pmnet->has_full_attention());
  if (config.carry && grows)
    fail("train.carry keeps the state of a text, which grows without end under full attention; use PMNet or Mamba");
}

}  // namespace

ModelConfig model_config_of(const TrainConfig& config) {
  ModelConfig model = config.preset.empty() ? stored_config(config) : preset_config(config);
  apply_changes(config, model);
  check_carry(config, model);
  if (const auto found = problems(model); !found.empty()) fail("the model cannot be built: {}", found.front());
  return model;
}

void move_to_device(LanguageModel& model, const TrainConfig& config, const ProcessGroup& group) {
  if (config.device == Device::kCpu) return;
  move_model(model, at::Device(at::kCUDA, static_cast<at::DeviceIndex>(group.launch().local_rank)));
}

LoadedModel make_run_model(const TrainConfig& config, const ProcessGroup& group) {
  LoadedModel made{.model = nullptr, .config = model_config_of(config), .warnings = {}};
  made.model = make_model(made.config);
  if (config.init.empty()) {
    made.model->initialize(static_cast<uint64_t>(config.seed));
  } else {
    LoadedModel start = load_model(config.init);
    const auto weights = start.model->named_parameters();
    size_t next = 0;
    made.model->visit([&](const std::string&, Tensor& parameter) { parameter.copy_(weights.at(next++).second); });
    made.warnings = std::move(start.warnings);
  }
  move_to_device(*made.model, config, group);
  return made;
}

Framing framing_of(const LanguageModel& model) {
  const ModelConfig config = model.model_config();
  return {.bos = bos_token_id(config), .eos = eos_token_id(config), .pad = 0};
}

std::string RunData::fingerprint() const {
  return fmt::format("{:016x}-{:016x}", train->fingerprint, held_out ? held_out->fingerprint : 0);
}

RunData open_run_data(const TrainConfig& config, const std::function<void()>& poll) {
  CorpusSpec spec;
  if (config.weights.empty()) spec.sources.push_back({config.inputs, 1});
  for (size_t i = 0; i < config.weights.size(); ++i) spec.sources.push_back({{config.inputs[i]}, config.weights[i]});
  spec.read = config.read;
  spec.cache_folder = config.cache;
  const bool separate = !config.validation.empty();
  spec.hold_out = config.hold_out;
  if (separate) spec.hold_out.by = HoldOut::By::kNone;
  ProgressLine line;
  const PackCallback progress = [&](const PackProgress& done) {
    poll();
    line.update([&] {
      return fmt::format("packing the data: {} of {}", format_bytes(done.input_bytes),
                         format_bytes(done.total_input_bytes));
    });
  };
  Corpus corpus = open_corpus(spec, progress);
  if (corpus.documents_with_marker_bytes > 0 && !config.binary)
    line.print(
        fmt::format("note: {} documents hold the bytes 254 or 255, the usual BOS and EOS; train a new model with "
                    "--binary to keep them apart",
                    format_count(corpus.documents_with_marker_bytes)));
  RunData data{std::make_shared<const DocumentSet>(std::move(corpus.train)), nullptr, std::move(corpus.packed)};
  if (!corpus.held_out.sources.empty()) data.held_out = std::make_shared<const DocumentSet>(std::move(corpus.held_out));
  if (separate) {
    spec.sources = {{config.validation, 1}};
    data.held_out = std::make_shared<const DocumentSet>(open_corpus(spec, progress).train);
  }
  return data;
}

std::vector<CostPart> training_memory(const TrainConfig& config, const ModelConfig& model, const Launch& launch) {
  const int64_t rows = config.rows_per_pass(launch.world), context = config.longest_context();
  const int64_t chunk = config.chunk > 0 ? std::min(config.chunk, context) : context;
  std::vector<CostPart> parts = training_memory_bytes(model, rows, chunk);
  if (chunk < context) {
    const double boundaries = static_cast<double>((context + chunk - 1) / chunk);
    parts.push_back({"states at the ends of chunks",
                     boundaries * static_cast<double>(rows) * total(streaming_state_bytes(model, context))});
  }
  for (CostPart& part : parts) part.amount *= launch.local_world;
  return parts;
}

void check_memory(const TrainConfig& config, const ModelConfig& model, const Launch& launch) {
  if (config.device != Device::kCpu) return;
  const double needed = total(training_memory(config, model, launch));
  const auto available = static_cast<double>(query_machine().available_bytes);
  if (available > 0 && needed > available)
    fail(
        "training needs about {:.1f} GB and {:.1f} GB are available; use a smaller train.batch or model, more "
        "train.accumulation, or train.chunk, or try it all the same with --force",
        needed / 1e9, available / 1e9);
}

void choose_threads(const TrainConfig& config, const Launch& launch) {
  if (config.threads > 0)
    at::set_num_threads(limit_threads(config.threads));
  else if (launch.world > 1)  // torchrun sets OMP_NUM_THREADS=1
    at::set_num_threads(std::max(1, usable_cores() / launch.local_world));
}

double measure_gemm_rate() {
  constexpr int64_t kSize = 2048;
  constexpr int kRepeats = 3;
  at::NoGradGuard no_grad;
  const Tensor a = at::full({kSize, kSize}, 0.5f), b = at::full({kSize, kSize}, 0.25f);
  Tensor c = at::empty({kSize, kSize});
  double best = 1e30;
  for (int i = 0; i < kRepeats; ++i) {
    const double start = steady_seconds();
    at::mm_out(c, a, b);
    best = std::min(best, steady_seconds() - start);
  }
  return 2.0 * kSize * kSize * kSize / best;
}

}  // namespace pmnet
