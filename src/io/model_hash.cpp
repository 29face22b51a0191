#include <algorithm>
#include <stdexcept>

#include "base/hash.h"
#include "io/checkpoint_files.h"

namespace pmnet {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;

Xxh3 begin_tensor(std::string_view name, DType dtype, const std::vector<int64_t>& shape) {
  Xxh3 hash;
  hash.update_text(name);
  hash.update_text(name_of(dtype));
  const uint64_t rank = shape.size();
  hash.update(&rank, sizeof rank);
  hash.update(shape.data(), shape.size() * sizeof(int64_t));
  return hash;
}

}  // namespace

void ModelHash::add(std::string_view name, DType dtype, const std::vector<int64_t>& shape, const void* data) {
  Xxh3 digest = begin_tensor(name, dtype, shape);
  digest.update(data, bytes_of({std::string(name), dtype, shape, data}));
  if (!digests_.emplace(name, digest.hex128()).second) {
    throw std::logic_error("two tensors of one model are named " + std::string(name));
  }
}

std::string ModelHash::hex() const {
  Xxh3 whole;
  for (const auto& [name, digest] : digests_) whole.update_text(digest);
  return whole.hex128();
}

std::string ModelHash::of(const TensorSet& set) {
  ModelHash hash;
  std::string piece;
  for (const StoredTensor& tensor : set.tensors()) {
    const TensorInfo& info = *tensor.info;
    Xxh3 digest = begin_tensor(info.name, info.dtype, info.shape);
    for (uint64_t offset = 0; offset < info.bytes(); offset += kPieceBytes) {
      piece.resize(std::min(kPieceBytes, info.bytes() - offset));
      tensor.file->read_part(info, offset, piece.data(), piece.size());
      digest.update(piece.data(), piece.size());
    }
    hash.digests_.emplace(info.name, digest.hex128());
  }
  return hash.hex();
}

}  // namespace pmnet
