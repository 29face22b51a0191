#include "data/shard_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "data/shard.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;

// Compressed inputs grow by an unknown factor; this only catches the hopeless cases before an hour of work.
void check_free_space(const std::vector<InputFile>& files, const std::string& path) {
  uint64_t least = 0;
  for (const InputFile& file : files) least += file.stamp.size;
  std::error_code error;
  const fs::space_info space = fs::space(fs::absolute(path).parent_path(), error);
  if (!error && space.available < least)
    fail("{}: packing needs at least {} and the disk has {} left; free some space or choose another folder", path,
         format_bytes(least), format_bytes(space.available));
}

uint64_t cache_key(const std::vector<InputFile>& files, const ReadOptions& options) {
  Xxh3 hash;
  for (const std::string* text :
       {&options.text_field, &options.prompt_field, &options.completion_field, &options.split_on})
    hash.update_text(*text);
  const uint64_t numbers[] = {options.max_record_bytes, static_cast<uint64_t>(options.parquet_memory_bytes),
                              options.skip_bad_records};
  hash.update(numbers, sizeof(numbers));
  for (const InputFile& file : files) {
    std::error_code error;
    hash.update_text(fs::weakly_canonical(file.path, error).string());
    hash.update(&file.stamp.size, sizeof(file.stamp.size));
    hash.update(&file.stamp.modified_ns, sizeof(file.stamp.modified_ns));
  }
  return hash.digest64();
}

// Holds the lock until destroyed; the kernel releases it when the process ends in any way. While another process holds
// it, `progress` is called, which may throw to stop waiting.
FileDescriptor lock_file(const std::string& path, const PackCallback& progress) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (file.get() < 0) fail("{}: cannot write: {}; choose a cache folder you may write to", path, std::strerror(errno));
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EINTR && errno != EWOULDBLOCK)
      fail("{}: cannot lock: {}; choose another cache folder", path, std::strerror(errno));
    if (progress) progress({});
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return file;
}

// Everybody may make folders where temporary files go: the one with our name must be ours.
std::string own_temporary_folder() {
  const fs::path folder = fs::temp_directory_path() / fmt::format("pmnet-cache-{}", ::geteuid());
  struct stat status{};
  ::mkdir(folder.c_str(), 0700);
  if (::lstat(folder.c_str(), &status) != 0)
    fail("{}: cannot be created: {}; name a cache folder with PMNET_CACHE", folder.string(), std::strerror(errno));
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    fail("{}: others can write there; remove it, or name a cache folder with PMNET_CACHE", folder.string());
  return folder.string();
}

}  // namespace

PackResult pack_files(const std::vector<InputFile>& files, const ReadOptions& options, const std::string& path,
                      const PackCallback& progress) {
  check_free_space(files, path);
  PackResult result;
  result.shard = path;
  PackProgress so_far;
  for (const InputFile& file : files) so_far.total_input_bytes += file.stamp.size;
  ShardWriter writer(path);
  uint64_t finished_files_bytes = 0;
  uint64_t next_report = 0;
  const auto report = [&](uint64_t position) {
    so_far.input_bytes = finished_files_bytes + position;
    so_far.documents = writer.documents();
    so_far.document_bytes = writer.bytes();
    if (progress) progress(so_far);
  };
  for (const InputFile& file : files) {
    const auto reader = open_documents(file, options, result.skips);
    while (reader->next()) {
      const std::string origin = reader->origin();
      writer.begin_document(origin.empty() ? file.path : origin, reader->record());
      for (std::string_view piece = reader->piece(); !piece.empty(); piece = reader->piece()) {
        writer.append(piece);
        if ((next_report += piece.size()) >= (uint64_t{4} << 20)) {
          next_report = 0;
          report(reader->file_position());
        }
      }
      writer.end_document(reader->prompt_bytes());
    }
    finished_files_bytes += file.stamp.size;
    report(0);
  }
  if (writer.documents() == 0)
    fail("the corpus is empty: {} files, the first '{}', hold no document with text; name other data", files.size(),
         files.front().path);
  writer.finish();
  result.documents = writer.documents();
  result.document_bytes = writer.bytes();
  return result;
}

PackResult cached_shard(const std::vector<std::string>& inputs, const ReadOptions& options,
                        const std::string& cache_folder, const PackCallback& progress) {
  const std::vector<InputFile> files = find_inputs(inputs);
  const auto whole = [](const std::string& path) {
    const Shard shard(path);
    return PackResult{path, shard.documents(), shard.data_bytes(), {}, true};
  };
  if (files.size() == 1 && files[0].format == FileFormat::kShard) {
    PackResult given = whole(files[0].path);
    if (given.documents == 0) fail("{}: the shard holds no documents; pack it again", files[0].path);
    return given;
  }

  create_folders(cache_folder);
  const fs::path shard = fs::path(cache_folder) / fmt::format("{:016x}.pmshard", cache_key(files, options));
  const FileDescriptor lock = lock_file(shard.string() + ".lock", progress);
  if (std::error_code error; fs::exists(shard, error)) {
    try {
      return whole(shard.string());
    } catch (const UserError&) {
      fs::remove(shard, error);  // damaged since it was written: the inputs are still there
    }
  }
  clean_folder_after_crash(cache_folder);
  return pack_files(files, options, shard.string(), progress);
}

std::string default_cache_folder() {
  if (const char* chosen = std::getenv("PMNET_CACHE"); chosen && *chosen) return chosen;
  if (const char* base = std::getenv("XDG_CACHE_HOME"); base && *base) return (fs::path(base) / "pmnet").string();
  if (const char* home = std::getenv("HOME"); home && *home) return (fs::path(home) / ".cache" / "pmnet").string();
  return own_temporary_folder();
}

}  // namespace pmnet
