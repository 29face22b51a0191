#include "base/json.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace pmnet {
namespace {

using nlohmann::json;

// Tells how far the lexer has come, which its callback does not.
struct TrackingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* position;
  const char** furthest;

  const char& operator*() const { return *position; }
  TrackingIterator& operator++() {
    *furthest = ++position;
    return *this;
  }
  TrackingIterator operator++(int) {
    TrackingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const TrackingIterator& other) const { return position == other.position; }
  bool operator!=(const TrackingIterator& other) const { return position != other.position; }
};

// nlohmann's sentence without its "[json.exception...] parse error at line..., column...: " and with quotes that print.
std::string reason_of(const json::exception& error) {
  std::string reason = error.what();
  if (const size_t bracket = reason.find("] "); bracket != std::string::npos) reason.erase(0, bracket + 2);
  if (reason.starts_with("parse error")) {
    if (const size_t colon = reason.find(": "); colon != std::string::npos) reason.erase(0, colon + 2);
  }
  return reason;
}

}  // namespace

std::string line_and_column(std::string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const size_t line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t newline = before.rfind('\n');
  const size_t column = newline == std::string_view::npos ? offset + 1 : offset - newline;
  return fmt::format("line {}, column {}", line, column);
}

std::string printable(std::string_view text) {
  constexpr size_t kLongest = 200;
  const bool cut = text.size() > kLongest;
  return json(std::string(text.substr(0, kLongest)) + (cut ? "..." : ""))
      .dump(-1, ' ', true, json::error_handler_t::replace);
}

json parse_json(std::string_view text, const std::string& where, int max_depth) {
  if (text.starts_with("\xEF\xBB\xBF")) {
    fail("{}: starts with a byte order mark, which JSON does not allow; save it as plain UTF-8", where);
  }
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    fail("{}: {}: a NUL byte, which JSON does not allow; the file is damaged or not JSON", where,
         line_and_column(text, nul));
  }
  const char* furthest = text.data();
  const auto here = [&] { return line_and_column(text, std::max<std::ptrdiff_t>(furthest - text.data() - 1, 0)); };
  std::vector<std::set<std::string>> keys;  // of the objects now open
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        if (depth >= max_depth) fail("{}: {}: nested deeper than {} levels", where, here(), max_depth);
        if (event == json::parse_event_t::object_start) keys.emplace_back();
        break;
      case json::parse_event_t::object_end:
        keys.pop_back();
        break;
      case json::parse_event_t::key:
        if (!keys.back().insert(parsed.get_ref<const std::string&>()).second) {
          fail("{}: {}: the key {} occurs twice in one object; keep one of them", where, here(),
               printable(parsed.get_ref<const std::string&>()));
        }
        break;
      default:
        break;
    }
    return true;
  };
  try {
    return json::parse(TrackingIterator{furthest, &furthest}, TrackingIterator{text.data() + text.size(), &furthest},
                       check);
  } catch (const json::parse_error& error) {
    fail("{}: {}: not valid JSON ({})", where, line_and_column(text, std::max<size_t>(error.byte, 1) - 1),
         reason_of(error));
  } catch (const json::exception& error) {
    fail("{}: {}: not valid JSON ({})", where, here(), reason_of(error));
  }
}

json read_json(const std::filesystem::path& file, uint64_t max_bytes) {
  return parse_json(read_file(file, max_bytes), file.string());
}

}  // namespace pmnet
