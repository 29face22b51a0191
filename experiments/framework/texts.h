// Texts of the experiments on text: given ones, or tales of our own written into the experiment's folder; and documents
// scored with models, part by part.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "eval/evaluate.h"
#include "experiments/framework/experiment.h"

namespace pmnet {

// Long documents to evaluate on. Without `text` tales of our own stand in.
struct BookSettings {
  std::vector<std::string> text;  // files, folders, globs
  std::string text_field = "text";
  int64_t documents = 4;
  int64_t bytes = 0;  // of each

  void visit(const Settings::Visitor& visitor, const std::string& key);
  std::vector<std::string> problems(const std::string& key) const;
  DocumentLimits limits() const { return {.max_bytes = bytes, .min_bytes = bytes, .documents = documents}; }
};

// Tales of at least `bytes` each, as files of their own. What is there from an interrupted attempt is written anew.
void write_books(const std::filesystem::path& folder, const BookSettings& books, uint64_t seed);

// The part that finds or writes the books; later parts read them through book_files().
Part books_part(const BookSettings& books, uint64_t seed);
std::vector<InputFile> book_files(const BookSettings& books, const PartContext& context);
inline constexpr const char* kBooksPart = "books";

// Scores the books; goes on after the last finished round of documents. The result is what load_scores() reads.
nlohmann::json score_books(const std::vector<Candidate>& models, const BookSettings& books,
                           const EvalSettings& settings, PartContext& context);

// A window of the position curves that the halves of a trained length are whole numbers of.
int64_t curve_window(int64_t trained);

// What reading the books costs a model that reads at most `limit` bytes of each (0: all).
PartCost reading_cost(const ModelConfig& config, const BookSettings& books, int64_t limit = 0);

}  // namespace pmnet
