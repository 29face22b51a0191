#include "experiments/mqar/mqar.h"

#include <fmt/ranges.h>

namespace pmnet {

namespace {

constexpr int64_t kZoologyBytesPerPair = 16;  // (64,4), (128,8), (256,16)

}  // namespace

void list_mqar_fields(SettingsTable& table, MqarTask& task) {
  table.add("values", &task.values, "Different values", from_to(2, MqarTask::kMaxValues));
  table.add("fillers", &task.fillers, "Different filler bytes", from_to(1, MqarTask::kMaxFillers));
}

void MqarSettings::list_fields(SettingsTable& table) {
  ProbeSettings::list_fields(table);
  table.add("keys", &task.keys, "Different keys", from_to(1, MqarTask::kMaxKeys));
  table.add("questions", &task.questions, "Keys that are asked in each row; 0: all of them", kNotNegative);
  table.add("gaps", &gaps, "Pairs whose questions follow after filler; false: only Zoology's cells");
  table.add("zoology_pairs", &zoology_pairs, "Pairs of Zoology's cells, of 16 bytes each; empty: only the gaps",
            kPositive);
  list_mqar_fields(table, task);
}

std::vector<std::string> MqarSettings::problems() {
  std::vector<std::string> found = ProbeSettings::problems();
  require_ascending(found, "zoology_pairs", zoology_pairs);
  require(found, gaps || !zoology_pairs.empty(), "gaps is false and zoology_pairs is empty; there is nothing to do");
  for (const std::vector<int64_t>* pairs : {&loads, &zoology_pairs})
    require(found, pairs->empty() || pairs->back() <= task.keys,
            fmt::format("there are {} pairs in a row; there are only {} keys", fmt::join(*pairs, ", "), task.keys));
  return found;
}

std::vector<Course> MqarSettings::courses() const {
  const auto of_form = [&](bool zoology) {
    auto made = std::make_shared<MqarTask>(task);
    made->bos = shape.bos_token_id;
    made->zoology = zoology;
    if (zoology) made->fillers = 1;
    return made;
  };
  std::vector<Course> list;
  if (gaps) list.push_back(course(of_form(false), zoology_pairs.empty() ? "" : "gap"));
  if (zoology_pairs.empty()) return list;
  Course zoology{"zoology", of_form(true), {}, {}, /*beyond_windows=*/false};
  for (const int64_t pairs : zoology_pairs) {
    zoology.cells.push_back({pairs, kZoologyBytesPerPair * pairs});
    // Attention learns rows with few pairs first, where two keys that share an address of PMNet's memory cost too
    // little to be told apart: the first stage has the two smallest cells, and each next one more.
    if (zoology.cells.size() == 1 && zoology_pairs.size() > 1) continue;
    TaskStage& stage = zoology.stages.emplace_back();
    stage.cells = zoology.cells;
    stage.loads.assign(zoology_pairs.begin(), zoology_pairs.begin() + std::ssize(stage.cells));
    stage.most = zoology.cells.back().length;
  }
  list.push_back(zoology);
  return list;
}

ProbeText MqarSettings::text() const {
  return {
      "Multi-query associative recall",
      fmt::format("A row is BOS, pairs of a key and a value, and the keys again in another order, each followed by its "
                  "value, which is graded. Keys of a row are distinct and never assigned twice. {} keys, {} values. "
                  "Gap: filler of {} different bytes separates pairs and questions, {} to {} bytes in training. "
                  "Zoology's form: questions at distances of a power law (a = 0.01), zeros in between, 16 bytes per "
                  "pair, cells mixed in training. In Zoology the vocabulary is 8,192 and the answers are not fed; here "
                  "they are bytes and are.",
                  task.keys, task.values, task.fillers, least, most),
      "filler bytes, or bytes of the row",
      "pairs",
      {{"attention, 2 layers, d = 64", "all cells", "> 99%", "Zoology (ICLR 2024) figure 2; MetaLA table A7"},
       {"attention, d = 64", "(64, 4), 20 epochs of 100,000 rows", "99.2%", "UOR-Foundation/uor-r4, issue 1050"},
       {"attention, d = 64", "(64, 4), 8,192 rows", "24.4%: the set of values, not the binding",
        "UOR-Foundation/uor-r4, pull request 1051"},
       {"Mamba, d = 64 / 128", "(512, 64)", "about 20% / 60%", "DeltaNet figure 2, as read off by others"},
       {"Mamba, d = 64 / 128", "length 512, 80 pairs", "0.0% / 0.0%", "MetaLA table A7"},
       {"MetaLA, d = 64 / 128", "length 512, 80 pairs", "28.5% / 90.4%", "MetaLA table A7"}}};
}

}  // namespace pmnet
