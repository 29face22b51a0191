#pragma once
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>

namespace pmnet {

// CLI11 turns -1 into the largest number, and numbers that are too large as well.
inline CLI::Option* require_seed(CLI::Option* option) {
  return option->type_name("N")->check([](const std::string& text) -> std::string {
    uint64_t seed = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
    if (error == std::errc() && end == text.data() + text.size()) return {};
    return fmt::format("invalid seed '{}'; expected an integer from 0 to 2^64-1", text);
  });
}

}  // namespace pmnet
