#include "data/shard.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/error.h"
#include "base/hash.h"
#include "data/shard_layout.h"

namespace pmnet {
namespace {

constexpr uint64_t kEntriesPerBlock = 16 * 1024;
constexpr uint64_t kMaxPathsBytes = uint64_t{1} << 30;

[[noreturn]] void refuse(const std::string& path, const char* what) {
  fail("{}: is not a whole shard: {}; write it again with 'pmnet data pack'", path, what);
}

}  // namespace

Shard::Shard(const std::string& path) : file_(path) {
  if (file_.size() < sizeof(footer_)) refuse(path, "it is too short");
  const uint64_t body = file_.size() - sizeof(footer_);
  file_.read_at(body, &footer_, sizeof(footer_));
  if (std::memcmp(footer_.magic, kShardMagic, sizeof(footer_.magic)) != 0) refuse(path, "the closing mark is missing");
  if (footer_.file_bytes != file_.size()) refuse(path, "its size is not the one it was written with");
  if (footer_.documents > body / sizeof(ShardEntry) || footer_.data_bytes > body || footer_.paths_bytes > body ||
      footer_.paths_bytes > kMaxPathsBytes ||
      footer_.data_bytes + footer_.documents * sizeof(ShardEntry) + footer_.paths_bytes != body)
    refuse(path, "its parts do not add up to its size");
  check_index();
}

void Shard::check_index() {
  Xxh3 hash;
  hash.update(&footer_, offsetof(ShardFooter, index_hash));
  std::vector<ShardEntry> block;
  uint64_t bytes_left = footer_.data_bytes;
  for (uint64_t first = 0; first < documents(); first += block.size()) {
    read_entries(first, block);
    hash.update(block.data(), block.size() * sizeof(ShardEntry));
    for (const ShardEntry& entry : block) {
      check_entry(entry, bytes_left);
      bytes_left -= entry.bytes;
    }
  }
  if (bytes_left != 0) refuse(path(), "its index does not cover all documents");

  std::string paths(footer_.paths_bytes, '\0');
  file_.read_at(file_.size() - sizeof(footer_) - paths.size(), paths.data(), paths.size());
  hash.update(paths.data(), paths.size());
  if (hash.digest64() != footer_.index_hash) refuse(path(), "the checksum of its index is wrong");
  for (size_t at = 0; at < paths.size();) {
    uint32_t size = 0;
    if (paths.size() - at < sizeof(size)) refuse(path(), "its table of paths is cut");
    std::memcpy(&size, paths.data() + at, sizeof(size));
    at += sizeof(size);
    if (paths.size() - at < size) refuse(path(), "its table of paths is cut");
    origins_.push_back(paths.substr(at, size));
    at += size;
  }
  if (origins_.size() != footer_.path_count) refuse(path(), "its table of paths has the wrong length");
}

void Shard::check_entry(const ShardEntry& entry, uint64_t bytes_left) const {
  if (entry.bytes > bytes_left || entry.prompt_bytes > entry.bytes || entry.path >= footer_.path_count)
    refuse(path(), "an entry of its index is out of range");
}

void Shard::read_entries(uint64_t first, std::vector<ShardEntry>& block) const {
  block.resize(std::min(kEntriesPerBlock, documents() - first));
  file_.read_at(footer_.data_bytes + first * sizeof(ShardEntry), block.data(), block.size() * sizeof(ShardEntry));
}

void Shard::read(uint64_t offset, char* out, size_t size) const {
  if (offset > footer_.data_bytes || size > footer_.data_bytes - offset)
    throw std::logic_error("Shard::read past the documents");
  file_.read_at(offset, out, size);
}

struct ShardDocuments::Hash {
  Xxh3 state;
};

ShardDocuments::ShardDocuments(const std::string& path)
    : shard_(path), buffer_(256 * 1024), hash_(std::make_unique<Hash>()) {}
ShardDocuments::~ShardDocuments() = default;

bool ShardDocuments::next() {
  position_ += left_;
  left_ = 0;
  if (document_ == shard_.documents()) return false;
  if (block_next_ == block_.size()) {
    shard_.read_entries(document_, block_);
    block_next_ = 0;
  }
  entry_ = block_[block_next_++];
  shard_.check_entry(entry_, shard_.data_bytes() - position_);
  ++document_;
  left_ = entry_.bytes;
  hash_->state.reset();
  return true;
}

std::string_view ShardDocuments::piece() {
  if (left_ == 0) return {};
  const size_t size = std::min<uint64_t>(left_, buffer_.size());
  shard_.read(position_, buffer_.data(), size);
  position_ += size;
  left_ -= size;
  hash_->state.update(buffer_.data(), size);
  if (left_ == 0 && hash_->state.digest64() != entry_.hash)
    fail("{}: document {} ({}, record {}) is damaged: its checksum is wrong; write the shard again", shard_.path(),
         document_, shard_.origins()[entry_.path], entry_.record);
  return {buffer_.data(), size};
}

}  // namespace pmnet
