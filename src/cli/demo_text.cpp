#include "cli/demo_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/subprocess.h"
#include "data/byte_source.h"
#include "data/stories.h"

namespace pmnet {

namespace {

constexpr const char* kJargonFile = "/usr/share/doc/jargon-text/jargon.txt.gz";
constexpr uint64_t kStoryBytes = 2'000'000;

std::string read_documents(const std::string& path, uint64_t max_bytes) {
  std::string text;
  SkipLog skips;
  for (const InputFile& file : find_inputs({path})) {
    const auto documents = open_documents(file, {}, skips);
    while (text.size() < max_bytes && documents->next()) {
      if (!text.empty()) text += kStorySeparator;
      for (std::string_view piece; text.size() < max_bytes && !(piece = documents->piece()).empty();) text += piece;
    }
  }
  if (text.size() > max_bytes) text.resize(max_bytes);
  return text;
}

std::string stories(uint64_t bytes) {
  std::string text;
  for (uint64_t number = 0; text.size() < bytes; ++number) text += make_story({}, number) + kStorySeparator;
  return text;
}

}  // namespace

DemoText find_demo_text(const std::string& file, uint64_t max_bytes) {
  if (!file.empty()) return {read_documents(file, max_bytes), file};
  if (std::filesystem::exists(kJargonFile))
    return {read_documents(kJargonFile, max_bytes), fmt::format("the Jargon File, {}", kJargonFile)};
  return {stories(std::min(kStoryBytes, max_bytes)), "synthetic stories as by 'pmnet data stories'"};
}

std::optional<uint64_t> compressed_bytes(const std::vector<std::string>& command, std::string_view text) {
  const ChildResult child = run_child(command, {.err = ChildStream::kDiscard, .input = text});
  if (!child.succeeded() || child.output.empty()) return std::nullopt;
  return child.output.size();
}

}  // namespace pmnet
