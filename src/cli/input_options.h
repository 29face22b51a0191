#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "data/byte_source.h"

namespace pmnet {

// The texts of a command, and how to read them.
struct InputOptions {
  std::vector<std::string> inputs;
  ReadOptions read;
  std::string split_on;  // as typed
};

void add_input_options(CLI::App& command, InputOptions& options);
// Takes what was typed into `read`; call it when the command line has been read.
void finish_input_options(InputOptions& options);

}  // namespace pmnet
