#include "base/folder_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/error.h"

namespace pmnet {

namespace fs = std::filesystem;

FolderLock::FolderLock(const fs::path& folder, const std::string& worker) {
  const fs::path file = folder / kName;
  // O_NOFOLLOW: a link in a folder from elsewhere must not make us overwrite what it points to.
  file_ = FileDescriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644));
  if (file_.get() < 0 && errno == ELOOP) fail("{}: is a link, where a lock file is expected; remove it", file.string());
  if (file_.get() < 0)
    fail("{}: cannot write: {}; choose another folder with --out", file.string(), std::strerror(errno));
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    char holder[256] = {};
    const ssize_t size = ::pread(file_.get(), holder, sizeof holder - 1, 0);
    fail("{}: is in use by {}{}; wait for it, stop it, or choose another folder with --out", folder.string(), worker,
         size > 0 ? ": " + std::string(holder, size) : "");
  }
  struct stat held{}, named{};
  if (::fstat(file_.get(), &held) != 0 || ::lstat(file.c_str(), &named) != 0 || held.st_ino != named.st_ino)
    fail("{}: was just left by {}; try again", folder.string(), worker);
  const std::string text =
      fmt::format("process {} since {:%Y-%m-%d %H:%M:%S}", ::getpid(), fmt::localtime(std::time(nullptr)));
  if (::ftruncate(file_.get(), 0) != 0 || ::pwrite(file_.get(), text.data(), text.size(), 0) < 0)
    fail("{}: cannot write: {}; choose another folder with --out", file.string(), std::strerror(errno));
}

bool holds_nothing_but_a_lock(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().filename() != FolderLock::kName) return false;
  return true;
}

}  // namespace pmnet
