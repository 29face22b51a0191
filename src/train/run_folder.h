// The folder of a run: run.toml (the settings), metrics.jsonl, events.out.tfevents.*, samples/, ckpt/, curves.*, lock.
#pragma once
#include <filesystem>
#include <optional>

#include "base/folder_lock.h"

namespace pmnet {

// Held by the one process that trains in the folder.
class RunFolder {
 public:
  // Makes the folder if need be. UserError: another process trains there, it cannot be written to, it holds something
  // that is not a run, or a run that is to be gone on with only when `resume` says so.
  RunFolder(const std::filesystem::path& folder, bool resume);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  // A start that was refused leaves neither a lock nor a folder that it made.
  ~RunFolder();

  const std::filesystem::path& path() const { return folder_; }
  std::filesystem::path checkpoints() const { return folder_ / "ckpt"; }
  std::filesystem::path settings() const { return folder_ / "run.toml"; }

 private:
  std::filesystem::path folder_;
  bool made_ = false;  // there was no such folder before
  std::optional<FolderLock> lock_;
};

}  // namespace pmnet
