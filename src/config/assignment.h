// Assignments of values to keys: TOML files and --set. The values are words, for config/field_table.h to interpret.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace pmnet {

struct Assignment {
  std::string key;                  // "section.name"
  std::vector<std::string> values;  // one word, or the elements of a list
  std::string where;                // "run.toml, line 3" or "--set"
};

// "key=value" of --set; the value is one word, or a TOML array for a list.
Assignment parse_assignment(const std::string& text);

// Every key of a TOML text or file, those of tables as "table.key".
std::vector<Assignment> parse_toml(const std::string& text, const std::string& where);
std::vector<Assignment> read_toml(const std::filesystem::path& file);

}  // namespace pmnet
