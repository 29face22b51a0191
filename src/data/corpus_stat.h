// What a corpus holds, found in one pass.
#pragma once
#include <cstdint>
#include <map>
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
  std::map<uint64_t, uint64_t> lengths;  // documents of so many bytes; n different lengths take n^2 / 2 bytes of text
  uint64_t prompt_documents = 0;         // prompt/completion records
  uint64_t prompt_bytes = 0;
  uint64_t documents_with_marker_bytes = 0;  // that contain 254 or 255, the usual ids of BOS and EOS
  uint64_t marker_bytes = 0;
  std::string first_with_marker;
  SkipLog skips;                     // documents that would be left out
  std::vector<std::string> refused;  // files that cannot be read, with the reason
  std::string sample;                // the start of one document, chosen by its number
  std::string sample_origin;

  // The smallest length that at least this share of the documents does not exceed; 0: the shortest, 1: the longest.
  uint64_t length_quantile(double share) const;
};

// Unreadable files and, as with skip_bad_records, malformed records are counted instead of ending the pass.
CorpusStat examine_inputs(const std::vector<std::string>& inputs, const ReadOptions& options,
                          const PackCallback& progress = {});

}  // namespace pmnet
