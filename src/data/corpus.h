// Sources of a run -> documents to train on and documents held out. A corpus costs 24 bytes of memory per document; the
// bytes stay on disk, in shards (shard.h says why).
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/byte_source.h"
#include "data/shard.h"
#include "data/shard_cache.h"

namespace pmnet {

struct SourceSpec {
  std::vector<std::string> inputs;  // files, folders, globs
  double weight = 1;                // share of the samples, relative to the other sources
};

struct CorpusSpec {
  std::vector<SourceSpec> sources;
  ReadOptions read;
  HoldOut hold_out;
  std::string cache_folder;  // empty: default_cache_folder()
};

struct Document {
  uint64_t offset = 0;  // in the shard's concatenated bytes
  uint64_t bytes = 0;
  uint64_t prompt_bytes = 0;
};

struct DocumentSource {
  std::shared_ptr<const Shard> shard;
  std::vector<Document> documents;
  double weight = 1;
};

struct DocumentSet {
  std::vector<DocumentSource> sources;  // none is empty
  // Equal for the same documents in the same order with the same weights, wherever they are stored.
  uint64_t fingerprint = 0;
  uint64_t documents() const;
  uint64_t bytes() const;
};

struct Corpus {
  DocumentSet train;
  DocumentSet held_out;                      // without sources when nothing is held out
  std::vector<PackResult> packed;            // one per source: where its shard lies, what was skipped
  uint64_t documents_with_marker_bytes = 0;  // 254 or 255, the usual BOS and EOS
};

// Packs or finds the shards and divides the documents. An empty train part, a held-out part asked for that turns out
// empty, or bad weights are errors.
Corpus open_corpus(const CorpusSpec& spec, const PackCallback& progress = {});

}  // namespace pmnet
