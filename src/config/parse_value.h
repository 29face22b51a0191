// Words of a command line or a file -> values.
#pragma once
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace pmnet {

// Each gives whether the text is a value of that kind. Numbers may end in k, M or G.
bool parse_value(const std::string& text, bool& value);
bool parse_value(const std::string& text, int64_t& value);
bool parse_value(const std::string& text, double& value);
bool parse_value(const std::string& text, std::string& value);

// "a whole number"
const char* kind_of(const bool&);
const char* kind_of(const int64_t&);
const char* kind_of(const double&);
const char* kind_of(const std::string&);

template <typename T>
void assign_value(T& into, const std::vector<std::string>& values, const std::string& key, const std::string& where) {
  T value{};
  if (values.size() != 1 || !parse_value(values[0], value))
    fail("{}: {} is '{}', expected {}", where, key, fmt::join(values, ", "), kind_of(value));
  into = value;
}

template <typename T>
void assign_value(std::vector<T>& into, const std::vector<std::string>& values, const std::string& key,
                  const std::string& where) {
  std::vector<T> list(values.size());
  for (size_t i = 0; i < values.size(); ++i) assign_value(list[i], {values[i]}, key, where);
  into = std::move(list);
}

}  // namespace pmnet
