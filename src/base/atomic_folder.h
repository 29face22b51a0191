#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/file.h"

namespace pmnet {

// Replacing a folder must not delete files that others put there.
enum class Replace {
  kSameFiles,  // refuse when the old folder holds a name that the new one does not
  kAnything,   // remove the old folder and all it holds
};

// A folder that appears complete or not at all: files are written to path(), a hidden folder beside the target, which
// commit() syncs and renames. At every moment the target is the old folder or the new one. Without commit() nothing
// stays behind; after a crash the next AtomicFolder for the same target, or clean_after_crash(), tidies up. All
// functions of this file report failures as UserError.
class AtomicFolder {
 public:
  explicit AtomicFolder(const std::filesystem::path& target);
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;
  ~AtomicFolder();

  const std::filesystem::path& path() const { return temporary_; }
  const std::filesystem::path& target() const { return target_; }
  void commit(Replace replace = Replace::kSameFiles);

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  FileDescriptor lock_;  // held while path() is in use, so that no other process takes it for a leftover
};

// The same for one file. Call writer().write() any number of times, then commit(). A target that is a pipe, a device or
// this process's own standard output is written to directly: it cannot be replaced.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& target, uint64_t expected_bytes = 0);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  FileWriter& writer() { return writer_; }
  void commit();

 private:
  AtomicFile(const std::filesystem::path& target, uint64_t expected_bytes, FileDescriptor device);

  bool is_device_;
  std::filesystem::path target_;
  FileWriter writer_;
  FileDescriptor lock_;
  bool committed_ = false;
};

void write_file_atomically(const std::filesystem::path& target, std::string_view text);

// Removes temporary files and folders of writers that died, and puts back an old folder that was moved aside when the
// new one never came. Leaves those of living writers alone.
void clean_after_crash(const std::filesystem::path& target);
// The same for all targets in a folder.
void clean_folder_after_crash(const std::filesystem::path& folder);

}  // namespace pmnet
