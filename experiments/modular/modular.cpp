#include "experiments/modular/modular.h"

#include <fmt/ranges.h>

namespace pmnet {

void ModularSettings::list_fields(SettingsTable& table) {
  ProbeSettings::list_fields(table);
  table.add("moduli", &moduli, "Moduli of the sums, a training each; 2 is parity",
            from_to(2, ModularTask::kMaxModulus));
  table.add("questions", &questions,
            "Questions of a row in training at most; others have half as many, a quarter, down to one", kPositive);
  table.add("uneven_from", &uneven_from,
            "Rows in training of so many digits prefer one of them, each row another, so that the errors of digits "
            "cannot cancel each other; 0: none do",
            kNotNegative);
}

std::vector<std::string> ModularSettings::problems() {
  std::vector<std::string> found = ProbeSettings::problems();
  require(found, !moduli.empty(), "moduli is empty; give at least one");
  require(found, loads == std::vector<int64_t>{1}, "loads must be [1]; questions has those of the training");
  require(found, least >= 1, "least is 0; a sum needs a digit");
  return found;
}

std::vector<Course> ModularSettings::courses() const {
  std::vector<Course> list;
  for (const int64_t modulus : moduli) {
    auto task = std::make_shared<ModularTask>();
    task->bos = shape.bos_token_id;
    task->modulus = modulus;
    Course& added = list.emplace_back(course(task, moduli.size() == 1 ? "" : fmt::format("mod {}", modulus)));
    const auto training = std::make_shared<ModularTask>(*task);
    training->uneven_from = uneven_from;
    added.training_task = training;
    // Rows with one number of questions only were learned at the expense of the others.
    for (TaskStage& stage : added.stages) {
      stage.loads.clear();
      for (int64_t count = questions; count >= 1; count /= 2) stage.loads.push_back(count);
    }
  }
  return list;
}

ProbeText ModularSettings::text() const {
  const bool parity = moduli == std::vector<int64_t>{2};
  return {
      parity ? "Parity" : "Modular sums",
      fmt::format("A row is BOS and random digits below m ({}); a question mark asks for the sum of all digits so far "
                  "modulo m, and the answer follows. A row of the test has one question, after all of its digits; "
                  "rows in training have up to {}, spread over them{}.",
                  fmt::join(moduli, ", "), questions,
                  uneven_from > 0 ? fmt::format("; from {} digits on each prefers one digit, with a share between none "
                                                "and all",
                                                uneven_from)
                                  : ""),
      "digits",
      "questions",
      {{"Mamba-3", "parity, modular arithmetic", "solved, by data-dependent rotations", "Mamba-3 (2026)"},
       {"Mamba-2", "the same", "fails", "the same"}}};
}

}  // namespace pmnet
