// A candidate is a model under test. Its specification: the configuration, the switches of its memory in training and
// in the test, and how far it is tested.
#pragma once
#include <string>
#include <vector>

#include "experiments/framework/experiment.h"
#include "experiments/framework/texts.h"
#include "model/language_model.h"
#include "train/open_model.h"

namespace pmnet {

// The models that can be trained side by side on the same batches.
enum class CandidateKind {
  kPmnet,
  kWindow,  // PMNet without memory modules: only its sliding windows are left
  kTransformer,
  kMamba,
};
template <>
inline constexpr auto kEnumNames<CandidateKind> =
    std::to_array<const char*>({"pmnet", "window", "transformer", "mamba"});
const char* title_of(CandidateKind kind);  // "PMNet", "Window only", ...

struct CandidateSpec {
  std::string name;      // of parts and files: "pmnet without recurrence"
  std::string title;     // of charts and tables: "PMNet, No Recurrence"
  std::string training;  // whose weights it has: its own name, or that of the candidate that it shares them with
  ModelConfig config;
  MemorySwitches trained, tested;
  int64_t limit = 0;                  // longest text that it is tested on; 0: any
  std::filesystem::path folder = {};  // of a given model

  bool trains() const { return training == name; }
  bool remembers() const { return has_memory(config) && tested.recurrence != false; }
  bool is_baseline() const { return !std::holds_alternative<PmnetConfig>(config); }
  bool attends() const { return std::holds_alternative<TransformerConfig>(config); }
  // Nothing but windows: it must not know what is further back than they reach.
  bool is_window_control() const { return std::holds_alternative<PmnetConfig>(config) && !remembers(); }
};

// The same weights, tested with the recurrence of the memory switched off.
CandidateSpec without_recurrence(const CandidateSpec& candidate, int64_t limit = 0);

// Settings of an experiment that trains nothing: trained models read books.
struct ReadingSettings : Settings {
  std::vector<std::string> models;  // LABEL=DIR
  std::string compare_recipe = "cpu";
  BookSettings books;

  void list_fields(SettingsTable& table) override;
  // The given models. Without any, those that the comparison in the folder beside the experiment has trained with the
  // given recipe: PMNet, Transformer and Mamba. Reads the configurations of given folders.
  std::vector<CandidateSpec> given_candidates() const;
  // As many as that comparison has; given models count as one.
  int64_t seeds() const;
};

// UserError when the comparison's training is not there or not finished.
OpenedModel open_candidate(const CandidateSpec& candidate, int64_t seed, const PartContext& context);

}  // namespace pmnet
