#include "train/run_folder.h"

#include "base/error.h"
#include "train/run_checkpoint.h"

namespace pmnet {

namespace fs = std::filesystem;

RunFolder::RunFolder(const fs::path& folder, bool resume) : folder_(fs::absolute(folder)) {
  made_ = !fs::exists(folder_);
  create_folders(folder_);
  if (!fs::is_directory(folder_)) fail("{}: is a file; choose another folder with --out", folder.string());
  const bool is_run = fs::exists(settings());
  if (!is_run && !holds_nothing_but_a_lock(folder_))
    fail("{} holds files that are not a run's; choose an empty folder with --out", folder.string());
  lock_.emplace(folder_, "another trainer");
  if (is_run && !resume) {
    const auto steps = checkpoint_steps(checkpoints());
    fail("{} holds a run already, {}; resume it with --resume, or choose another folder with --out", folder.string(),
         steps.empty() ? "without a checkpoint" : fmt::format("saved at step {}", steps.front()));
  }
}

RunFolder::~RunFolder() {
  try {
    if (fs::exists(settings()) || !holds_nothing_but_a_lock(folder_)) return;
    fs::remove(folder_ / FolderLock::kName);
    if (made_) fs::remove(folder_);
  } catch (const fs::filesystem_error&) {  // what cannot be looked at stays as it is
  }
}

}  // namespace pmnet
