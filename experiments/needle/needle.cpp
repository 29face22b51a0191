#include "experiments/needle/needle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/hash.h"
#include "data/byte_source.h"
#include "data/permutation.h"
#include "data/stories.h"

namespace pmnet {

namespace {

constexpr auto kWords =
    std::to_array<const char*>({"amber", "basil", "cedar", "delta", "ember", "fable", "glass", "hazel", "ivory",
                                "jolly", "knave", "lemon", "mango", "noble", "ocean", "pearl"});  // all of one length
constexpr size_t kMaxText = size_t{1} << 24;
constexpr size_t kStoryText = size_t{1} << 20;
constexpr int64_t kShortestQuestion = 10;  // "text is: " and the space before it

std::string read_text(const NeedleSettings& settings) {
  std::string text;
  for (uint64_t number = 0; settings.files.empty() && text.size() < kStoryText; ++number)
    text += make_story({}, number) + kStorySeparator;
  if (settings.files.empty()) return text;
  ReadOptions options;
  options.text_field = settings.text_field;
  SkipLog skips;
  for (const InputFile& file : find_inputs(settings.files)) {
    const auto reader = open_documents(file, options, skips);
    while (text.size() < kMaxText && reader->next())
      for (std::string_view piece = reader->piece(); !piece.empty() && text.size() < kMaxText; piece = reader->piece())
        text += piece;
  }
  const auto longest = static_cast<size_t>(std::max(settings.most, settings.lengths.back()));
  if (text.size() < longest)
    fail("--text: the texts have {} bytes, and rows of {} are asked for; name more texts, or set shorter lengths",
         text.size(), longest);
  return text;
}

}  // namespace

std::string NeedleTask::needle(const std::string& word, const std::string& number) {
  return fmt::format(" One of the special magic numbers for {} is: {}. ", word, number);
}

std::string NeedleTask::question(const std::string& word) {
  return fmt::format(
      "\nWhat is the special magic number for {0} mentioned in the provided text? The special magic number for {0} "
      "mentioned in the provided text is: ",
      word);
}

int64_t NeedleTask::most_needles() { return std::ssize(kWords); }

int64_t NeedleTask::cut(const std::string& sentence, const TaskCell& cell, int64_t least) {
  const auto size = std::ssize(sentence);
  return size - std::clamp(cell.length, least, size);
}

int64_t NeedleTask::needle_cut(const TaskCell& cell) {
  const std::string begin = needle(kWords[0], "");
  return cut(begin, cell, std::ssize(begin) - static_cast<int64_t>(begin.rfind(kWords[0])));
}

int64_t NeedleTask::question_cut(const TaskCell& cell) {
  const std::string whole = question(kWords[0]);
  const int64_t from_word = std::ssize(whole) - static_cast<int64_t>(whole.rfind(kWords[0]));
  return cut(whole, cell, cell.load == 1 ? kShortestQuestion : from_word);
}

int64_t NeedleTask::row_size(const TaskCell& cell) const {
  const int64_t needle_size = std::ssize(needle(kWords[0], "")) - needle_cut(cell) + digits;
  return 1 + cell.length + cell.load * needle_size + std::ssize(question(kWords[0])) - question_cut(cell) + digits;
}

TaskRow NeedleTask::make_row(const TaskCell& cell, uint64_t key) const {
  const Permutation words(kWords.size(), splitmix64(key, 0));
  const auto word = [&](int64_t i) { return kWords[words(static_cast<uint64_t>(i))]; };
  const auto number = [&](int64_t i) {
    std::string text;
    for (int64_t d = 0; d < digits; ++d)
      text += static_cast<char>('0' + draw(key, 16 + static_cast<uint64_t>(i * digits + d), 10));
    return text;
  };
  std::vector<std::pair<int64_t, int64_t>> places;  // in the text, and the needle that stands there
  for (int64_t i = 0; i < cell.load; ++i)
    places.emplace_back(draw(splitmix64(key, 1), static_cast<uint64_t>(i), cell.length + 1), i);
  std::sort(places.begin(), places.end());
  const int64_t start = draw(key, 2, std::ssize(*text) - cell.length + 1);
  std::string written;
  int64_t at = 0;
  const auto write_to = [&](int64_t place) {
    written += text->substr(static_cast<size_t>(start + at), static_cast<size_t>(place - at));
    at = place;
  };
  for (const auto& [place, i] : places) {
    write_to(place);
    written += needle(word(i), number(i)).substr(static_cast<size_t>(needle_cut(cell)));
  }
  write_to(cell.length);
  const int64_t asked = draw(key, 3, cell.load);
  written += question(word(asked)).substr(static_cast<size_t>(question_cut(cell)));
  TaskRow row;
  row.add(bos);
  for (const unsigned char byte : written) row.add(byte);
  for (const unsigned char byte : number(asked)) row.add(byte, /*is_answer=*/true);
  return row;
}

void NeedleSettings::list_fields(SettingsTable& table) {
  ProbeSettings::list_fields(table);
  table.add("text", &files, "Texts that the needles are hidden in; none: synthetic stories");
  table.add("text_field", &text_field, "Their field in JSONL, their column in Parquet");
  table.add("digits", &task.digits, "Digits of a number", from_to(1, 9));
}

std::vector<std::string> NeedleSettings::problems() {
  std::vector<std::string> found = ProbeSettings::problems();
  require(found, loads.empty() || loads.back() <= NeedleTask::most_needles(),
          fmt::format("loads go beyond the {} words there are", NeedleTask::most_needles()));
  return found;
}

std::vector<Course> NeedleSettings::courses() const {
  auto made = std::make_shared<NeedleTask>(task);
  made->bos = shape.bos_token_id;
  made->text = std::make_shared<std::string>(read_text(*this));
  return {course(made)};
}

ProbeText NeedleSettings::text() const {
  return {"Needle in a text",
          fmt::format(
              "A row is BOS, a piece of text ({}) with needles at random places ('{}'), and RULER's question for "
              "one of them, whose number is graded (digits: {}), the true ones before being fed. The text has {} to {} "
              "bytes in training; around a text that is shorter than a sentence, only as much of the sentence's end "
              "stands.",
              files.empty() ? "synthetic stories" : fmt::format("given by --text"),
              NeedleTask::needle("WORD", "NUMBER").substr(1), task.digits, least, most),
          "bytes of text",
          "needles",
          {{"Raven, 400M parameters", "S-NIAH-1 at 8k / 16k / 32k tokens", "99.8% / 99.4% / 91.4%",
            "goombalab/raven, table 2"},
           {"Gated DeltaNet, 400M", "the same", "92.0% / 41.8% / 22.1%", "the same"},
           {"Mamba-2, 400M", "the same", "12.8% / 5.4% / 2.8%", "the same"}}};
}

}  // namespace pmnet
