#pragma once
#include <vector>

#include "data/byte_source.h"

namespace pmnet {

// A plain file: all of it one document, or one document per stretch between separators.
class PlainReader : public DocumentReader {
 public:
  PlainReader(const InputFile& file, const ReadOptions& options, SkipLog& skips);
  bool next() override;
  std::string_view piece() override;
  uint64_t record() const override { return record_; }
  uint64_t file_position() const override { return stream_->file_position(); }

 private:
  std::string_view read_piece();
  std::string_view take(size_t size);
  bool fill();

  std::string path_;
  std::string separator_;
  SkipLog& skips_;
  std::unique_ptr<InputStream> stream_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  bool stream_ended_ = false;
  bool in_document_ = false;
  std::string_view first_piece_;  // read ahead by next() to see that the document is not empty
  uint64_t record_ = 0;
};

}  // namespace pmnet
