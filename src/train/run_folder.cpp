#include "train/run_folder.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/error.h"
#include "train/run_checkpoint.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLockName = "lock";

bool holds_nothing_but_a_lock(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().filename() != kLockName) return false;
  return true;
}

}  // namespace

RunFolder::RunFolder(const fs::path& folder, bool resume) : folder_(fs::absolute(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error || !fs::is_directory(folder_))
    fail("cannot make the folder {}: {}; choose another with --out", folder.string(),
         error ? error.message() : "there is a file of that name");
  const bool is_run = fs::exists(settings());
  if (!is_run && !holds_nothing_but_a_lock(folder_))
    fail("{} holds files that are not a run's; choose an empty folder with --out", folder.string());
  take_lock();
  if (is_run && !resume) {
    const auto steps = checkpoint_steps(checkpoints());
    fail("{} holds a run already, {}; go on with it by --resume, or choose another folder with --out", folder.string(),
         steps.empty() ? "without a checkpoint" : fmt::format("saved at step {}", steps.front()));
  }
}

void RunFolder::take_lock() {
  const fs::path file = folder_ / kLockName;
  lock_ = FileDescriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (lock_.get() < 0)
    fail("cannot write to {}: {}; choose another folder with --out", folder_.string(), std::strerror(errno));
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    char holder[256] = {};
    const ssize_t size = ::pread(lock_.get(), holder, sizeof holder - 1, 0);
    fail("{} is in use by another trainer{}; wait for it, stop it, or choose another folder with --out",
         folder_.string(), size > 0 ? ": " + std::string(holder, size) : "");
  }
  const std::string text =
      fmt::format("process {} since {:%Y-%m-%d %H:%M:%S}", ::getpid(), fmt::localtime(std::time(nullptr)));
  if (::ftruncate(lock_.get(), 0) != 0 || ::pwrite(lock_.get(), text.data(), text.size(), 0) < 0)
    fail("cannot write {}: {}; choose another folder with --out", file.string(), std::strerror(errno));
}

}  // namespace pmnet
