// Texts of the experiments on text: given ones, or synthetic stories written into the experiment's folder; and
// documents scored with models, in parts that can be resumed.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/evaluate.h"
#include "experiments/framework/experiment.h"

namespace pmnet {

// Long documents to evaluate on. Without `text`: synthetic stories.
struct BookSettings {
  std::vector<std::string> text;  // files, folders, globs
  std::string text_field = "text";
  int64_t documents = 4;
  int64_t bytes = 0;  // of each

  void list_fields(SettingsTable& table, const std::string& key);
  DocumentLimits limits() const { return {.max_bytes = bytes, .min_bytes = bytes, .documents = documents}; }
};

// Synthetic stories of at least `bytes` each, one per file. Those of an interrupted attempt are replaced.
void write_books(const std::filesystem::path& folder, const BookSettings& books, uint64_t seed);

// The part that finds or writes the books; later parts read them through book_files().
Part books_part(const BookSettings& books, uint64_t seed);
std::vector<InputFile> book_files(const BookSettings& books, const PartContext& context);
inline constexpr const char* kBooksPart = "books";

// Scores the books; resumes after the last finished round of documents. The result is what load_scores() reads.
nlohmann::json score_books(const std::vector<Candidate>& models, const BookSettings& books,
                           const EvalSettings& settings, PartContext& context);

// A window of the position curves that the halves of a trained length are whole numbers of.
int64_t curve_window(int64_t trained);

// What reading the books costs a model that reads at most `limit` bytes of each (0: all).
PartCost reading_cost(const ModelConfig& config, const BookSettings& books, int64_t limit = 0);

}  // namespace pmnet
