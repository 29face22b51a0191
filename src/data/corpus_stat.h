// What a corpus holds, found in one pass in constant memory.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/byte_source.h"
#include "data/shard_cache.h"

namespace pmnet {

struct FormatCount {
  uint64_t files = 0;
  uint64_t file_bytes = 0;
  uint64_t documents = 0;
  uint64_t document_bytes = 0;
};

struct CorpusStat {
  std::map<std::string, FormatCount> by_format;  // "jsonl.gz" and the like
  FormatCount total;
  uint64_t shortest = 0, longest = 0;           // document bytes
  std::array<uint64_t, 65> length_histogram{};  // [k]: documents of 2^(k-1) to 2^k - 1 bytes
  uint64_t prompt_documents = 0;                // prompt/completion records
  uint64_t prompt_bytes = 0;
  uint64_t documents_with_marker_bytes = 0;  // that contain 254 or 255, the usual ids of BOS and EOS
  uint64_t marker_bytes = 0;
  std::string first_with_marker;
  SkipLog skips;                     // documents that would be left out
  std::vector<std::string> refused;  // files that cannot be read, with the reason
  std::string sample;                // the start of one document, chosen by its number
  std::string sample_origin;

  // A length that at least this share of the documents does not exceed: the upper end of a histogram bin, or the
  // longest document.
  uint64_t length_quantile_bound(double share) const;
};

// Unreadable files and, as with skip_bad_records, malformed records are counted instead of ending the pass.
CorpusStat examine_inputs(const std::vector<std::string>& inputs, const ReadOptions& options,
                          const PackCallback& progress = {});

}  // namespace pmnet
