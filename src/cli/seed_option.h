#pragma once
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>

namespace pmnet {

// CLI11 makes the largest number of -1 and of any number that is too large.
inline CLI::Option* require_seed(CLI::Option* option) {
  return option->type_name("N")->check([](const std::string& text) -> std::string {
    uint64_t seed = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
    if (error == std::errc() && end == text.data() + text.size()) return {};
    return fmt::format("'{}' is no seed; expected a whole number from 0 to 2^64-1", text);
  });
}

}  // namespace pmnet
