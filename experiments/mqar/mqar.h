// Multi-query associative recall, in two courses: Zoology's cells, and pairs whose questions are further back than the
// windows reach, where nothing but the memory can know which key owns which value.
#pragma once
#include "experiments/framework/probe.h"
#include "experiments/mqar/mqar_task.h"

namespace pmnet {

struct MqarSettings : ProbeSettings {
  MqarTask task;
  bool gaps = true;
  std::vector<int64_t> zoology_pairs;  // of Zoology's cells, whose rows have 16 bytes per pair; empty: no such course

  void list_fields(SettingsTable& table) override;
  std::vector<std::string> problems() override;
  std::vector<Course> courses() const override;
  ProbeText text() const override;
};

// The values and fillers, for settings that hold such a task.
void list_mqar_fields(SettingsTable& table, MqarTask& task);

}  // namespace pmnet
