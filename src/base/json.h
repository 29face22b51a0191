#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace pmnet {

// What nlohmann lets pass and an untrusted file must not: byte order marks, duplicate keys, raw NUL bytes
// (its lexer takes one for the end of the text) and nesting without limit.
inline constexpr int kMaxJsonDepth = 64;

// Throws UserError with `where`, line and column.
nlohmann::json parse_json(std::string_view text, const std::string& where, int max_depth = kMaxJsonDepth);
nlohmann::json read_json(const std::filesystem::path& file, uint64_t max_bytes = 64 << 20);

// "line 3, column 7" of a byte offset, both counted from 1.
std::string line_and_column(std::string_view text, size_t offset);

// The text as a JSON string with quotes, safe to print whatever bytes it holds.
std::string printable(std::string_view text);

}  // namespace pmnet
