#include "experiments/framework/texts.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/format.h"
#include "config/costs.h"
#include "data/stories.h"
#include "eval/score_files.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

ReadOptions read_options(const BookSettings& books) {
  ReadOptions read;
  read.text_field = books.text_field;
  return read;
}

// Enough documents that are long enough, checked before hours are spent on anything else.
void require_books(const BookSettings& books, const std::vector<InputFile>& files) {
  DocumentQueue queue(files, read_options(books), books.limits());
  while (queue.next()) {
  }
  if (queue.opened() < books.documents)
    fail(
        "only {} document(s) of the texts have {} bytes or more and {} are asked for ({} are shorter); name longer "
        "texts, or set fewer documents or bytes",
        queue.opened(), format_count(static_cast<uint64_t>(books.bytes)), books.documents, queue.too_short());
}

}  // namespace

void BookSettings::list_fields(SettingsTable& table, const std::string& key) {
  table.add(key, &text, "Long documents to evaluate on; none: synthetic stories");
  table.add(key + "_field", &text_field, "Their field in JSONL, their column in Parquet");
  table.add("documents", &documents, "Documents to evaluate on", kPositive);
  table.add("bytes", &bytes, "Bytes of each document; shorter ones are left out", kPositive);
}

void write_books(const fs::path& folder, const BookSettings& books, uint64_t seed) {
  fs::create_directories(folder);
  StoryOptions options;
  options.seed = seed;
  options.typical_bytes = static_cast<uint64_t>(2 * books.bytes);  // stories are at least half as long
  for (int64_t number = 0; number < books.documents; ++number) {
    std::string story;
    // Short ones never lack opening and end, long ones may still fall short by a sentence.
    for (uint64_t attempt = 0; static_cast<int64_t>(story.size()) < books.bytes; ++attempt)
      story += make_story(options, static_cast<uint64_t>(number) + attempt * static_cast<uint64_t>(books.documents));
    write_file_atomically(folder / fmt::format("book-{:04}.txt", number + 1), story);
  }
}

Part books_part(const BookSettings& books, uint64_t seed) {
  if (!books.text.empty()) find_inputs(books.text);
  Part part;
  part.name = kBooksPart;
  part.run = [books, seed](PartContext& context) {
    if (books.text.empty()) write_books(context.folder() / "stories", books, seed);
    const std::vector<InputFile> files = book_files(books, context);
    require_books(books, files);
    json result = {{"files", json::array()}};
    for (const InputFile& file : files) result["files"].push_back({{"path", file.path}, {"bytes", file.stamp.size}});
    return result;
  };
  return part;
}

std::vector<InputFile> book_files(const BookSettings& books, const PartContext& context) {
  if (!books.text.empty()) return find_inputs(books.text);
  return find_inputs({(context.folder_of(kBooksPart) / "stories").string()});
}

json score_books(const std::vector<Candidate>& models, const BookSettings& books, const EvalSettings& settings,
                 PartContext& context) {
  Evaluation all;
  if (const auto partial = context.partial()) all = load_scores(*partial);
  DocumentQueue queue(book_files(books, context), read_options(books), books.limits());
  for (size_t d = 0; d < all.documents.size(); ++d) queue.next();
  const auto wanted = static_cast<double>(books.documents * books.bytes);
  while (std::ssize(all.documents) < books.documents) {
    const int64_t before = all.bytes();
    EvalHooks hooks;
    hooks.stop = [&] { return context.stop().requested(); };
    hooks.progress = [&](int64_t bytes, size_t) {
      context.progress(static_cast<double>(before + bytes) / wanted,
                       fmt::format("{} of {} documents read", all.documents.size(), books.documents));
    };
    queue.allow(std::min<int64_t>(settings.rows, books.documents - std::ssize(all.documents)));
    const Evaluation round = evaluate(models, queue, settings, hooks);
    if (round.stopped) throw StopRequested{};
    if (round.documents.empty()) fail("the texts have become shorter since the experiment began; restore them");
    add_documents(all, round);
    context.save_partial(save_scores(all));
  }
  return save_scores(all);
}

int64_t curve_window(int64_t trained) {
  int64_t window = PositionSums::kFirstWindow;
  while (window > 1 && trained % (2 * window) != 0) window /= 2;
  return window;
}

PartCost reading_cost(const ModelConfig& config, const BookSettings& books, int64_t limit) {
  const int64_t bytes = limit > 0 ? std::min(limit, books.bytes) : books.bytes;
  PartCost cost;
  cost.parameters = parameter_count(config);
  cost.bytes = static_cast<double>(books.documents * bytes);
  cost.flop = cost.bytes * 2 * total(multiply_adds_per_token(config, bytes));
  return cost;
}

}  // namespace pmnet
