// What the parts of the module share. Python's own classes (python/pmnet) wrap these: they check and convert arguments.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/generator.h"
#include "engine/session.h"
#include "model/model_folder.h"
#include "tensor.h"

namespace pmnet::python {

struct Model {
  std::shared_ptr<LanguageModel> weights;  // null for bf16 and int8 weights, which are for inference only
  std::shared_ptr<const Engine> engine;
  ModelConfig config;
  std::vector<std::string> warnings;
};

// Calls on one session wait for each other, so that threads that share one cannot break it.
struct Stream {
  std::shared_ptr<Model> model;
  Session session;
  mutable std::mutex mutex = {};

  Stream(std::shared_ptr<Model> of, Session at) : model(std::move(of)), session(std::move(at)) {}

  // The work with the session locked and the GIL released. The order matters: a thread that waits for the session must
  // not hold the GIL that the thread inside needs to return.
  template <typename Work>
  auto locked(const Work& work) const {
    const nb::gil_scoped_release release;
    const std::lock_guard lock(mutex);
    return work();
  }
};

void bind_model(nb::module_& m);
void bind_session(nb::module_& m);
void bind_jobs(nb::module_& m);

}  // namespace pmnet::python
