#include "model/model_folder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "config/config_json.h"
#include "config/costs.h"
#include "config/presets.h"

namespace pmnet {

namespace {

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

ParsedConfig config_in(const std::filesystem::path& folder) {
  if (!std::filesystem::is_directory(folder))
    fail("{} is not a folder; a model is a folder with config.json and model.safetensors", folder.string());
  return read_config(folder / "config.json");
}

}  // namespace

ModelFolder::ModelFolder(const std::filesystem::path& folder, Warn warn)
    : ModelFolder(folder, config_in(folder), std::move(warn)) {}

ModelFolder::ModelFolder(const std::filesystem::path& folder, const ParsedConfig& parsed, Warn warn)
    : folder_(folder), config_(parsed.config), warn_(std::move(warn)), set_(TensorSet::open(folder)) {
  require_parameters(set_, config_);
  for (const std::string& warning : parsed.warnings) warn_(warning);
  std::vector<ExpectedTensor> expected;
  // Memory that is not touched: what is wanted of the model are its names and shapes.
  make_model(config_)->visit([&](const std::string& name, Tensor& p) {
    expected.push_back({name, p.sizes().vec()});
    names_.push_back(name);
  });
  for (const std::string& name : require_tensors(set_, expected)) {
    // Some writers repeat the tied head; int8 weights have scales.
    if (name != "lm_head.weight" && !name.ends_with(scale_name(".weight")))
      warn_(fmt::format("tensor {} is not part of the model", name));
  }
}

StoredWeight ModelFolder::read(const std::string& name) const {
  StoredWeight weight = read_unchecked(name);
  if (!(weight.scales ? *weight.scales : weight.values).isfinite().all().item<bool>())
    warn_(fmt::format("tensor {} holds NaN or infinite values", name));
  return weight;
}

StoredWeight ModelFolder::read_unchecked(const std::string& name) const {
  const StoredTensor* stored = set_.find(name);
  TORCH_CHECK(stored != nullptr, name, " is not a parameter of the model");
  if (stored->info->dtype == DType::kI8 && stored->info->shape.size() == 2 && name.ends_with(".weight")) {
    const StoredTensor* scales = set_.find(scale_name(name));
    const int64_t rows = stored->info->shape[0];
    if (scales == nullptr || scales->info->dtype != DType::kF32 || scales->info->shape != std::vector<int64_t>{rows})
      fail("{}: the int8 tensor {} has no {} of {} F32 numbers beside it; quantize the model again", folder_.string(),
           name, scale_name(name), rows);
    const StoredWeight weight{read_tensor(*stored), read_tensor(*scales)};
    return is_stored_smaller(name) ? weight : StoredWeight{widened(weight)};
  }
  const Tensor values = read_tensor(*stored);
  if (!values.is_floating_point())
    fail(
        "{}: tensor {} is not floating point; weights must be F32, F64, F16 or BF16, and matrices may be I8 with "
        "scales",
        folder_.string(), name);
  return {values.scalar_type() == at::kBFloat16 && is_stored_smaller(name) ? values : values.to(at::kFloat)};
}

bool ModelFolder::quantized() const {
  return std::any_of(names_.begin(), names_.end(), [&](const std::string& name) {
    const DType dtype = set_.find(name)->info->dtype;
    return is_stored_smaller(name) && (dtype == DType::kBF16 || dtype == DType::kI8);
  });
}

std::string ModelFolder::hash() const {
  NamedTensors tensors;
  for (const std::string& name : names_) {
    const StoredWeight stored = read_unchecked(name);
    tensors.emplace_back(name, stored.values);
    if (stored.scales) tensors.emplace_back(scale_name(name), *stored.scales);
  }
  return tensors_hash(tensors);
}

LoadedModel load_model(const std::filesystem::path& path, const LoadOptions& options) {
  std::vector<std::string> warnings;
  const ModelFolder folder(path, [&](const std::string& warning) { warnings.push_back(warning); });
  LoadedModel loaded{.model = make_model(folder.config(), options.dtype), .config = folder.config(), .warnings = {}};
  loaded.model->visit([&](const std::string& name, Tensor& p) { p.copy_(widened(folder.read(name))); });
  loaded.warnings = std::move(warnings);
  if (options.strict && !loaded.warnings.empty())
    fail("{}: refused because of --strict: {}", path.string(), fmt::join(loaded.warnings, "; "));
  return loaded;
}

LoadedModel load_or_make_model(const std::string& preset_or_folder, uint64_t seed) {
  if (std::filesystem::is_directory(preset_or_folder)) return load_model(preset_or_folder);
  LoadedModel made{.model = nullptr, .config = preset(preset_or_folder), .warnings = {}};
  made.model = make_model(made.config);
  made.model->initialize(seed);
  return made;
}

void write_model_files(const std::filesystem::path& folder, const NamedTensors& tensors, const ModelConfig& config) {
  std::vector<Tensor> keep;
  write_safetensors(folder / "model.safetensors", tensor_views(tensors, keep));
  const auto write_text = [&](const std::string& name, const std::string& text) {
    FileWriter writer(folder / name);
    writer.write(text);
    writer.finish();
  };
  write_text("config.json", to_json(config));
  for (const auto& [name, text] : hugging_face_files(config)) write_text(name, text);
}

void save_model(const std::filesystem::path& folder, const NamedTensors& tensors, const ModelConfig& config) {
  AtomicFolder atomic(folder);
  write_model_files(atomic.path(), tensors, config);
  atomic.commit();
}

void save_model(const std::filesystem::path& folder, const LanguageModel& model, const ModelConfig& config) {
  save_model(folder, model.named_parameters(), config);
}

std::string tensors_hash(const NamedTensors& tensors) {
  ModelHash hash;
  std::vector<Tensor> keep;
  for (const TensorView& view : tensor_views(tensors, keep)) hash.add(view.name, view.dtype, view.shape, view.data);
  return hash.hex();
}

std::string model_hash(const LanguageModel& model) { return tensors_hash(model.named_parameters()); }

}  // namespace pmnet
