// The anchors (figure 6): what it costs to read without the learned embeddings of the memory tree, and how the tree is
// used.
#pragma once
#include <string>
#include <vector>

#include "experiments/framework/candidates.h"

namespace pmnet {

struct AnchorsSettings : ReadingSettings {
  int64_t routing_bytes = 16'384;

  void list_fields(SettingsTable& table) override;
  std::vector<std::string> problems() override;
  CandidateSpec pmnet() const;  // the first of the models that has memory
  // The same weights, tested in the ways of AnchorCurve.
  std::vector<CandidateSpec> candidates() const;
};

enum AnchorCurve : size_t { kNormal, kNoLeaf, kNoRoot, kNoEmbeddings, kMemoryOff };

class AnchorsExperiment : public Experiment {
 public:
  Settings& settings() override { return settings_; }
  std::vector<Part> parts() override;
  Report report(const Results& results, const std::filesystem::path& folder) override;

  static std::string read_part(int64_t seed);
  static constexpr const char* kRoutingPart = "routing";  // of seed 1

 private:
  nlohmann::json read(int64_t seed, PartContext& context) const;
  nlohmann::json count_routes(PartContext& context) const;

  AnchorsSettings settings_;
};

}  // namespace pmnet
