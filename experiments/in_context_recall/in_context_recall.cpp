#include "experiments/in_context_recall/in_context_recall.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "data/permutation.h"

namespace pmnet {

TaskRow InContextRecallTask::make_row(const TaskCell& cell, uint64_t key) const {
  const uint64_t choices = splitmix64(key, 0);
  const Permutation names(static_cast<uint64_t>(keys), splitmix64(choices, 0));
  std::vector<bool> seen(static_cast<size_t>(cell.load), false);
  TaskRow row;
  row.add(bos);
  for (int64_t i = 0; i < cell.length / 2; ++i) {
    const int64_t pair = draw(choices, 1 + static_cast<uint64_t>(i), cell.load);
    row.add(static_cast<int64_t>(names(static_cast<uint64_t>(pair))));
    row.add(kFirstValue + draw(key, 1 + static_cast<uint64_t>(pair), values), seen[static_cast<size_t>(pair)]);
    seen[static_cast<size_t>(pair)] = true;
  }
  return row;
}

void InContextRecallSettings::list_fields(SettingsTable& table) {
  ProbeSettings::list_fields(table);
  table.add("keys", &task.keys, "Different keys, of which a row has as many as its load",
            from_to(1, InContextRecallTask::kFirstValue));
  table.add("values", &task.values, "Different values", from_to(2, InContextRecallTask::kMaxValues));
}

std::vector<std::string> InContextRecallSettings::problems() {
  std::vector<std::string> found = ProbeSettings::problems();
  require(found, loads.empty() || loads.back() <= task.keys,
          fmt::format("loads go beyond the {} keys there are", task.keys));
  require(found, least > 2 * (loads.empty() ? 0 : loads.back()),
          "least must be more than twice the largest of loads, or a row may have no answer");
  return found;
}

std::vector<Course> InContextRecallSettings::courses() const {
  auto made = std::make_shared<InContextRecallTask>(task);
  made->bos = shape.bos_token_id;
  Course one = course(made);
  one.beyond_windows = false;  // keys return at any distance
  return {one};
}

ProbeText InContextRecallSettings::text() const {
  return {"In-context recall",
          fmt::format("A row is BOS and pairs of a key and its value, keys drawn anew for each pair; a key keeps its "
                      "value throughout the row. Every value is graded whose key was seen before. A row's keys are "
                      "some of {}, other ones in each row; {} values; rows have {} to {} bytes in training.",
                      task.keys, task.values, least, most),
          "bytes of the row",
          "keys",
          {{"Transformer", "MAD: 8 keys, length 128 and harder, mean", "94.1%", "MAD (2024), mad-lab"},
           {"Multihead Hyena", "the same", "99.0%", "the same"},
           {"Mamba", "the same", "90.4%", "the same"},
           {"GLA", "the same", "80.8%", "the same"},
           {"DeltaNet", "the same", "100%", "DeltaNet (2024)"},
           {"MetaLA", "the same", "99.9%", "MetaLA (2024)"}}};
}

}  // namespace pmnet
