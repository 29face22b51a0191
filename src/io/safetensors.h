#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "io/dtype.h"

// The safetensors container: 8 bytes of header length (little endian), a JSON header, then the tensors' bytes back to
// back. The reader refuses everything the format's own reader refuses, and duplicate names besides.

namespace pmnet {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // within the data, which starts after the header
  uint64_t end = 0;

  uint64_t bytes() const { return end - begin; }
};

using Metadata = std::map<std::string, std::string>;

// Pickle files can run any code when loaded and are never read here.
inline constexpr const char* kPickleAdvice =
    "convert it in Python with safetensors.torch.save_file(torch.load(FILE, weights_only=True), \"model.safetensors\")";

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;
// Keeps the memory of a hostile header near its own size; real models have a few thousand tensors.
inline constexpr size_t kMaxTensors = 250'000;
inline constexpr size_t kMaxKeys = 10'000;  // of the metadata, or of one tensor

struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;  // in the order of their bytes
  Metadata metadata;
};

// Checks everything about a header but the names themselves; `where` opens each error.
SafetensorsHeader parse_safetensors_header(std::string_view json_text, uint64_t data_bytes, const std::string& where);

class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& file);

  const std::filesystem::path& path() const { return reader_.path(); }
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  const Metadata& metadata() const { return header_.metadata; }
  const TensorInfo* find(std::string_view name) const;

  void read(const TensorInfo& tensor, void* into) const { read_part(tensor, 0, into, tensor.bytes()); }
  void read_part(const TensorInfo& tensor, uint64_t offset, void* into, size_t size) const;

 private:
  SafetensorsFile(FileReader reader, SafetensorsHeader header, uint64_t data_start);

  FileReader reader_;
  SafetensorsHeader header_;
  uint64_t data_start_;
  std::vector<uint32_t> by_name_;  // positions in tensors(), sorted by name
};

// A contiguous tensor in memory; `data` may be null when it has no elements.
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
};

uint64_t bytes_of(const TensorView& tensor);

// The bytes go straight from the views to the file; only the header is built in memory.
void write_safetensors(const std::filesystem::path& new_file, std::span<const TensorView> tensors,
                       const Metadata& metadata = {{"format", "pt"}});

// The same through a temporary file and a rename: the old file or the new one, never a part.
void write_safetensors_atomically(const std::filesystem::path& file, std::span<const TensorView> tensors,
                                  const Metadata& metadata = {{"format", "pt"}});

}  // namespace pmnet
