#pragma once
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <string>

#include "base/enum_names.h"

namespace pmnet {

// An option whose value is one of the names of an enum. `value` must outlive the parsing.
template <NamedEnum E>
CLI::Option* add_enum_option(CLI::App& command, const std::string& flag, E& value, const std::string& help) {
  const auto assign = [flag, &value](const std::string& name) { value = parse_enum<E>(name, flag); };
  return command
      .add_option_function<std::string>(flag, assign, fmt::format("{}: {}", help, fmt::join(enum_names<E>(), ", ")))
      ->type_name("NAME")
      ->default_str(enum_name(value));
}

}  // namespace pmnet
