// Files of any supported kind -> documents as BYTES, read in place, streamed in constant memory.
//
//   .txt and any other name    one document per file, or cut at ReadOptions::split_on
//   .jsonl, .ndjson            one document per line: field `text`, or `prompt` + `completion`
//   .parquet                   one document per row of column `text`
//   .pmshard                   our own packed documents (shard.h)
//   any of these (but the last two) with .gz or .zst behind its name
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/data_options.h"
#include "data/input_stream.h"

namespace pmnet {

enum class FileFormat { kBytes, kJsonl, kParquet, kShard };

// Tells whether a file is still the same.
struct FileStamp {
  uint64_t size = 0;
  int64_t modified_ns = 0;
};

struct InputFile {
  std::string path;
  FileFormat format = FileFormat::kBytes;
  Compression compression = Compression::kNone;
  FileStamp stamp;
};

// Files, folders (searched recursively, hidden names left out) and globs -> files in a fixed order, each once. An input
// that yields nothing, a pickle (`.pt` and its like) or something that is not a regular file is an error.
std::vector<InputFile> find_inputs(const std::vector<std::string>& inputs);

// Why documents were left out: reason -> how many, and where the first was.
struct SkipCount {
  uint64_t count = 0;
  std::string first;
};
using SkipLog = std::map<std::string, SkipCount>;
void note_skip(SkipLog& log, const std::string& reason, const std::string& where);

// The documents of one file in order.
class DocumentReader {
 public:
  virtual ~DocumentReader() = default;
  // Goes to the next document, past what is left of the current one; false at the end of the file. Empty documents
  // are skipped and counted.
  virtual bool next() = 0;
  // The next bytes of the current document, empty at its end; valid until the next call.
  virtual std::string_view piece() = 0;
  // Number of the current record in its file (line, row or piece), from 1.
  virtual uint64_t record() const = 0;
  // The file it came from before it was packed; empty for a file that is no shard.
  virtual std::string origin() const { return ""; }
  // How many leading bytes of the current document are a prompt, which is read but not trained on.
  virtual uint64_t prompt_bytes() const { return 0; }
  // How far into the file on disk reading has come, for progress.
  virtual uint64_t file_position() const = 0;
};

// `skips` must outlive the reader.
std::unique_ptr<DocumentReader> open_documents(const InputFile& file, const ReadOptions& options, SkipLog& skips);

}  // namespace pmnet
