#include "experiments/anchors/anchors.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "eval/routing.h"
#include "eval/scorer.h"

namespace pmnet {

namespace {

using nlohmann::json;

constexpr uint64_t kBookSeed = 4;  // of the synthetic stories

}  // namespace

void AnchorsSettings::list_fields(SettingsTable& table) {
  ReadingSettings::list_fields(table);
  table.add("routing_bytes", &routing_bytes, "Bytes of each document whose routes are counted", from_to(2, 1e15));
}

std::vector<std::string> AnchorsSettings::problems() {
  constexpr int64_t kLeastBytes = 4 * PositionSums::kFirstWindow;
  std::vector<std::string> found = Settings::problems();
  require(found, books.bytes >= kLeastBytes,
          fmt::format("bytes is {}; a curve needs {} at least", books.bytes, kLeastBytes));
  require(found, books.documents >= 2, "documents is 1; bands over documents need two at least");
  return found;
}

CandidateSpec AnchorsSettings::pmnet() const {
  for (const CandidateSpec& candidate : given_candidates())
    if (has_memory(candidate.config)) return candidate;
  fail("anchors: none of the models is a PMNet with memory; give one with --model LABEL=DIR");
}

std::vector<CandidateSpec> AnchorsSettings::candidates() const {
  std::vector<CandidateSpec> list(5, pmnet());
  const char* titles[] = {"Normal", "No Leaf", "No Root", "No Embeddings", "No Recurrence"};
  for (size_t i = 0; i < list.size(); ++i) list[i].title = titles[i];
  list[kNoLeaf].tested.zero_embeddings = ZeroEmbeddings::kLeaf;
  list[kNoRoot].tested.zero_embeddings = ZeroEmbeddings::kRoot;
  list[kNoEmbeddings].tested.zero_embeddings = ZeroEmbeddings::kAll;
  list[kMemoryOff].tested.recurrence = false;
  return list;
}

std::string AnchorsExperiment::read_part(int64_t seed) { return fmt::format("read without embeddings, seed {}", seed); }

std::vector<Part> AnchorsExperiment::parts() {
  const std::vector<CandidateSpec> candidates = settings_.candidates();
  std::vector<Part> parts = {books_part(settings_.books, kBookSeed)};
  for (int64_t seed = 1; seed <= settings_.seeds(); ++seed) {
    Part& reading = parts.emplace_back();
    reading.name = read_part(seed);
    reading.cost = reading_cost(candidates[kNormal].config, settings_.books);
    reading.cost.bytes *= static_cast<double>(candidates.size());
    reading.cost.flop *= static_cast<double>(candidates.size());
    reading.run = [this, seed](PartContext& context) { return read(seed, context); };
  }
  Part& counting = parts.emplace_back();
  counting.name = kRoutingPart;
  counting.cost = reading_cost(candidates[kNormal].config, settings_.books, settings_.routing_bytes);
  counting.run = [this](PartContext& context) { return count_routes(context); };
  return parts;
}

json AnchorsExperiment::read(int64_t seed, PartContext& context) const {
  const OpenedModel opened = open_candidate(settings_.pmnet(), seed, context);
  std::vector<Candidate> models;
  for (const CandidateSpec& candidate : settings_.candidates())
    models.push_back({candidate.title, make_engine(opened.weights, candidate.tested), 0});
  EvalSettings reading;
  reading.rows = rows_for_threads(at::get_num_threads());
  return {{"model", opened.weights.hash()}, {"scores", score_books(models, settings_.books, reading, context)}};
}

json AnchorsExperiment::count_routes(PartContext& context) const {
  constexpr size_t kChunk = 1024;
  const OpenedModel opened = open_candidate(settings_.pmnet(), /*seed=*/1, context);
  DocumentLimits limits = settings_.books.limits();
  limits.max_bytes = std::min(limits.max_bytes, settings_.routing_bytes);
  ReadOptions read;
  read.text_field = settings_.books.text_field;
  DocumentQueue queue(book_files(settings_.books, context), read, limits);
  RoutingStatistics routing;
  double done = 0;
  while (std::optional<DocumentCursor> document = queue.next()) {
    Scorer scorer(opened.engine);
    routing.next_text();
    for (std::string bytes = document->read(kChunk); !bytes.empty(); bytes = document->read(kChunk)) {
      context.stop().throw_if_requested();
      scorer.score(bytes, {.after_pass = [&](const Trace& trace) { routing.add(trace); }});
      done += static_cast<double>(bytes.size());
      context.progress(done / static_cast<double>(limits.documents * limits.max_bytes), "counting routes");
    }
  }
  json levels = json::array();
  for (const LevelRouting& level : routing.levels())
    levels.push_back({{"tokens", level.tokens()}, {"entropy", level.entropy()}, {"change_rate", level.change_rate()}});
  return levels;
}

}  // namespace pmnet
