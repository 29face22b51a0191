#include "cli/outputs.h"

#include "base/error.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;

// Not found is an answer; everything else that keeps the path from being looked at is an error of the user.
fs::file_status status_of(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none)
    fail("{}: {}; choose a name that can be written", path.string(), error.message());
  return status;
}

void refuse_inputs(const fs::path& output, const OutputRules& rules) {
  for (const fs::path& input : rules.inputs) {
    std::error_code ignored;
    if (fs::equivalent(output, input, ignored))
      fail("{}: is also an input of this command and would be replaced; choose another name", output.string());
  }
}

}  // namespace

void add_force_option(CLI::App& command, bool& force) {
  command.add_flag("--force", force, "Replace an output that exists");
}

void require_free_file(const fs::path& file, const OutputRules& rules) {
  if (file.empty()) return;
  const fs::file_status status = status_of(file);
  if (fs::is_directory(status)) fail("{}: is a folder; name a file", file.string());
  if (fs::exists(status)) {
    refuse_inputs(file, rules);
    if (fs::is_regular_file(status) && !rules.force)
      fail("{}: already exists; choose another name, or replace it with --force", file.string());
    return;
  }
  const fs::path parent = fs::absolute(file).parent_path();
  if (!fs::is_directory(status_of(parent)))
    fail("{}: the folder {} does not exist; create it first", file.string(), parent.string());
}

void require_free_folder(const fs::path& folder, const OutputRules& rules) {
  if (folder.empty()) fail("the name of the folder to write is empty; give it a name");
  const fs::file_status status = status_of(folder);
  if (fs::exists(status) && !fs::is_directory(status)) fail("{}: is a file; name a folder", folder.string());
  if (!fs::exists(status)) return;
  refuse_inputs(folder, rules);
  std::error_code error;
  const bool empty = fs::is_empty(folder, error);
  if (error) fail("{}: {}; choose another folder", folder.string(), error.message());
  if (!empty && !rules.force)
    fail("{}: already exists; choose another folder, or replace it with --force", folder.string());
}

}  // namespace pmnet
