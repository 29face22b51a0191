#include "data/parquet_reader.h"

#include <dlfcn.h>

#include <array>
#include <filesystem>

#include "base/error.h"

namespace pmnet {
namespace {

struct Module {
  const PmnetParquetApi* api = nullptr;
  std::string problem;
};

// The module lies beside the program or library that holds this code, in the lib folder of an installation, or one
// folder up (programs of the build tree's tests).
Module load_module() {
  Dl_info self{};
  if (::dladdr(reinterpret_cast<const void*>(&load_module), &self) == 0 || !self.dli_fname)
    return {nullptr, "the program's own folder is unknown"};
  std::error_code error;
  const auto folder = std::filesystem::weakly_canonical(self.dli_fname, error).parent_path();
  Module module{nullptr, "libpmnet_parquet.so is not installed"};
  for (const auto& candidate : {folder, folder.parent_path() / "lib", folder.parent_path()}) {
    const auto path = candidate / "libpmnet_parquet.so";
    if (!std::filesystem::exists(path, error)) continue;
    void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      module.problem = ::dlerror();
      continue;
    }
    const auto entry = reinterpret_cast<decltype(&pmnet_parquet_api)>(::dlsym(handle, "pmnet_parquet_api"));
    if (entry && entry()->abi == PMNET_PARQUET_ABI) return {entry(), ""};
    module.problem = path.string() + " belongs to another version of pmnet";
  }
  return module;
}

const Module& parquet_module() {
  static const Module module = load_module();
  return module;
}

}  // namespace

bool parquet_available() { return parquet_module().api != nullptr; }

void ParquetReader::Close::operator()(PmnetParquet* file) const { parquet_module().api->close(file); }

ParquetReader::ParquetReader(const InputFile& file, const ReadOptions& options, SkipLog& skips)
    : path_(file.path), file_size_(file.stamp.size), skips_(skips) {
  if (!parquet_available())
    fail(
        "'{}' cannot be read: {}; install pyarrow into pmnet's Python environment (pip install pyarrow) and build "
        "again, "
        "or convert the file to .jsonl",
        path_, parquet_module().problem);
  std::array<char, 1024> error{};
  file_.reset(parquet_module().api->open(path_.c_str(), options.text_field.c_str(), options.parquet_memory_bytes,
                                         error.data(), error.size()));
  if (!file_)
    fail("cannot read '{}' as Parquet: {}; get the file again, or name the column with --text-field", path_,
         error.data());
  rows_ = static_cast<uint64_t>(parquet_module().api->rows(file_.get()));
}

bool ParquetReader::next() {
  for (;;) {
    const char* bytes = nullptr;
    int64_t size = 0;
    std::array<char, 1024> error{};
    const int step = parquet_module().api->next(file_.get(), &bytes, &size, error.data(), error.size());
    if (step == kParquetError) fail("'{}' is damaged, {}; get the file again", path_, error.data());
    if (step == kParquetEnd) break;
    ++row_;
    if (step == kParquetValue && size > 0) {
      document_ = {bytes, static_cast<size_t>(size)};
      return true;
    }
    note_skip(skips_, "empty or null text", fmt::format("'{}', row {}", path_, row_));
  }
  if (rows_ == 0) note_skip(skips_, "empty file", path_);
  document_ = {};
  return false;
}

std::string_view ParquetReader::piece() {
  const std::string_view whole = document_;
  document_ = {};
  return whole;
}

uint64_t ParquetReader::file_position() const { return rows_ ? file_size_ / rows_ * row_ : file_size_; }

}  // namespace pmnet
