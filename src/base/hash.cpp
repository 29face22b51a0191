#include "base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <new>
#include <vector>

#include "base/file.h"

namespace pmnet {

// The library shares state, reset and update between the two widths; only the digests differ.
Xxh3::Xxh3() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  reset();
}

void Xxh3::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

void Xxh3::reset() { XXH3_128bits_reset(state_.get()); }

void Xxh3::update(const void* bytes, size_t size) {
  if (size > 0) XXH3_128bits_update(state_.get(), bytes, size);
}

void Xxh3::update_text(std::string_view text) {
  const uint64_t size = text.size();
  update(&size, sizeof size);
  update(text.data(), text.size());
}

uint64_t Xxh3::digest64() const { return XXH3_64bits_digest(state_.get()); }

std::string Xxh3::hex128() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

uint64_t hash64(const void* bytes, size_t size) { return XXH3_64bits(bytes, size); }

std::string text_hash(std::string_view text) {
  Xxh3 hash;
  hash.update(text.data(), text.size());
  return hash.hex128();
}

std::string file_hash(const std::filesystem::path& path) {
  constexpr uint64_t kPieceBytes = 1 << 20;
  const FileReader file(path);
  Xxh3 hash;
  std::vector<char> piece(std::min(kPieceBytes, file.size()));
  for (uint64_t offset = 0; offset < file.size(); offset += piece.size()) {
    piece.resize(std::min(kPieceBytes, file.size() - offset));
    file.read_at(offset, piece.data(), piece.size());
    hash.update(piece.data(), piece.size());
  }
  return hash.hex128();
}

}  // namespace pmnet
