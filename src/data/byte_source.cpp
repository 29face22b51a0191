#include "data/byte_source.h"

#include "data/jsonl_reader.h"
#include "data/parquet_reader.h"
#include "data/plain_reader.h"
#include "data/shard.h"

namespace pmnet {

void note_skip(SkipLog& log, const std::string& reason, const std::string& where) {
  SkipCount& entry = log[reason];
  if (entry.count++ == 0) entry.first = where;
}

std::unique_ptr<DocumentReader> open_documents(const InputFile& file, const ReadOptions& options, SkipLog& skips) {
  switch (file.format) {
    case FileFormat::kJsonl:
      return std::make_unique<JsonlReader>(file, options, skips);
    case FileFormat::kParquet:
      return std::make_unique<ParquetReader>(file, options, skips);
    case FileFormat::kShard:
      return std::make_unique<ShardDocuments>(file.path);
    case FileFormat::kBytes:
      break;
  }
  return std::make_unique<PlainReader>(file, options, skips);
}

}  // namespace pmnet
