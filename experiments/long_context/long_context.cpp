#include "experiments/long_context/long_context.h"

#include <fmt/format.h>

namespace pmnet {

namespace {

constexpr uint64_t kBookSeed = 3;  // of the synthetic stories

}  // namespace

void LongContextSettings::list_fields(SettingsTable& table) {
  ReadingSettings::list_fields(table);
  table.add("trained", &trained, "Bytes of context that the models were trained on", from_to(2, kMaxPosition));
  table.add("attention_limit", &attention_limit, "Bytes of a document that a Transformer reads", kPositive);
  table.add("protocol", &protocol, "Carry every state through a document, or evaluate as the paper's scripts do");
  table.add("chunk", &chunk, "Bytes per pass", kPositive);
}

std::vector<std::string> LongContextSettings::problems() {
  std::vector<std::string> found = Settings::problems();
  require(found, books.bytes >= 4 * trained,
          fmt::format("bytes is {}, which is not far beyond the trained {}; it must be at least four times as long",
                      books.bytes, trained));
  return found;
}

std::vector<CandidateSpec> LongContextSettings::candidates() const {
  std::vector<CandidateSpec> list;
  for (const CandidateSpec& candidate : given_candidates()) {
    list.push_back(candidate);
    list.back().limit = candidate.attends() ? attention_limit : 0;
    if (has_memory(candidate.config)) list.push_back(without_recurrence(candidate));
  }
  return list;
}

std::string LongContextExperiment::part_name(const CandidateSpec& candidate, int64_t seed) {
  return fmt::format("read with {}, seed {}", candidate.title, seed);
}

std::vector<Part> LongContextExperiment::parts() {
  std::vector<Part> parts = {books_part(settings_.books, kBookSeed)};
  for (int64_t seed = 1; seed <= settings_.seeds(); ++seed)
    for (const CandidateSpec& candidate : settings_.candidates()) {
      Part part;
      part.name = part_name(candidate, seed);
      part.cost = reading_cost(candidate.config, settings_.books, candidate.limit);
      part.run = [this, candidate, seed](PartContext& context) {
        const OpenedModel opened = open_candidate(candidate, seed, context);
        EvalSettings reading;
        reading.window = curve_window(settings_.trained);
        reading.protocol = settings_.protocol;
        reading.chunk = settings_.chunk;  // one document at a time: time and memory are those of a single sequence
        const std::vector<Candidate> models = {
            {candidate.title, make_engine(opened.weights, candidate.tested), candidate.limit}};
        return nlohmann::json{{"model", opened.weights.hash()},
                              {"scores", score_books(models, settings_.books, reading, context)}};
      };
      parts.push_back(std::move(part));
    }
  return parts;
}

}  // namespace pmnet
