#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace pmnet {

// Closes its descriptor when it is destroyed.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const { return fd_; }
  int release();

 private:
  int fd_;
};

// Reads with pread and never maps: a file cut short meanwhile is an error, not a signal.
class FileReader {
 public:
  explicit FileReader(std::filesystem::path file);  // regular files only

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }
  void read_at(uint64_t offset, void* into, size_t size) const;

 private:
  std::filesystem::path path_;
  FileDescriptor fd_;
  uint64_t size_ = 0;
};

std::string read_file(const std::filesystem::path& file, uint64_t max_bytes);

// A new file, written front to back. It is on the disk only once finish() has returned.
class FileWriter {
 public:
  // `expected_bytes` (0: unknown) lets a full disk be reported before the first byte is written.
  explicit FileWriter(std::filesystem::path file, uint64_t expected_bytes = 0);
  // A pipe, a terminal or another device that is open already; there is no disk to wait for.
  FileWriter(std::filesystem::path device, FileDescriptor open_device);

  void write(const void* data, size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void finish();  // fsync and close, both checked

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return fd_.get(); }
  uint64_t written() const { return written_; }

 private:
  std::filesystem::path path_;
  FileDescriptor fd_;
  uint64_t expected_bytes_ = 0;
  uint64_t written_ = 0;
  bool is_device_ = false;
};

// Throws UserError with the path, the error's text and, for a full disk, what was needed and what is free.
[[noreturn]] void fail_writing(const std::filesystem::path& file, int error, uint64_t needed_bytes = 0);

// Makes names created, renamed or removed in a folder survive a power cut.
void sync_folder(const std::filesystem::path& folder);

// A folder and those above it, each synced into its parent.
void create_folders(const std::filesystem::path& folder);

}  // namespace pmnet
