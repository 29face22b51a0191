// The controlled comparison (figure 3): PMNet, the same without recurrence, Transformer and Mamba, trained on the same
// batches with the same number of parameters, and evaluated inside and far beyond the trained length. Its models also
// serve the long-context and the anchors experiment.
#pragma once
#include <string>
#include <vector>

#include "experiments/framework/task_settings.h"
#include "experiments/framework/task_training.h"
#include "experiments/framework/texts.h"

namespace pmnet {

struct CompareSettings : TrainingSettings {
  std::vector<std::string> text;  // to train on; none: synthetic stories
  std::string text_field = "text";
  double hold_out = 0.02;          // share of the documents that decides when a model is at its best
  int64_t context = 512;           // bytes per sample
  int64_t story_bytes = 512;       // typical length of the synthetic stories
  int64_t eval_bytes = 65'536;     // of held-out text, every eval_every steps
  int64_t attention_limit = 8192;  // the Transformer keeps everything it has read: evaluated no further than this
  BookSettings books;

  void list_fields(SettingsTable& table) override;
  std::vector<std::string> problems() override;

  // The six curves, in the order of CompareCurve. Four candidates are trained; "pmnet without recurrence" has the same
  // parameters as PMNet, but its memory keeps nothing while it is trained.
  std::vector<CandidateSpec> candidates() const;
  static std::string train_part(const std::string& training, int64_t seed);
  static std::string evaluate_part(int64_t seed);
  double trained_bytes() const;
};

enum CompareCurve : size_t { kPmnet, kNoRecurrence, kNeither, kUntrainedMemory, kTransformer, kMamba };

class CompareExperiment : public Experiment {
 public:
  Settings& settings() override { return settings_; }
  std::vector<Part> parts() override;
  Report report(const Results& results, const std::filesystem::path& folder) override;

 private:
  Part texts_part() const;
  Part train_part(const CandidateSpec& candidate, int64_t seed) const;
  Part evaluate_part(int64_t seed) const;
  TaskTraining training(const CandidateSpec& candidate, int64_t seed) const;
  nlohmann::json train(const CandidateSpec& candidate, int64_t seed, PartContext& context) const;
  nlohmann::json evaluate_seed(int64_t seed, PartContext& context) const;

  CompareSettings settings_;
};

}  // namespace pmnet
