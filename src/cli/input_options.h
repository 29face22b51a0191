#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "config/data_options.h"

namespace pmnet {

// The texts of a command, and how to read them.
struct InputOptions {
  std::vector<std::string> inputs;
  ReadOptions read;
};

// `options` must outlive the parsing. Returns the option of the inputs, which is required.
CLI::Option* add_input_options(CLI::App& command, InputOptions& options);

// "\n" typed in a shell is two characters.
std::string unescape(const std::string& text, const std::string& flag);

}  // namespace pmnet
