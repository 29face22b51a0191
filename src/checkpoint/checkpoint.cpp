#include "checkpoint/checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "checkpoint/tensors.h"
#include "config/config_json.h"
#include "config/presets.h"
#include "formats/checkpoint_files.h"

namespace pmnet {

namespace {

// Beside "<layer>.weight" in int8: what each row is to be multiplied by.
constexpr std::string_view kWeightSuffix = ".weight", kScaleSuffix = ".weight_scale";

ops::PackedWeight read_packed(const TensorSet& set, const std::string& layer) {
  const Tensor weight = read_tensor(*set.find(layer + std::string(kWeightSuffix)));
  if (weight.scalar_type() == at::kBFloat16) return ops::pack_stored(weight);
  const StoredTensor* scales = set.find(layer + std::string(kScaleSuffix));
  if (scales == nullptr || scales->info->dtype != DType::kF32 ||
      scales->info->shape != std::vector<int64_t>{weight.size(0)})
    fail("{}: the int8 weight of {} has no {}{} of {} F32 numbers; quantize the model again", set.path().string(),
         layer, layer, kScaleSuffix, weight.size(0));
  return ops::pack_stored(weight, read_tensor(*scales));
}

// Everything a model consists of, packed weights as they are.
NamedTensors stored_tensors(LanguageModel& model) {
  NamedTensors tensors = model.named_parameters();
  ParameterVisitor layers;
  layers.linear = [&](const std::string& name, Linear& layer) {
    if (!layer.packed) return;
    tensors.emplace_back(name + std::string(kWeightSuffix), ops::stored_weight(*layer.packed));
    if (layer.packed->scales) tensors.emplace_back(name + std::string(kScaleSuffix), *layer.packed->scales);
  };
  model.visit(layers);
  return tensors;
}

}  // namespace

LoadedModel load_model(const std::filesystem::path& folder, const LoadOptions& options) {
  if (!std::filesystem::is_directory(folder))
    fail("{} is not a folder; a model is a folder with config.json and model.safetensors", folder.string());
  ParsedConfig parsed = read_config(folder / "config.json");
  const TensorSet set = TensorSet::open(folder);

  LoadedModel loaded{.model = nullptr, .config = parsed.config, .warnings = std::move(parsed.warnings)};
  loaded.model = make_model(parsed.config, options.dtype);
  std::vector<ExpectedTensor> expected;
  loaded.model->visit([&](const std::string& name, Tensor& p) { expected.push_back({name, p.sizes().vec()}); });
  for (const std::string& name : require_tensors(set, expected)) {
    // Some writers repeat the tied head; int8 weights have scales.
    if (name != "lm_head.weight" && !name.ends_with(kScaleSuffix))
      loaded.warnings.push_back(fmt::format("tensor {} is not part of the model", name));
  }
  if (options.keep_packed) {
    ParameterVisitor layers;
    layers.linear = [&](const std::string& name, Linear& layer) {
      const DType dtype = set.find(name + ".weight")->info->dtype;
      if (dtype != DType::kI8 && dtype != DType::kBF16) return;
      layer.packed = read_packed(set, name);
      layer.weight = Tensor();
    };
    loaded.model->visit(layers);
  }
  loaded.model->visit([&](const std::string& name, Tensor& p) {
    const bool int8 = set.find(name)->info->dtype == DType::kI8 && name.ends_with(kWeightSuffix);
    const Tensor stored = int8
                              ? ops::unpack_weight(read_packed(set, name.substr(0, name.size() - kWeightSuffix.size())))
                              : read_tensor(*set.find(name));
    if (!stored.is_floating_point())
      fail("{}: tensor {} is not floating point; weights must be F32, F64, F16 or BF16", folder.string(), name);
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

void write_model_files(const std::filesystem::path& folder, LanguageModel& model, const AnyConfig& config) {
  std::vector<Tensor> keep;
  write_safetensors(folder / "model.safetensors", tensor_views(stored_tensors(model), keep));
  const auto write_text = [&](const std::string& name, const std::string& text) {
    FileWriter writer(folder / name);
    writer.write(text);
    writer.finish();
  };
  write_text("config.json", to_json(config));
  for (const auto& [name, text] : tokenizer_files(config)) write_text(name, text);
}

void save_model(const std::filesystem::path& folder, LanguageModel& model, const AnyConfig& config) {
  AtomicFolder atomic(folder);
  write_model_files(atomic.path(), model, config);
  atomic.commit();
}

std::string model_hash(LanguageModel& model) {
  ModelHash hash;
  std::vector<Tensor> keep;
  for (const TensorView& view : tensor_views(stored_tensors(model), keep))
    hash.add(view.name, view.dtype, view.shape, view.data);
  return hash.hex();
}

}  // namespace pmnet
