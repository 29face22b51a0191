// A packed shard (.pmshard): the bytes of many documents back to back, then an index. Training reads shards only.
// Compressed and columnar inputs cannot be entered at a random place; once they are packed, shuffling over documents,
// resuming at any step and reading any slice are all single preads. `pmnet data pack` writes a shard on purpose, and
// shard_cache.h writes one behind the scenes for raw inputs.
//
// Layout, little-endian: document bytes | one ShardEntry per document | origin paths (u32 size + bytes) | ShardFooter.
// Files are read with pread, never mapped: a file cut short under a mapping would end the process with a signal.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/byte_source.h"

namespace pmnet {

struct ShardFooter {
  uint64_t documents;
  uint64_t data_bytes;
  uint64_t path_count;
  uint64_t paths_bytes;
  uint64_t file_bytes;
  uint64_t data_hash;   // over the documents' hashes in order, so that equal content has an equal name
  uint64_t index_hash;  // over the fields above, the entries and the paths
  char magic[8];
};

struct ShardEntry {
  uint64_t bytes;
  uint64_t prompt_bytes;
  uint64_t hash;    // of the document's bytes
  uint64_t record;  // in its origin, from 1
  uint32_t path;    // origin, number in the table of paths
  uint32_t flags;

  static constexpr uint32_t kHoldsMarkerBytes = 1;  // 254 or 255, the usual BOS and EOS: this is not UTF-8 text
};

// Writes an AtomicFile: an unfinished shard is never taken for a whole one.
class ShardWriter {
 public:
  explicit ShardWriter(const std::string& path);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  void begin_document(const std::string& origin, uint64_t record);
  void append(std::string_view bytes);
  void end_document(uint64_t prompt_bytes);
  uint64_t documents() const;
  uint64_t bytes() const;  // of all documents so far, the current one included
  // Completes and syncs the file.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Random access to a shard. Opening checks the whole index (`index_hash` and all sizes), not the documents.
class Shard {
 public:
  explicit Shard(const std::string& path);

  std::string path() const { return file_.path().string(); }
  uint64_t documents() const { return footer_.documents; }
  uint64_t data_bytes() const { return footer_.data_bytes; }
  uint64_t content_hash() const { return footer_.data_hash; }
  const std::vector<std::string>& origins() const { return origins_; }

  // Calls visit(entry, offset of its bytes) for every document in order, reading the index block by block.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    std::vector<ShardEntry> block;
    uint64_t offset = 0;
    for (uint64_t first = 0; first < documents(); first += block.size()) {
      read_entries(first, block);
      for (const ShardEntry& entry : block) {
        check_entry(entry, data_bytes() - offset);
        visit(entry, offset);
        offset += entry.bytes;
      }
    }
  }

  // Bytes [offset, offset + size) of the concatenated documents; safe from several threads.
  void read(uint64_t offset, char* out, size_t size) const;

 private:
  friend class ShardDocuments;
  void read_entries(uint64_t first, std::vector<ShardEntry>& block) const;
  // On every reading, not only when the shard is opened: the file may be rewritten meanwhile.
  void check_entry(const ShardEntry& entry, uint64_t bytes_left) const;
  void check_index();

  FileReader file_;
  ShardFooter footer_{};
  std::vector<std::string> origins_;
};

// A shard as an input like any other; checks each document's hash on the way.
class ShardDocuments : public DocumentReader {
 public:
  explicit ShardDocuments(const std::string& path);
  ~ShardDocuments() override;
  bool next() override;
  std::string_view piece() override;
  uint64_t record() const override { return entry_.record; }
  std::string origin() const override { return shard_.origins()[entry_.path]; }
  uint64_t prompt_bytes() const override { return entry_.prompt_bytes; }
  uint64_t file_position() const override { return position_; }

 private:
  struct Hash;
  Shard shard_;
  std::vector<ShardEntry> block_;
  size_t block_next_ = 0;
  uint64_t document_ = 0;
  ShardEntry entry_{};
  uint64_t left_ = 0;
  uint64_t position_ = 0;
  std::vector<char> buffer_;
  std::unique_ptr<Hash> hash_;
};

}  // namespace pmnet
