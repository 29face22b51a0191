#pragma once
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "config/parse_value.h"

namespace pmnet {

// A number of bytes or of other things, with k, M or G behind it for thousands: 16k is 16,000. Unlike CLI11's own
// conversion it refuses numbers that are too large instead of saturating.
inline CLI::Option* as_size(CLI::Option* option) {
  const auto expand = [](std::string& text) -> std::string {
    int64_t value = 0;
    if (!parse_value(text, value))
      return fmt::format("'{}' is not a size; expected a number such as 4096, 16k or 2M", text);
    text = std::to_string(value);
    return {};
  };
  return option->transform(CLI::Validator(expand, ""))->type_name("N");
}

}  // namespace pmnet
