// State tracking: parity, and sums modulo 3 and 5. Nothing but a state that turns with every digit can know the answer
// of a long row, and phases are a counter modulo a turn.
#pragma once
#include "experiments/framework/probe.h"
#include "experiments/modular/modular_task.h"

namespace pmnet {

struct ModularSettings : ProbeSettings {
  std::vector<int64_t> moduli = {2};  // a course each
  int64_t questions = 1;              // of rows in training, besides those with one
  int64_t uneven_from = 0;            // rows in training of so many digits prefer one of them; 0: none do

  void list_fields(SettingsTable& table) override;
  std::vector<std::string> problems() override;
  std::vector<Course> courses() const override;
  ProbeText text() const override;
};

}  // namespace pmnet
