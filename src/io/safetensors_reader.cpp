#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "base/error.h"
#include "base/pickle.h"
#include "io/safetensors.h"

namespace pmnet {
namespace {

constexpr uint64_t kLengthBytes = 8;

// The length at the front can look like anything, a pickle's first bytes included; the JSON behind it cannot.
void refuse_pickle(const FileReader& reader) {
  std::string head(std::min<uint64_t>(reader.size(), 256), '\0');
  reader.read_at(0, head.data(), head.size());
  const bool has_header = head.size() > kLengthBytes && head.substr(4, 4) == std::string(4, '\0') &&
                          (head[kLengthBytes] == '{' || head[kLengthBytes] == ' ');
  if (has_header || !(looks_like_pickle(head) || head.starts_with("PK\x03\x04"))) return;
  fail("{}: is a PyTorch pickle file, which can run any code when loaded and is never read here; {}",
       reader.path().string(), kPickleAdvice);
}

uint64_t read_header_length(const FileReader& reader, const std::string& where) {
  if (reader.size() < kLengthBytes) {
    fail("{}: has only {} bytes, too few for a safetensors file; it is cut off or of another kind", where,
         reader.size());
  }
  unsigned char bytes[kLengthBytes] = {};
  reader.read_at(0, bytes, sizeof bytes);
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  if (length > kMaxHeaderBytes) {
    fail("{}: declares a header of {} bytes, and at most {} are allowed; it is not a safetensors file or is damaged",
         where, length, kMaxHeaderBytes);
  }
  if (length > reader.size() - kLengthBytes) {
    fail("{}: declares a header of {} bytes, but only {} follow; the file is cut off", where, length,
         reader.size() - kLengthBytes);
  }
  return length;
}

}  // namespace

SafetensorsFile::SafetensorsFile(FileReader reader, SafetensorsHeader header, uint64_t data_start)
    : reader_(std::move(reader)),
      header_(std::move(header)),
      data_start_(data_start),
      by_name_(header_.tensors.size()) {
  std::iota(by_name_.begin(), by_name_.end(), 0U);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return header_.tensors[a].name < header_.tensors[b].name; });
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& file) {
  FileReader reader(file);
  const std::string where = file.string();
  refuse_pickle(reader);
  const uint64_t length = read_header_length(reader, where);
  std::string text(length, '\0');
  reader.read_at(kLengthBytes, text.data(), text.size());
  const uint64_t data_start = kLengthBytes + length;
  SafetensorsHeader header = parse_safetensors_header(text, reader.size() - data_start, where);
  return SafetensorsFile(std::move(reader), std::move(header), data_start);
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](uint32_t index, std::string_view key) { return header_.tensors[index].name < key; });
  if (found == by_name_.end() || header_.tensors[*found].name != name) return nullptr;
  return &header_.tensors[*found];
}

void SafetensorsFile::read_part(const TensorInfo& tensor, uint64_t offset, void* into, size_t size) const {
  if (offset > tensor.bytes() || size > tensor.bytes() - offset) {
    throw std::logic_error("read past the end of tensor " + tensor.name);
  }
  reader_.read_at(data_start_ + tensor.begin + offset, into, size);
}

}  // namespace pmnet
