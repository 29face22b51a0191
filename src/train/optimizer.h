#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace pmnet {

struct AdamWSettings {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double memory_embedding_lr = 1;  // of memory embeddings, as a multiple of the learning rate
  bool decay_everything = false;   // also norms, biases and embeddings
};

// AdamW on ATen's fused kernel. Norms, biases and embeddings are not decayed unless asked.
class AdamW {
 public:
  AdamW(std::vector<std::pair<std::string, at::Tensor>> parameters, const AdamWSettings& settings);

  // One update with the gradients at hand; parameters without one stay.
  void step(double learning_rate);
  void zero_gradients();

  // The whole state by name, for checkpoints: "<parameter>.first", "<parameter>.second", and "step".
  void visit_state(const std::function<void(const std::string& name, at::Tensor& tensor)>& visitor);

 private:
  struct Group {
    std::vector<size_t> members;
    double weight_decay;
    double rate = 1;  // multiple of the learning rate
  };
  std::vector<std::pair<std::string, at::Tensor>> parameters_;
  std::vector<at::Tensor> first_, second_;  // moments
  at::Tensor step_;                         // float [1]: updates done
  AdamWSettings settings_;
  std::vector<Group> groups_;
};

// Global norm of the gradients, summed in double in the order of the list.
double gradient_norm(const std::vector<std::pair<std::string, at::Tensor>>& parameters);

// Multiplies the gradients by max_norm / (norm + 1e-6) when norm exceeds max_norm.
void clip_gradients(const std::vector<std::pair<std::string, at::Tensor>>& parameters, double norm, double max_norm);

}  // namespace pmnet
