#include "model/model_folder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "config/config_json.h"
#include "config/costs.h"
#include "config/presets.h"
#include "io/checkpoint_files.h"
#include "model/tensors.h"

namespace pmnet {

namespace {

// Beside "<layer>.weight" in int8: what each row is to be multiplied by.
constexpr std::string_view kWeightSuffix = ".weight", kScaleSuffix = ".weight_scale";

const StoredTensor& scales_of(const TensorSet& set, const std::string& weight, int64_t rows) {
  const std::string name = weight.substr(0, weight.size() - kWeightSuffix.size()) + std::string(kScaleSuffix);
  const StoredTensor* scales = set.find(name);
  if (scales == nullptr || scales->info->dtype != DType::kF32 || scales->info->shape != std::vector<int64_t>{rows})
    fail("{}: the int8 tensor {} has no {} of {} F32 numbers beside it; quantize the model again", set.path().string(),
         weight, name, rows);
  return *scales;
}

// Checked before anything of the model's size is allocated: a config.json of a kilobyte can describe terabytes. A
// smaller difference is reported by the names of the tensors.
void require_parameters(const TensorSet& set, const ModelConfig& config) {
  double stored = 0;
  for (const StoredTensor& tensor : set.tensors())
    stored += static_cast<double>(tensor.info->bytes()) * 8 / static_cast<double>(bits_of(tensor.info->dtype));
  const auto parameters = static_cast<double>(parameter_count(config));
  if (parameters > 2 * stored)
    fail("{}: holds {:.0f} weights, and config.json describes a model of {:.0f}; the files do not belong together",
         set.path().string(), stored, parameters);
}

// Everything a model consists of.
NamedTensors all_tensors(LanguageModel& model) {
  ParameterVisitor layers;
  layers.linear = [](const std::string& name, Linear& layer) {
    TORCH_CHECK(!layer.packed, name, " is packed for inference and can no longer be saved");
  };
  model.visit(layers);
  return model.named_parameters();
}

}  // namespace

LoadedModel load_model(const std::filesystem::path& folder, const LoadOptions& options) {
  if (!std::filesystem::is_directory(folder))
    fail("{} is not a folder; a model is a folder with config.json and model.safetensors", folder.string());
  ParsedConfig parsed = read_config(folder / "config.json");
  const TensorSet set = TensorSet::open(folder);
  require_parameters(set, parsed.config);

  LoadedModel loaded{.model = nullptr, .config = parsed.config, .warnings = std::move(parsed.warnings)};
  loaded.model = make_model(parsed.config, options.dtype);
  std::vector<ExpectedTensor> expected;
  loaded.model->visit([&](const std::string& name, Tensor& p) { expected.push_back({name, p.sizes().vec()}); });
  for (const std::string& name : require_tensors(set, expected)) {
    // Some writers repeat the tied head; int8 weights have scales.
    if (name != "lm_head.weight" && !name.ends_with(kScaleSuffix))
      loaded.warnings.push_back(fmt::format("tensor {} is not part of the model", name));
  }
  if (options.keep_small) {
    ParameterVisitor layers;
    layers.linear = [&](const std::string& name, Linear& layer) {
      const DType dtype = set.find(name + std::string(kWeightSuffix))->info->dtype;
      if (dtype == DType::kBF16) layer.weight = layer.weight.to(at::kBFloat16);
      if (dtype != DType::kI8) return;
      layer.weight = layer.weight.to(at::kChar);
      layer.weight_scale = at::empty({layer.num_outputs()}, at::kFloat);
    };
    loaded.model->visit(layers);
  }
  loaded.model->visit([&](const std::string& name, Tensor& p) {
    const bool int8 = set.find(name)->info->dtype == DType::kI8 && name.ends_with(kWeightSuffix) && p.dim() == 2;
    Tensor stored = read_tensor(*set.find(name));
    if (int8) {
      const Tensor scales = read_tensor(scales_of(set, name, p.size(0)));
      if (p.is_floating_point()) stored = stored.to(at::kFloat) * scales.unsqueeze(1);
    } else if (!stored.is_floating_point()) {
      fail(
          "{}: tensor {} is not floating point; weights must be F32, F64, F16 or BF16, and matrices may be I8 with "
          "scales",
          folder.string(), name);
    }
    if (!stored.isfinite().all().item<bool>())
      loaded.warnings.push_back(fmt::format("tensor {} holds NaN or infinite values", name));
    p.copy_(stored);
  });
  if (options.strict && !loaded.warnings.empty())
    fail("{}: refused because of --strict: {}", folder.string(), fmt::join(loaded.warnings, "; "));
  return loaded;
}

LoadedModel load_or_make_model(const std::string& preset_or_folder, uint64_t seed) {
  if (std::filesystem::is_directory(preset_or_folder)) return load_model(preset_or_folder);
  LoadedModel made{.model = nullptr, .config = preset(preset_or_folder), .warnings = {}};
  made.model = make_model(made.config);
  made.model->initialize(seed);
  return made;
}

void write_model_files(const std::filesystem::path& folder, LanguageModel& model, const ModelConfig& config) {
  std::vector<Tensor> keep;
  write_safetensors(folder / "model.safetensors", tensor_views(all_tensors(model), keep));
  const auto write_text = [&](const std::string& name, const std::string& text) {
    FileWriter writer(folder / name);
    writer.write(text);
    writer.finish();
  };
  write_text("config.json", to_json(config));
  for (const auto& [name, text] : tokenizer_files(config)) write_text(name, text);
}

void save_model(const std::filesystem::path& folder, LanguageModel& model, const ModelConfig& config) {
  AtomicFolder atomic(folder);
  write_model_files(atomic.path(), model, config);
  atomic.commit();
}

std::string model_hash(LanguageModel& model) {
  ModelHash hash;
  std::vector<Tensor> keep;
  for (const TensorView& view : tensor_views(all_tensors(model), keep))
    hash.add(view.name, view.dtype, view.shape, view.data);
  return hash.hex();
}

}  // namespace pmnet
