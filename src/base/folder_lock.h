#pragma once
#include <filesystem>
#include <string>

#include "base/file.h"

namespace pmnet {

// Held by the one process that works in a folder, through its file `lock`. The lock goes with the process, however it
// ends; who holds it and since when is written inside.
class FolderLock {
 public:
  static constexpr const char* kName = "lock";

  // UserError: the folder cannot be written to, or another process holds the lock; `worker` says what such a process
  // is, "another trainer".
  FolderLock(const std::filesystem::path& folder, const std::string& worker);

 private:
  FileDescriptor file_;
};

// There is nothing in the folder but a lock.
bool holds_nothing_but_a_lock(const std::filesystem::path& folder);

}  // namespace pmnet
