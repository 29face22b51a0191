#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/error.h"
#include "bindings.h"
#include "config/config_json.h"
#include "config/costs.h"
#include "config/presets.h"
#include "engine/engine_weights.h"
#include "train/open_model.h"

namespace pmnet::python {
namespace {

using ModelPointer = std::shared_ptr<Model>;

ModelPointer load(const std::string& name) {
  const std::filesystem::path folder = weights_folder(name);
  auto model = std::make_shared<Model>();
  const auto opened = std::make_shared<const ModelFolder>(
      folder, [&](const std::string& warning) { model->warnings.push_back(warning); });
  model->config = opened->config();
  if (opened->quantized()) {
    model->engine = make_engine(EngineWeights(opened));
  } else {
    LoadedModel loaded = load_model(folder);
    model->weights = std::move(loaded.model);
    model->warnings = std::move(loaded.warnings);
    model->engine = make_engine(model->weights);
  }
  return model;
}

ModelPointer create(const std::string& preset_name, uint64_t seed) {
  auto model = std::make_shared<Model>();
  model->config = preset(preset_name);
  model->weights = make_model(model->config);
  model->weights->initialize(seed);
  model->engine = make_engine(model->weights);
  return model;
}

void save(const Model& model, const std::string& folder) {
  if (!model.weights) fail("a quantized model cannot be saved again; copy its folder instead");
  save_model(folder, *model.weights, model.config);
}

std::vector<std::pair<std::string, at::Tensor>> parameters(const Model& model) {
  if (!model.weights) fail("a quantized model gives no parameters; load the float32 model it was made from");
  return model.weights->named_parameters();
}

}  // namespace

void bind_model(nb::module_& m) {
  m.def("preset_names", &preset_names, "Names that create_model() takes.");
  m.def(
      "load_model", [](const std::string& folder) { return without_gil([&] { return load(folder); }); },
      nb::arg("folder"));
  m.def(
      "create_model",
      [](const std::string& preset, uint64_t seed) { return without_gil([&] { return create(preset, seed); }); },
      nb::arg("preset"), nb::arg("seed"));
  nb::class_<Model>(m, "Model")
      .def(
          "save", [](const Model& model, const std::string& folder) { without_gil([&] { save(model, folder); }); },
          nb::arg("folder"))
      .def("parameters", &parameters)
      .def(
          "refresh",
          [](Model& model) {
            if (model.weights) model.engine = without_gil([&] { return make_engine(model.weights); });
          },
          "Sessions made from now on use weights that were changed.")
      .def("config_json", [](const Model& model) { return to_json(model.config); })
      .def("hash", [](const Model& model) { return without_gil([&] { return model.engine->model_hash(); }); })
      .def("logits", [](const Model& model,
                        const at::Tensor& hidden) { return without_gil([&] { return model.engine->logits(hidden); }); })
      .def_prop_ro("num_parameters", [](const Model& model) { return parameter_count(model.config); })
      .def_prop_ro("vocab_size", [](const Model& model) { return model.engine->vocab_size(); })
      .def_prop_ro("bos_id", [](const Model& model) { return model.engine->bos_token_id(); })
      .def_prop_ro("eos_id", [](const Model& model) { return model.engine->eos_token_id(); })
      .def_prop_ro("quantized", [](const Model& model) { return model.weights == nullptr; })
      .def_ro("warnings", &Model::warnings);
}

}  // namespace pmnet::python
