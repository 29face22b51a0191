#pragma once
#include <vector>

#include "data/byte_source.h"

namespace pmnet {

// One JSON object per line. A record has the text field, or a prompt and a completion; other fields are ignored.
class JsonlReader : public DocumentReader {
 public:
  JsonlReader(const InputFile& file, const ReadOptions& options, SkipLog& skips);
  bool next() override;
  std::string_view piece() override;
  uint64_t record() const override { return line_number_; }
  uint64_t prompt_bytes() const override { return prompt_bytes_; }
  uint64_t file_position() const override { return stream_->file_position(); }

 private:
  bool next_line();
  void parse_line();
  std::string where() const;

  std::string path_;
  ReadOptions options_;
  SkipLog& skips_;
  std::unique_ptr<InputStream> stream_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  std::string long_line_;  // a line that spans buffers
  std::string_view line_;
  uint64_t line_number_ = 0;
  std::string document_;
  bool delivered_ = true;
  uint64_t prompt_bytes_ = 0;
};

}  // namespace pmnet
