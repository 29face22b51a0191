// How documents are read, divided and cut into samples.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/enum_names.h"
#include "config/field_table.h"

namespace pmnet {

struct ReadOptions {
  std::string text_field = "text";  // JSONL field, Parquet column
  std::string prompt_field = "prompt";
  std::string completion_field = "completion";
  std::string split_on;                             // empty: a plain file is one document
  uint64_t max_record_bytes = uint64_t{256} << 20;  // one JSONL line; documents of plain files have no limit
  int64_t parquet_memory_bytes = int64_t{1} << 30;  // decoding one page of a column
  bool skip_bad_records = false;                    // count a malformed record and continue, instead of an error
  bool operator==(const ReadOptions&) const = default;
};

// What users can set: the options of `data`, `eval` and `inspect`, and section [data] of a training run.
const std::vector<Field<ReadOptions>>& read_option_fields();

// The part of the corpus that is never trained on.
struct HoldOut {
  enum class By {
    kAuto,  // kHash if enough documents fall into the fraction, else kTail
    kHash,  // documents whose content hashes into the fraction; equal documents fall on the same side
    kTail,  // the last `fraction` of each document's bytes
    kPath,  // documents whose file matches one of `patterns` (shell wildcards over the path or the file name)
    kNone,
  };
  By by = By::kNone;
  double fraction = 0.01;
  std::vector<std::string> patterns;
  bool operator==(const HoldOut&) const = default;
};
template <>
inline constexpr auto kEnumNames<HoldOut::By> = std::to_array<const char*>({"auto", "hash", "tail", "path", "none"});

enum class SampleMode {
  kPacked,       // shuffled documents joined into one stream and cut; rows are full, but for one per epoch
  kPerDocument,  // no row crosses a document's end; short rows are padded
  kCarry,        // each row walks through one document window after window, so that memory can be carried along
};
template <>  // kCarry is chosen by train.carry
inline constexpr auto kEnumNames<SampleMode> = std::to_array<const char*>({"packed", "document"});

}  // namespace pmnet
