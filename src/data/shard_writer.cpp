#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <map>
#include <stdexcept>

#include "base/atomic_folder.h"
#include "base/hash.h"
#include "data/shard.h"
#include "data/shard_layout.h"

namespace pmnet {

static_assert(std::endian::native == std::endian::little, "shards are written as they lie in memory");

namespace {

constexpr size_t kWriteBlock = 1 << 20;

// Gathers small writes.
struct BlockWriter {
  FileWriter& file;
  std::string pending = {};

  void write(std::string_view bytes) {
    if (pending.size() + bytes.size() > kWriteBlock) flush();
    if (bytes.size() > kWriteBlock)
      file.write(bytes);
    else
      pending += bytes;
  }
  void flush() {
    file.write(pending);
    pending.clear();
  }
};

template <typename T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// Bytes that are not UTF-8 and stand for BOS and EOS in the published vocabulary.
bool holds_marker_bytes(std::string_view bytes) {
  return std::ranges::any_of(bytes, [](char c) { return static_cast<unsigned char>(c) >= 254; });
}

}  // namespace

struct ShardWriter::State {
  explicit State(const std::string& shard) : file(shard), index_file(shard + ".index") {}

  AtomicFile file;
  AtomicFile index_file;  // entries wait in a file, so that memory does not grow with the number of documents
  BlockWriter data{file.writer()}, index{index_file.writer()};
  std::vector<std::string> origins;
  std::map<std::string, uint32_t> origin_numbers;
  ShardFooter footer{};
  ShardEntry entry{};
  bool in_document = false;
  Xxh3 document_hash, data_hash;
};

ShardWriter::ShardWriter(const std::string& path) : state_(std::make_unique<State>(path)) {}
ShardWriter::~ShardWriter() = default;

uint64_t ShardWriter::documents() const { return state_->footer.documents; }
uint64_t ShardWriter::bytes() const {
  return state_->footer.data_bytes + (state_->in_document ? state_->entry.bytes : 0);
}

void ShardWriter::begin_document(const std::string& origin, uint64_t record) {
  State& s = *state_;
  if (s.in_document) throw std::logic_error("ShardWriter: the previous document was not ended");
  const auto [place, is_new] = s.origin_numbers.try_emplace(origin, static_cast<uint32_t>(s.origins.size()));
  if (is_new) s.origins.push_back(origin);
  s.entry = {0, 0, 0, record, place->second, 0};
  s.document_hash.reset();
  s.in_document = true;
}

void ShardWriter::append(std::string_view bytes) {
  state_->document_hash.update(bytes.data(), bytes.size());
  state_->entry.bytes += bytes.size();
  if (holds_marker_bytes(bytes)) state_->entry.flags |= ShardEntry::kHoldsMarkerBytes;
  state_->data.write(bytes);
}

void ShardWriter::end_document(uint64_t prompt_bytes) {
  State& s = *state_;
  s.in_document = false;
  s.entry.prompt_bytes = prompt_bytes;
  s.entry.hash = s.document_hash.digest64();
  s.data_hash.update(&s.entry.hash, sizeof(s.entry.hash));
  s.data_hash.update(&s.entry.prompt_bytes, sizeof(s.entry.prompt_bytes));
  s.footer.documents += 1;
  s.footer.data_bytes += s.entry.bytes;
  s.index.write(bytes_of(s.entry));
}

void ShardWriter::finish() {
  State& s = *state_;
  std::string paths;
  for (const std::string& origin : s.origins) {
    const auto size = static_cast<uint32_t>(origin.size());
    paths.append(bytes_of(size)).append(origin);
  }
  const uint64_t index_bytes = s.footer.documents * sizeof(ShardEntry);
  s.footer.path_count = s.origins.size();
  s.footer.paths_bytes = paths.size();
  s.footer.file_bytes = s.footer.data_bytes + index_bytes + paths.size() + sizeof(ShardFooter);
  s.footer.data_hash = s.data_hash.digest64();
  std::memcpy(s.footer.magic, kShardMagic, sizeof(s.footer.magic));

  Xxh3 index_hash;
  index_hash.update(&s.footer, offsetof(ShardFooter, index_hash));
  s.index.flush();
  const FileReader entries(s.index_file.writer().path());
  std::string block(kWriteBlock, '\0');
  for (uint64_t at = 0; at < index_bytes; at += block.size()) {
    block.resize(std::min<uint64_t>(kWriteBlock, index_bytes - at));
    entries.read_at(at, block.data(), block.size());
    index_hash.update(block.data(), block.size());
    s.data.write(block);
  }
  index_hash.update(paths.data(), paths.size());
  s.footer.index_hash = index_hash.digest64();
  s.data.write(paths);
  s.data.write(bytes_of(s.footer));
  s.data.flush();
  s.file.commit();
}

}  // namespace pmnet
