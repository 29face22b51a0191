#include <ATen/Parallel.h>

#include <thread>

#include "api/internal.h"
#include "base/amx_guard.h"
#include "config/costs.h"
#include "config/presets.h"

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
  const std::filesystem::path weights = weights_folder(folder.string());
  auto impl = std::make_shared<Impl>();
  const auto opened = std::make_shared<const ModelFolder>(
      weights, [warnings = &impl->warnings](const std::string& warning) { warnings->push_back(warning); });
  impl->config = opened->config();
  if (opened->quantized()) {
    impl->quantized = make_engine(EngineWeights(opened));
  } else {
    LoadedModel loaded = load_model(weights);
    impl->model = std::move(loaded.model);
    impl->warnings = std::move(loaded.warnings);
  }
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
  if (!impl_->model) fail("a quantized model cannot be saved again; copy its folder instead");
  save_model(folder, *impl_->model, impl_->config);
}

std::int64_t Model::num_parameters() const { return parameter_count(impl_->config); }
std::int64_t Model::vocab_size() const {
  return std::visit([](const auto& c) { return c.vocab_size; }, impl_->config);
}
std::int64_t Model::bos_id() const {
  return std::visit([](const auto& c) { return c.bos_token_id; }, impl_->config);
}
std::int64_t Model::eos_id() const {
  return std::visit([](const auto& c) { return c.eos_token_id; }, impl_->config);
}
const std::vector<std::string>& Model::warnings() const { return impl_->warnings; }

std::string Model::hash() const { return impl_->engine()->model_hash(); }

}  // namespace pmnet::inline v0
