#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pmnet {

// What nlohmann lets pass and a file from somebody else must not: byte order marks, duplicate keys, raw NUL bytes
// (its lexer takes one for the end of the text) and nesting without limit.
inline constexpr int kMaxJsonDepth = 64;

// Throws UserError with `where`, line and column.
nlohmann::json parse_json(std::string_view text, const std::string& where, int max_depth = kMaxJsonDepth);
nlohmann::json read_json(const std::filesystem::path& file, uint64_t max_bytes = 64 << 20);

// "line 3, column 7" of a byte offset, both counted from 1.
std::string line_and_column(std::string_view text, size_t offset);

// The text as a JSON string with quotes, safe to print whatever bytes it holds.
std::string printable(std::string_view text);

// Takes fields out of one JSON object, collecting every problem instead of stopping at the first.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::vector<std::string>& problems) : object_(object), problems_(problems) {}

  // A missing key is a problem; a wrong type leaves `into` as it was.
  void read(const std::string& key, int64_t& into);
  void read(const std::string& key, double& into);
  void read(const std::string& key, bool& into);
  void read(const std::string& key, std::string& into);

  // Absent keys leave `into` as it was; null does too.
  template <typename T>
  void read_optional(const std::string& key, T& into) {
    known_.insert(key);
    if (has(key)) read(key, into);
  }

  bool has(const std::string& key) const;  // present and not null
  const nlohmann::json* find(const std::string& key);
  void know(const std::vector<std::string>& keys) { known_.insert(keys.begin(), keys.end()); }
  void problem(std::string sentence) { problems_.push_back(std::move(sentence)); }

  const std::set<std::string>& known() const { return known_; }
  std::vector<std::string> unknown() const;  // keys of the object nobody asked for

 private:
  const nlohmann::json* require(const std::string& key);
  void wrong_type(const std::string& key, const nlohmann::json& value, const char* expected);

  const nlohmann::json& object_;
  std::vector<std::string>& problems_;
  std::set<std::string> known_;
};

}  // namespace pmnet
