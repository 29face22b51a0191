#include <ATen/Parallel.h>

#include <thread>

#include "api/internal.h"
#include "base/amx_guard.h"
#include "config/costs.h"
#include "config/presets.h"
#include "engine/packed_model.h"

namespace pmnet::inline v0 {

namespace {

// Once per process, before the first product of oneDNN.
void prepare_process() {
  static const std::string cap = guard_against_broken_amx();
  static_cast<void>(cap);
}

}  // namespace

void set_num_threads(int threads) {
  at::set_num_threads(threads > 0 ? threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
}

Model Model::load(const std::filesystem::path& folder) {
  prepare_process();
  LoadedModel loaded = load_model(weights_folder(folder.string()), {.keep_small = true});
  auto impl = std::make_shared<Impl>();
  impl->model = std::move(loaded.model);
  impl->config = loaded.config;
  impl->warnings = std::move(loaded.warnings);
  ParameterVisitor visitor;
  visitor.linear = [&](const std::string&, Linear& layer) {
    impl->quantized = impl->quantized || layer.weight.scalar_type() != at::kFloat;
  };
  impl->model->visit(visitor);
  impl->quantized_hash = impl->quantized ? model_hash(*impl->model) : "";
  pack_weights(*impl->model);
  return Model(std::move(impl));
}

Model Model::create(const std::string& preset_name, std::uint64_t seed) {
  prepare_process();
  auto impl = std::make_shared<Impl>();
  impl->config = preset(preset_name);
  impl->model = make_model(impl->config);
  impl->model->initialize(seed);
  return Model(std::move(impl));
}

void Model::save(const std::filesystem::path& folder) const {
  if (impl_->quantized) fail("a quantized model cannot be saved again; copy its folder instead");
  save_model(folder, *impl_->model, impl_->config);
}

std::int64_t Model::num_parameters() const { return parameter_count(impl_->config); }
std::int64_t Model::vocab_size() const { return impl_->model->vocab_size(); }
std::int64_t Model::bos_id() const { return impl_->model->bos_token_id(); }
std::int64_t Model::eos_id() const { return impl_->model->eos_token_id(); }
const std::vector<std::string>& Model::warnings() const { return impl_->warnings; }

std::string Model::hash() const { return impl_->quantized ? impl_->quantized_hash : model_hash(*impl_->model); }

}  // namespace pmnet::inline v0
