#include "engine/stop_strings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace pmnet {

namespace {

// Each byte costs up to their product; generous for any text, harmless for a request from the network.
constexpr size_t kMaxStrings = 64;
constexpr size_t kMaxBytes = 1024;

// The longest end of `text` that begins `string` without being all of it.
size_t overlap(std::string_view text, std::string_view string) {
  size_t length = std::min(text.size(), string.size() - 1);
  while (length > 0 && !string.starts_with(text.substr(text.size() - length))) --length;
  return length;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  if (const auto found = problems(strings_); !found.empty()) fail("{}", fmt::join(found, "; "));
}

std::vector<std::string> StopStrings::problems(const std::vector<std::string>& strings) {
  std::vector<std::string> found;
  if (strings.size() > kMaxStrings)
    found.push_back(fmt::format("there are {} stop strings; at most {} are allowed", strings.size(), kMaxStrings));
  for (const std::string& string : strings) {
    if (string.empty()) found.emplace_back("a stop string is empty; give at least one byte or leave it out");
    if (string.size() > kMaxBytes)
      found.push_back(fmt::format("a stop string has {} bytes; at most {} are allowed", string.size(), kMaxBytes));
  }
  return found;
}

std::string StopStrings::push(char byte) {
  if (found_) return {};
  held_ += byte;
  size_t keep = 0, stop = 0;
  for (const std::string& string : strings_) {
    if (held_.ends_with(string)) stop = std::max(stop, string.size());
    keep = std::max(keep, overlap(held_, string));
  }
  found_ = stop > 0;
  std::string text = held_.substr(0, held_.size() - (found_ ? stop : keep));
  held_.erase(0, found_ ? held_.size() : text.size());
  return text;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace pmnet
