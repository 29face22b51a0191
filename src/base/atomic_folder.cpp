#include "base/atomic_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file_calls.h"

// Names: ".<target>.tmp-<16 hex>" while being written, ".<target>.old-<16 hex>" for an old folder moved aside on file
// systems that cannot swap two names.

namespace pmnet {
namespace {

namespace fs = std::filesystem;

fs::path resolved(const fs::path& target) {
  std::error_code error;
  fs::path path = fs::weakly_canonical(fs::absolute(target), error);  // through links, so that a link stays a link
  if (error) path = fs::absolute(target).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (path.filename().empty()) fail("{} cannot be written to: it names no file or folder.", target.string());
  return path;
}

std::string prefix_of(const fs::path& target, const char* kind) {
  return "." + target.filename().string() + "." + kind + "-";
}

fs::path fresh_name(const fs::path& target, const char* kind) {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  // A fork copies the generator; the process id keeps parent and child apart.
  const uint64_t number = random() ^ (static_cast<uint64_t>(::getpid()) << 32);
  return target.parent_path() / (prefix_of(target, kind) + fmt::format("{:016x}", number));
}

// A name that is locked belongs to a living writer. Waits for nobody; file systems without locks give an unlocked
// descriptor, and nothing is ever cleaned there.
FileDescriptor open_and_lock(const fs::path& path, bool& locked) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  locked = fd.get() >= 0 && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
  return fd;
}

bool still_named(const FileDescriptor& fd, const fs::path& path) {
  struct stat by_fd{};
  struct stat by_name{};
  return fd.get() >= 0 && ::fstat(fd.get(), &by_fd) == 0 && ::lstat(path.c_str(), &by_name) == 0 &&
         by_fd.st_ino == by_name.st_ino && by_fd.st_dev == by_name.st_dev;
}

void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

void prepare_parent(const fs::path& target) {
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (error) fail_writing(target.parent_path(), error.value());
}

// Whatever wrote the files, they are on the disk afterwards.
void sync_tree(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) {
      sync_tree(entry.path());
      continue;
    }
    const FileDescriptor fd(file_calls().open(entry.path().c_str(), O_RDONLY | O_CLOEXEC, 0));
    if (fd.get() < 0) fail_writing(entry.path(), errno);
    while (file_calls().fsync(fd.get()) != 0) {
      if (errno != EINTR) fail_writing(entry.path(), errno, entry.file_size());
    }
  }
  sync_folder(folder);
}

void refuse_to_lose_files(const fs::path& old_folder, const fs::path& new_folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(old_folder)) {
    if (!fs::exists(fs::symlink_status(new_folder / entry.path().filename()))) {
      fail("{} already exists and holds {}, which saving would delete; choose another folder or move that away.",
           old_folder.string(), entry.path().filename().string());
    }
  }
}

// After this, `temporary` is gone or names the old folder.
void swap_in(const fs::path& temporary, const fs::path& target) {
  if (file_calls().exchange(temporary.c_str(), target.c_str()) == 0) return;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) fail_writing(target, errno);
  const fs::path aside = fresh_name(target, "old");
  if (file_calls().rename(target.c_str(), aside.c_str()) != 0) fail_writing(target, errno);
  if (file_calls().rename(temporary.c_str(), target.c_str()) != 0) {
    const int error = errno;
    if (file_calls().rename(aside.c_str(), target.c_str()) != 0) {
      fail("cannot put {} in place: {}; the folder that was there is now {}.", target.string(), std::strerror(error),
           aside.string());
    }
    fail_writing(target, error);
  }
  sync_folder(target.parent_path());
  remove_quietly(aside);
}

}  // namespace

void clean_after_crash(const fs::path& unresolved_target) {
  const fs::path target = resolved(unresolved_target);
  std::vector<fs::path> leftovers;
  std::vector<fs::path> aside;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(target.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    for (const char* kind : {"tmp", "old"}) {
      const std::string prefix = prefix_of(target, kind);
      const bool ours = name.size() == prefix.size() + 16 && name.starts_with(prefix) &&
                        name.find_first_not_of("0123456789abcdef", prefix.size()) == std::string::npos;
      if (ours) (kind[0] == 't' ? leftovers : aside).push_back(entry.path());
    }
  }
  for (const fs::path& path : leftovers) {
    bool locked = false;
    const FileDescriptor lock = open_and_lock(path, locked);
    if (locked) remove_quietly(path);
  }
  for (const fs::path& path : aside) {
    if (fs::exists(fs::symlink_status(target))) {
      remove_quietly(path);
    } else if (file_calls().rename(path.c_str(), target.c_str()) != 0) {
      fail_writing(target, errno);
    }
  }
}

AtomicFolder::AtomicFolder(const fs::path& target) : target_(resolved(target)) {
  if (fs::exists(target_) && !fs::is_directory(target_)) {
    fail("{} is a file, and a folder is to be written there; choose another name.", target_.string());
  }
  prepare_parent(target_);
  clean_after_crash(target_);
  bool locked = false;
  do {  // once more if a cleaner took the folder between its creation and its lock
    temporary_ = fresh_name(target_, "tmp");
    if (file_calls().mkdir(temporary_.c_str(), 0777) != 0) fail_writing(temporary_, errno);
    lock_ = open_and_lock(temporary_, locked);
  } while (!still_named(lock_, temporary_));
}

AtomicFolder::~AtomicFolder() {
  if (!temporary_.empty()) remove_quietly(temporary_);
}

void AtomicFolder::commit(Replace replace) {
  sync_tree(temporary_);
  if (fs::exists(fs::symlink_status(target_))) {
    if (replace == Replace::kSameFiles) refuse_to_lose_files(target_, temporary_);
    swap_in(temporary_, target_);
  } else if (file_calls().rename(temporary_.c_str(), target_.c_str()) != 0) {
    fail_writing(target_, errno);
  }
  sync_folder(target_.parent_path());
  remove_quietly(temporary_);  // the old folder, after a swap
  temporary_.clear();
  lock_ = FileDescriptor();
}

AtomicFile::AtomicFile(const fs::path& target, uint64_t expected_bytes)
    : target_((prepare_parent(resolved(target)), clean_after_crash(target), resolved(target))),
      temporary_(fresh_name(target_, "tmp")),
      writer_(temporary_, expected_bytes) {
  bool locked = false;
  lock_ = open_and_lock(temporary_, locked);
  if (fs::is_directory(target_)) {
    remove_quietly(temporary_);
    fail("{} is a folder, and a file is to be written there; choose another name.", target_.string());
  }
}

AtomicFile::~AtomicFile() {
  if (!committed_) remove_quietly(temporary_);
}

void AtomicFile::commit() {
  writer_.finish();
  if (file_calls().rename(temporary_.c_str(), target_.c_str()) != 0) fail_writing(target_, errno);
  committed_ = true;
  sync_folder(target_.parent_path());
}

void write_file_atomically(const fs::path& target, std::string_view text) {
  AtomicFile file(target, text.size());
  file.writer().write(text);
  file.commit();
}

}  // namespace pmnet
