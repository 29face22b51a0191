// The copy-paste probe of the paper (figures 4 and 5), in two readings. The paper counts 2N bytes of looking back, but
// the byte to copy is N back from where it is predicted, so its range (N <= 1,024, windows that reach 1,524) can be
// learned without memory. The strict reading trains on N beyond the reach: there, only memory can answer.
#pragma once
#include "experiments/copy/copy_task.h"
#include "experiments/framework/task_experiment.h"

namespace pmnet {

enum class CopyReading { kPaper, kStrict, kBoth };
template <>
inline constexpr auto kEnumNames<CopyReading> = std::to_array<const char*>({"paper", "strict", "both"});

struct CopySettings : TaskSettings {
  CopyReading reading = CopyReading::kBoth;
  int64_t least = 1;                                   // smallest N, trained
  int64_t paper_most = 0, strict_most = 0;             // largest N, trained
  std::vector<int64_t> paper_lengths, strict_lengths;  // N, tested, ascending; the largest is beyond the trained ones
  CopyTask task;

  void list_fields(SettingsTable& table) override;
  std::vector<std::string> problems() override;
};

class CopyExperiment : public TaskExperiment {
 public:
  Settings& settings() override { return settings_; }
  const TaskSettings& task_settings() const override { return settings_; }
  TaskPlan plan() const override;
  Report report(const Results& results, const std::filesystem::path& folder) override;

  static constexpr const char *kPaper = "paper reading", *kStrict = "strict reading";

 private:
  CopySettings settings_;
};

}  // namespace pmnet
