#include "experiments/selective_copy/selective_copy.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "data/permutation.h"

namespace pmnet {

TaskRow SelectiveCopyTask::make_row(const TaskCell& cell, uint64_t key) const {
  const int64_t places = cell.length - cell.load - 1, blank = symbols - 2, mark = symbols - 1;
  const Permutation shuffled(static_cast<uint64_t>(places), splitmix64(key, 0));
  std::vector<int64_t> copied, chosen;
  for (int64_t i = 0; i < cell.load; ++i) {
    copied.push_back(draw(key, 1 + static_cast<uint64_t>(i), symbols - 2));
    chosen.push_back(static_cast<int64_t>(shuffled(static_cast<uint64_t>(i))));
  }
  std::sort(chosen.begin(), chosen.end());
  std::vector<int64_t> text(static_cast<size_t>(places), blank);
  for (size_t i = 0; i < chosen.size(); ++i) text[static_cast<size_t>(chosen[i])] = copied[i];
  TaskRow row;
  row.add(bos);
  row.add(text);
  row.add(mark);
  row.add(copied, /*are_answers=*/true);
  return row;
}

void SelectiveCopySettings::list_fields(SettingsTable& table) {
  ProbeSettings::list_fields(table);
  table.add("symbols", &task.symbols, "Different symbols, blank and mark included", from_to(4, 254));
}

std::vector<std::string> SelectiveCopySettings::problems() {
  std::vector<std::string> found = ProbeSettings::problems();
  const auto fits = [&](int64_t length) { return loads.empty() || length >= 2 * loads.back() + 1; };
  require(found, fits(least) && std::all_of(lengths.begin(), lengths.end(), fits),
          "a row needs twice as many bytes as it has symbols to copy, and one more");
  return found;
}

std::vector<Course> SelectiveCopySettings::courses() const {
  auto made = std::make_shared<SelectiveCopyTask>(task);
  made->bos = shape.bos_token_id;
  return {course(made)};
}

ProbeText SelectiveCopySettings::text() const {
  return {
      "Selective copying",
      fmt::format("A row is BOS, symbols ({} different ones) at random places among blanks, a mark, and the symbols "
                  "in their order, which are graded. Rows have {} to {} bytes in training. In MAD what is copied is "
                  "not fed back; here it is.",
                  task.symbols - 2, least, most),
      "bytes of the row",
      "symbols",
      {{"Transformer", "MAD: length 256, 16 symbols, mean over difficulties", "99.6%", "MAD (2024), mad-lab"},
       {"Multihead Hyena", "the same", "93.0%", "the same"},
       {"Mamba", "the same", "86.3%", "the same"},
       {"GLA", "the same", "88.6%", "the same"},
       {"DeltaNet", "the same", "100%", "DeltaNet (2024)"},
       {"Mamba", "length 4,096, 16 symbols", "99.8%", "Mamba (2023), appendix E.1"},
       {"S4 / H3 / Hyena", "the same", "18.3% / 57.0% / 30.1%", "the same"}}};
}

}  // namespace pmnet
