#include <glob.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/pickle.h"
#include "data/byte_source.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;

bool take_suffix(std::string& name, std::string_view suffix) {
  if (name.size() <= suffix.size() || !name.ends_with(suffix)) return false;
  name.resize(name.size() - suffix.size());
  return true;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

[[noreturn]] void refuse_pickle(const std::string& path) {
  fail(
      "{}: is a pickle, which can run any code when loaded and is never read here; save its text as .txt, .jsonl or "
      ".parquet, or its weights as .safetensors",
      path);
}

InputFile describe(const std::string& path) {
  InputFile file;
  file.path = path;
  std::string name = lower_case(fs::path(path).filename().string());
  if (has_pickle_name(name)) refuse_pickle(path);
  if (take_suffix(name, ".gz"))
    file.compression = Compression::kGzip;
  else if (take_suffix(name, ".zst"))
    file.compression = Compression::kZstd;
  if (take_suffix(name, ".jsonl") || take_suffix(name, ".ndjson"))
    file.format = FileFormat::kJsonl;
  else if (take_suffix(name, ".parquet"))
    file.format = FileFormat::kParquet;
  else if (take_suffix(name, ".pmshard"))
    file.format = FileFormat::kShard;
  if (file.compression != Compression::kNone &&
      (file.format == FileFormat::kParquet || file.format == FileFormat::kShard))
    fail("{}: is compressed as a whole, but Parquet files and shards are read at random places; decompress it first",
         path);
  const FileReader opened(path);
  file.stamp = {opened.size(), fs::last_write_time(path).time_since_epoch().count()};
  std::string head(std::min<uint64_t>(256, opened.size()), '\0');
  opened.read_at(0, head.data(), head.size());
  if (file.compression == Compression::kNone && looks_like_pickle(head)) refuse_pickle(path);
  return file;
}

// Folders are not entered through links: a link to a parent would never end.
void collect_folder(const fs::path& folder, std::vector<std::string>& paths) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    entries.push_back(it->path());
  if (error) fail("{}: cannot list the folder: {}; check its permissions", folder.string(), error.message());
  std::sort(entries.begin(), entries.end());
  for (const fs::path& entry : entries) {
    if (entry.filename().string().starts_with(".")) continue;
    if (!fs::is_directory(entry, error))
      paths.push_back(entry.string());
    else if (!fs::is_symlink(entry, error))
      collect_folder(entry, paths);
  }
}

std::vector<std::string> expand_glob(const std::string& pattern) {
  glob_t found{};
  const int result = ::glob(pattern.c_str(), GLOB_BRACE | GLOB_TILDE, nullptr, &found);
  std::vector<std::string> paths;
  if (result == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return paths;
}

void collect(const std::string& path, std::vector<std::string>& paths) {
  std::error_code error;
  if (fs::is_directory(path, error))
    collect_folder(path, paths);
  else
    paths.push_back(path);
}

}  // namespace

std::vector<InputFile> find_inputs(const std::vector<std::string>& inputs) {
  if (inputs.empty()) fail("no data was named; expected files, folders or globs");
  std::vector<InputFile> files;
  std::set<std::string> seen;
  for (const std::string& input : inputs) {
    std::vector<std::string> paths;
    std::error_code error, reason;
    if (fs::exists(fs::symlink_status(input, reason))) {
      collect(input, paths);
      if (paths.empty()) fail("{}: the folder holds no files; put text into it or name another", input);
    } else if (input.find_first_of("*?[{~") != std::string::npos) {
      for (const std::string& path : expand_glob(input)) collect(path, paths);
      if (paths.empty())
        fail("{}: no file matches; check the pattern, and quote it if the shell should not expand it", input);
    } else if (reason && reason != std::errc::no_such_file_or_directory && reason != std::errc::not_a_directory) {
      fail("{}: {}; check the name and its permissions", input, reason.message());
    } else {
      fail("{}: no such file or folder; check the path", input);
    }
    for (const std::string& path : paths)
      if (seen.insert(fs::weakly_canonical(path, error).string()).second) files.push_back(describe(path));
  }
  return files;
}

}  // namespace pmnet
