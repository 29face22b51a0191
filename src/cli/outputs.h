// One policy for everything that commands write under a name given by the user: nothing that exists is replaced without
// --force, an input of the command is never replaced, and folders above a file must exist.
#pragma once
#include <filesystem>
#include <vector>

#include "cli/commands.h"

namespace pmnet {

void add_force_option(CLI::App& command, bool& force);

struct OutputRules {
  bool force = false;
  std::vector<std::filesystem::path> inputs = {};  // what the command reads; may be absent
};

// Both throw UserError. Call them before any work is done. Devices and pipes may be named as files: they are written
// to, not replaced. An empty name means that no file was asked for.
void require_free_file(const std::filesystem::path& file, const OutputRules& rules);
void require_free_folder(const std::filesystem::path& folder, const OutputRules& rules);

}  // namespace pmnet
