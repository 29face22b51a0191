// A probe asks one thing of every candidate: rows of a task over lengths and loads. A new one is a Task and a
// ProbeSettings that says what its rows, courses and published results are; plan and report are shared.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "experiments/framework/task_experiment.h"

namespace pmnet {

// A result of others, printed beside ours.
struct PublishedResult {
  std::string model, setting, result, source;
};

struct ProbeText {
  std::string title;
  std::string row;          // paragraph: what a row is, what is graded, how ours differs from the published form
  std::string length_name;  // "bits"
  std::string load_name;    // "pairs"
  std::vector<PublishedResult> published = {};
};

struct ProbeSettings : TaskSettings {
  std::vector<CandidateKind> candidates = {CandidateKind::kPmnet, CandidateKind::kWindow, CandidateKind::kTransformer,
                                           CandidateKind::kMamba};
  std::vector<int64_t> loads = {1};  // trained and tested, ascending
  std::vector<int64_t> lengths;      // tested, ascending
  int64_t least = 0, most = 0;       // lengths in training
  bool log_lengths = false;
  bool published_anchors = false;  // also trains PMNet with the paper's scale of the anchors, as a control
  int64_t attention_limit = 4096;  // the Transformer keeps everything it has read: tested no further than this
  int64_t mamba_limit = 0;         // longest test of Mamba; 0: as long as PMNet's
  int64_t control_limit = 4096;    // models that cannot know are tested no further than this

  void list_fields(SettingsTable& table) override;
  std::vector<std::string> problems() override;
  virtual std::vector<Course> courses() const = 0;
  virtual ProbeText text() const = 0;

  // Every load at every length, all of them trained together.
  Course course(std::shared_ptr<const Task> task, const std::string& name = "") const;
  // Those asked for; PMNet also without recurrence.
  std::vector<CandidateSpec> all_candidates() const;
  // What the verdict is about: per load, every tested length past the reach of the windows that training has seen, or,
  // where there is none, the next one past it. All of them: a state that drifts may be right at one length by luck.
  std::vector<TaskCell> judged_cells(const Course& course) const;
};

class ProbeExperiment : public TaskExperiment {
 public:
  explicit ProbeExperiment(std::unique_ptr<ProbeSettings> settings) : settings_(std::move(settings)) {}
  Settings& settings() override { return *settings_; }
  const TaskSettings& task_settings() const override { return *settings_; }
  TaskPlan plan() const override { return {settings_->all_candidates(), settings_->courses()}; }
  Report report(const Results& results, const std::filesystem::path& folder) override;

 private:
  std::unique_ptr<ProbeSettings> settings_;
};

}  // namespace pmnet
