#include "io/file_hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "base/file.h"

namespace pmnet {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;

std::string hex(XXH128_hash_t hash) { return fmt::format("{:016x}{:016x}", hash.high64, hash.low64); }

}  // namespace

std::string text_hash(std::string_view text) { return hex(XXH3_128bits(text.data(), text.size())); }

std::string file_hash(const std::filesystem::path& path) {
  const FileReader file(path);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  if (state == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state.get());
  std::vector<char> piece(std::min(kPieceBytes, file.size()));
  for (uint64_t offset = 0; offset < file.size(); offset += piece.size()) {
    piece.resize(std::min(kPieceBytes, file.size() - offset));
    file.read_at(offset, piece.data(), piece.size());
    XXH3_128bits_update(state.get(), piece.data(), piece.size());
  }
  return hex(XXH3_128bits_digest(state.get()));
}

}  // namespace pmnet
