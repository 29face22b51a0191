#include "base/atomic_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file_calls.h"

// Names: ".<target>.tmp-<16 hex>" while being written, ".<target>.old-<16 hex>" for an old folder moved aside on file
// systems that cannot swap two names. A name that is locked belongs to a living writer.

namespace pmnet {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHexDigits = 16;
constexpr int kMaxAttempts = 100;

// What std::filesystem reports by its own exception becomes a UserError.
template <typename Action>
auto with_user_errors(const fs::path& path, const Action& action) {
  try {
    return action();
  } catch (const fs::filesystem_error& error) {
    fail_writing(path, error.code().value());
  }
}

bool is_there(const fs::path& path) {
  return with_user_errors(path, [&] { return fs::exists(fs::symlink_status(path)); });
}

fs::path resolved(const fs::path& target) {
  return with_user_errors(target, [&] {
    if (target.empty()) fail("the name of an output is empty; name a file or a folder");
    std::error_code error;
    fs::path path = fs::weakly_canonical(fs::absolute(target), error);  // through links, so that a link stays a link
    if (error) path = fs::absolute(target).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    if (path.filename().empty()) fail("{}: names no file or folder; choose another name", target.string());
    return path;
  });
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

enum class LockState { kTaken, kHeldByOther, kUnsupported };

LockState try_lock(int fd) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return LockState::kTaken;
  return errno == EWOULDBLOCK ? LockState::kHeldByOther : LockState::kUnsupported;
}

FileDescriptor open_to_lock(const fs::path& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

bool still_named(int fd, const fs::path& path) {
  struct stat by_fd{};
  struct stat by_name{};
  return ::fstat(fd, &by_fd) == 0 && ::lstat(path.c_str(), &by_name) == 0 && by_fd.st_ino == by_name.st_ino &&
         by_fd.st_dev == by_name.st_dev;
}

// Whether a new temporary name is now ours; false if a cleaner took it between its creation and its lock.
bool claim(int fd, const fs::path& path) { return try_lock(fd) != LockState::kHeldByOther && still_named(fd, path); }

void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

// Syncs every file, no matter which program wrote it.
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
    if (!is_there(new_folder / entry.path().filename())) {
      fail("{}: already exists and holds {}, which saving would delete; choose another folder or move that file away",
           old_folder.string(), entry.path().filename().string());
    }
  }
}

// After this, `temporary` is gone or names the old folder.
void swap_in(const fs::path& temporary, const fs::path& target) {
  if (file_calls().exchange(temporary.c_str(), target.c_str()) == 0) return;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) fail_writing(target, errno);
  const FileDescriptor old = open_to_lock(target);  // keeps cleaners from putting the old folder back
  if (old.get() >= 0) try_lock(old.get());
  const fs::path aside = fresh_name(target, "old");
  if (file_calls().rename(target.c_str(), aside.c_str()) != 0) fail_writing(target, errno);
  if (file_calls().rename(temporary.c_str(), target.c_str()) != 0) {
    const int error = errno;
    if (file_calls().rename(aside.c_str(), target.c_str()) != 0) {
      fail("{}: cannot put the new folder in place: {}; the old one is now {}", target.string(), std::strerror(error),
           aside.string());
    }
    fail_writing(target, error);
  }
  sync_folder(target.parent_path());
  remove_quietly(aside);
}

// A temporary name of ours: its target and its kind, 't' or 'o'; 0 for any other name.
char kind_of(const fs::path& name, fs::path& target) {
  const std::string text = name.filename().string();
  for (const std::string kind : {".tmp-", ".old-"}) {
    const size_t tail = kind.size() + kHexDigits;
    if (text.size() <= tail + 1 || text[0] != '.' || text.compare(text.size() - tail, kind.size(), kind) != 0) continue;
    if (text.find_first_not_of("0123456789abcdef", text.size() - kHexDigits) != std::string::npos) continue;
    target = name.parent_path() / text.substr(1, text.size() - tail - 1);
    return kind[1];
  }
  return 0;
}

void clean(const fs::path& temporary, char kind, const fs::path& target) {
  const FileDescriptor lock = open_to_lock(temporary);
  const LockState state = lock.get() >= 0 ? try_lock(lock.get()) : LockState::kHeldByOther;
  if (kind == 't') {  // where locks are unsupported, a live writer cannot be distinguished from a dead one
    if (state == LockState::kTaken) remove_quietly(temporary);
  } else if (state != LockState::kHeldByOther) {
    if (is_there(target)) {
      remove_quietly(temporary);
    } else if (file_calls().rename(temporary.c_str(), target.c_str()) != 0) {
      fail_writing(target, errno);
    }
  }
}

void clean_entries(const fs::path& folder, const fs::path* only) {
  std::vector<fs::path> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) names.push_back(entry.path());
  for (const char wanted : {'t', 'o'}) {
    for (const fs::path& name : names) {
      fs::path target;
      if (kind_of(name, target) == wanted && (only == nullptr || target == *only)) clean(name, wanted, target);
    }
  }
}

// The number of our standard output or error if the path names the same file, -1 otherwise.
int standard_stream_of(const struct stat& status) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat ours{};
    if (::fstat(fd, &ours) == 0 && ours.st_dev == status.st_dev && ours.st_ino == status.st_ino) return fd;
  }
  return -1;
}

// Opens a target that cannot be replaced; an invalid descriptor for everything else.
FileDescriptor open_device(const fs::path& target) {
  struct stat status{};
  if (::stat(target.c_str(), &status) != 0 || S_ISDIR(status.st_mode)) return FileDescriptor();
  const int standard = standard_stream_of(status);
  if (standard < 0 && S_ISREG(status.st_mode)) return FileDescriptor();
  std::fflush(nullptr);  // what was printed before comes first
  // A duplicate shares the position in a redirected file.
  FileDescriptor fd(standard >= 0 ? ::fcntl(standard, F_DUPFD_CLOEXEC, 3)
                                  : ::open(target.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (fd.get() < 0) fail_writing(target, errno);
  return fd;
}

FileWriter create_locked(const fs::path& target, uint64_t expected_bytes) {
  create_folders(target.parent_path());
  clean_after_crash(target);
  if (with_user_errors(target, [&] { return fs::is_directory(target); })) {
    fail("{}: is a folder, and a file is to be written there; choose another name", target.string());
  }
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    FileWriter writer(fresh_name(target, "tmp"), expected_bytes);
    if (claim(writer.descriptor(), writer.path())) return writer;
  }
  fail("{}: cannot write: other processes remove its temporary files; stop them and try again", target.string());
}

}  // namespace

void clean_after_crash(const fs::path& unresolved_target) {
  const fs::path target = resolved(unresolved_target);
  clean_entries(target.parent_path(), &target);
}

void clean_folder_after_crash(const fs::path& folder) { clean_entries(folder, nullptr); }

AtomicFolder::AtomicFolder(const fs::path& target) : target_(resolved(target)) {
  if (is_there(target_) && !with_user_errors(target_, [&] { return fs::is_directory(target_); })) {
    fail("{}: is a file, and a folder is to be written there; choose another name", target_.string());
  }
  create_folders(target_.parent_path());
  clean_after_crash(target_);
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    temporary_ = fresh_name(target_, "tmp");
    if (file_calls().mkdir(temporary_.c_str(), 0777) != 0) fail_writing(temporary_, errno);
    lock_ = open_to_lock(temporary_);
    const int error = errno;
    if (lock_.get() >= 0 && claim(lock_.get(), temporary_)) return;
    if (lock_.get() >= 0 || error == ENOENT) continue;  // cleaned away by another process
    ::rmdir(temporary_.c_str());
    fail_writing(temporary_, error);
  }
  fail("{}: cannot write: other processes remove its temporary folders; stop them and try again", target_.string());
}

AtomicFolder::~AtomicFolder() {
  if (!temporary_.empty()) remove_quietly(temporary_);
}

void AtomicFolder::commit(Replace replace) {
  with_user_errors(target_, [&] {
    sync_tree(temporary_);
    if (is_there(target_)) {
      if (replace == Replace::kSameFiles) refuse_to_lose_files(target_, temporary_);
      swap_in(temporary_, target_);
    } else if (file_calls().rename(temporary_.c_str(), target_.c_str()) != 0) {
      fail_writing(target_, errno);
    }
    sync_folder(target_.parent_path());
  });
  remove_quietly(temporary_);  // the old folder, after a swap
  temporary_.clear();
  lock_ = FileDescriptor();
}

AtomicFile::AtomicFile(const fs::path& target, uint64_t expected_bytes)
    : AtomicFile(target, expected_bytes, open_device(target)) {}

AtomicFile::AtomicFile(const fs::path& target, uint64_t expected_bytes, FileDescriptor device)
    : is_device_(device.get() >= 0),
      target_(is_device_ ? target : resolved(target)),
      writer_(is_device_ ? FileWriter(target, std::move(device)) : create_locked(target_, expected_bytes)) {
  // The writer closes its descriptor before the rename; a lock lasts until the last duplicate is closed.
  if (!is_device_) lock_ = FileDescriptor(::fcntl(writer_.descriptor(), F_DUPFD_CLOEXEC, 3));
}

AtomicFile::~AtomicFile() {
  if (!committed_ && !is_device_) remove_quietly(writer_.path());
}

void AtomicFile::commit() {
  writer_.finish();
  committed_ = true;
  if (is_device_) return;
  if (file_calls().rename(writer_.path().c_str(), target_.c_str()) != 0) {
    const int error = errno;
    remove_quietly(writer_.path());
    fail_writing(target_, error);
  }
  sync_folder(target_.parent_path());
}

void write_file_atomically(const fs::path& target, std::string_view text) {
  AtomicFile file(target, text.size());
  file.writer().write(text);
  file.commit();
}

}  // namespace pmnet
