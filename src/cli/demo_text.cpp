#include "cli/demo_text.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdio>

#include "base/error.h"
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

std::string tales(uint64_t bytes) {
  std::string text;
  for (uint64_t number = 0; text.size() < bytes; ++number) text += make_story({}, number) + kStorySeparator;
  return text;
}

std::string shell_quote(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') quoted += "'\\'";  // ends the quotes, adds one, begins them anew
    quoted += c;
  }
  quoted += '\'';
  return quoted;
}

}  // namespace

DemoText find_demo_text(const std::string& file, uint64_t max_bytes) {
  if (!file.empty()) return {read_documents(file, max_bytes), file};
  if (std::filesystem::exists(kJargonFile))
    return {read_documents(kJargonFile, max_bytes), fmt::format("the Jargon File, {}", kJargonFile)};
  return {tales(std::min(kStoryBytes, max_bytes)), "tales made by 'pmnet data stories'"};
}

std::optional<uint64_t> compressed_bytes(const std::string& command, const std::vector<std::filesystem::path>& files) {
  std::string line = "cat";
  for (const auto& file : files) line.append(" ").append(shell_quote(file.string()));
  std::FILE* pipe = ::popen(fmt::format("{} | {} 2>/dev/null", line, command).c_str(), "re");
  if (pipe == nullptr) return std::nullopt;
  uint64_t bytes = 0;
  char buffer[1 << 16];
  for (size_t got; (got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) bytes += got;
  if (::pclose(pipe) != 0 || bytes == 0) return std::nullopt;
  return bytes;
}

}  // namespace pmnet
