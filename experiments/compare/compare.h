// The controlled comparison's settings: its models also serve the long-context and the anchors experiment.
#pragma once
#include "data/batcher.h"
#include "experiments/framework/registry.h"
#include "experiments/framework/task_settings.h"
#include "experiments/framework/texts.h"

namespace pmnet {

struct CompareSettings : TaskSettings {
  std::vector<std::string> text;  // to train on; none: tales of our own
  std::string text_field = "text";
  double hold_out = 0.02;          // share of the documents that tells when a model is at its best
  int64_t context = 512;           // bytes per sample
  int64_t story_bytes = 512;       // typical length of our own tales
  int64_t eval_bytes = 65'536;     // of held-out text, every eval_every steps
  int64_t accumulation = 1;        // parts of a batch that go through a model one after another
  double dropout = 0;              // of attention probabilities, PMNet and Transformer
  int64_t attention_limit = 8192;  // the Transformer keeps everything it has read: evaluated no further than this
  BookSettings books;

  explicit CompareSettings(Recipe recipe);
  void visit(const Visitor& visitor) override;
  std::vector<std::string> problems() override;

  // The four trainings; `pmnet without recurrence` is the window-only PMNet: the same parameters, but its memory keeps
  // nothing while it is trained.
  static const std::vector<std::string>& trainings();  // pmnet, pmnet without recurrence, transformer, mamba
  ModelConfig config_of(const std::string& training) const;
  TrainConfig train_config_of(const std::string& training, int64_t seed) const;
  Batch random_batch() const;  // of meaningless bytes, to time a step with
  static std::string train_part(const std::string& training, int64_t seed);
};

}  // namespace pmnet
