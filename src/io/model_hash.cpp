#include <fmt/format.h>
#include <xxhash.h>

#include <memory>
#include <new>
#include <stdexcept>

#include "io/checkpoint_files.h"

namespace pmnet {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;

class Digest {
 public:
  Digest() : state_(XXH3_createState(), &XXH3_freeState) {
    if (state_ == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(state_.get());
  }
  void add(const void* data, size_t size) {
    if (size > 0) XXH3_128bits_update(state_.get(), data, size);
  }
  // The length goes first, so that no two sequences of texts look alike.
  void add_text(std::string_view text) {
    const uint64_t size = text.size();
    add(&size, sizeof size);
    add(text.data(), text.size());
  }
  std::string hex() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
};

Digest begin_tensor(std::string_view name, DType dtype, const std::vector<int64_t>& shape) {
  Digest digest;
  digest.add_text(name);
  digest.add_text(name_of(dtype));
  const uint64_t rank = shape.size();
  digest.add(&rank, sizeof rank);
  digest.add(shape.data(), shape.size() * sizeof(int64_t));
  return digest;
}

}  // namespace

void ModelHash::add(std::string_view name, DType dtype, const std::vector<int64_t>& shape, const void* data) {
  Digest digest = begin_tensor(name, dtype, shape);
  digest.add(data, bytes_of({std::string(name), dtype, shape, data}));
  if (!digests_.emplace(name, digest.hex()).second) {
    throw std::logic_error("two tensors of one model are named " + std::string(name));
  }
}

std::string ModelHash::hex() const {
  Digest whole;
  for (const auto& [name, digest] : digests_) whole.add_text(digest);
  return whole.hex();
}

std::string ModelHash::of(const TensorSet& set) {
  ModelHash hash;
  std::string piece;
  for (const StoredTensor& tensor : set.tensors()) {
    const TensorInfo& info = *tensor.info;
    Digest digest = begin_tensor(info.name, info.dtype, info.shape);
    for (uint64_t offset = 0; offset < info.bytes(); offset += kPieceBytes) {
      piece.resize(std::min(kPieceBytes, info.bytes() - offset));
      tensor.file->read_part(info, offset, piece.data(), piece.size());
      digest.add(piece.data(), piece.size());
    }
    hash.digests_.emplace(info.name, digest.hex());
  }
  return hash.hex();
}

}  // namespace pmnet
