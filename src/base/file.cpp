#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file_calls.h"
#include "base/format.h"

namespace pmnet {
namespace {

// Linux transfers at most this much in one call.
constexpr size_t kLargestTransfer = size_t{1} << 30;

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

bool free_bytes(const std::filesystem::path& folder, uint64_t& bytes) {
  struct statvfs status{};
  if (::statvfs(folder.c_str(), &status) != 0) return false;
  bytes = static_cast<uint64_t>(status.f_bavail) * status.f_frsize;
  return true;
}

}  // namespace

FileCalls& file_calls() {
  static FileCalls calls{
      [](const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); },
      [](int fd, const void* data, size_t size) { return ::write(fd, data, size); },
      [](int fd) { return ::fsync(fd); },
      [](int fd) { return ::close(fd); },
      [](const char* path, mode_t mode) { return ::mkdir(path, mode); },
      [](const char* from, const char* to) { return ::rename(from, to); },
      [](const char* one, const char* other) { return ::renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE); },
  };
  return calls;
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.release();
  }
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

int FileDescriptor::release() { return std::exchange(fd_, -1); }

void fail_writing(const std::filesystem::path& file, int error, uint64_t needed_bytes) {
  uint64_t free = 0;
  const bool disk_full = error == ENOSPC || error == EDQUOT;
  if (disk_full && free_bytes(folder_of(file), free)) {
    fail("{}: cannot write: {} (need {}, have {}); free some space or choose another folder", file.string(),
         std::strerror(error), format_bytes(needed_bytes), format_bytes(free));
  }
  fail("{}: cannot write: {}; nothing saved before was changed", file.string(), std::strerror(error));
}

FileReader::FileReader(std::filesystem::path file) : path_(std::move(file)) {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  fd_ = FileDescriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd_.get() < 0) fail("{}: cannot open: {}; check the path", path_.string(), std::strerror(errno));
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0)
    fail("{}: cannot read: {}; check the path", path_.string(), std::strerror(errno));
  if (!S_ISREG(status.st_mode)) {
    fail("{}: is {}; name a regular file", path_.string(),
         S_ISDIR(status.st_mode) ? "a folder" : "neither a file nor a folder");
  }
  size_ = static_cast<uint64_t>(status.st_size);
}

void FileReader::read_at(uint64_t offset, void* into, size_t size) const {
  char* position = static_cast<char*>(into);
  while (size > 0) {
    const ssize_t got = ::pread(fd_.get(), position, std::min(size, kLargestTransfer), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("{}: cannot read at byte {}: {}; check the disk", path_.string(), offset, std::strerror(errno));
    if (got == 0) {
      fail("{}: ends at byte {}, {} bytes short, cut off while being read; fetch or save it again", path_.string(),
           offset, size);
    }
    position += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
}

std::string read_file(const std::filesystem::path& file, uint64_t max_bytes) {
  const FileReader reader(file);
  if (reader.size() > max_bytes) {
    fail("{}: has {}, more than the {} allowed here; check that it is the right file", file.string(),
         format_bytes(reader.size()), format_bytes(max_bytes));
  }
  std::string text(reader.size(), '\0');
  reader.read_at(0, text.data(), text.size());
  return text;
}

FileWriter::FileWriter(std::filesystem::path file, uint64_t expected_bytes)
    : path_(std::move(file)), expected_bytes_(expected_bytes) {
  uint64_t free = 0;
  if (expected_bytes > 0 && free_bytes(folder_of(path_), free) && free < expected_bytes) {
    fail_writing(path_, ENOSPC, expected_bytes);
  }
  fd_ = FileDescriptor(file_calls().open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (fd_.get() < 0) fail_writing(path_, errno, expected_bytes);
}

FileWriter::FileWriter(std::filesystem::path device, FileDescriptor open_device)
    : path_(std::move(device)), fd_(std::move(open_device)), is_device_(true) {}

void FileWriter::write(const void* data, size_t size) {
  const char* position = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t put = file_calls().write(fd_.get(), position, std::min(size, kLargestTransfer));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      const int error = errno;
      fail_writing(path_, error, std::max<uint64_t>(size, expected_bytes_ - std::min(expected_bytes_, written_)));
    }
    position += put;
    written_ += static_cast<uint64_t>(put);
    size -= static_cast<size_t>(put);
  }
}

void FileWriter::finish() {
  while (!is_device_ && file_calls().fsync(fd_.get()) != 0) {
    if (errno != EINTR) fail_writing(path_, errno, std::max(expected_bytes_, written_));
  }
  // Linux frees the descriptor even when close() is interrupted: never retried.
  if (file_calls().close(fd_.release()) != 0 && errno != EINTR) fail_writing(path_, errno, written_);
}

void sync_folder(const std::filesystem::path& folder) {
  const FileDescriptor fd(file_calls().open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
  if (fd.get() < 0) fail_writing(folder, errno);
  while (file_calls().fsync(fd.get()) != 0) {
    if (errno == EINVAL) return;  // a file system that has no such notion
    if (errno != EINTR) fail_writing(folder, errno);
  }
}

void create_folders(const std::filesystem::path& folder) {
  std::error_code error;
  if (folder.empty() || std::filesystem::is_directory(folder, error)) return;
  const std::filesystem::path parent = folder_of(folder);
  create_folders(parent);
  if (folder.has_filename() && file_calls().mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    fail_writing(folder, errno);
  sync_folder(parent);
}

}  // namespace pmnet
