// Long contexts (figure 1): bits per byte, time and memory against position, far beyond what the models were trained
// on.
#pragma once
#include <string>
#include <vector>

#include "experiments/framework/candidates.h"

namespace pmnet {

struct LongContextSettings : ReadingSettings {
  int64_t trained = 512;  // bytes of context that the models were trained on
  int64_t attention_limit = 16'384;
  EvalProtocol protocol = EvalProtocol::kCarried;
  int64_t chunk = 1024;

  void list_fields(SettingsTable& table) override;
  std::vector<std::string> problems() override;
  // Those given or trained by the comparison; each with memory also without recurrence.
  std::vector<CandidateSpec> candidates() const;
};

class LongContextExperiment : public Experiment {
 public:
  Settings& settings() override { return settings_; }
  std::vector<Part> parts() override;
  Report report(const Results& results, const std::filesystem::path& folder) override;

  static std::string part_name(const CandidateSpec& candidate, int64_t seed);

 private:
  LongContextSettings settings_;
};

}  // namespace pmnet
