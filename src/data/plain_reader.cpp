#include "data/plain_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace pmnet {

namespace {
constexpr size_t kBuffer = 256 * 1024;
}

PlainReader::PlainReader(const InputFile& file, const ReadOptions& options, SkipLog& skips)
    : path_(file.path),
      separator_(options.split_on),
      skips_(skips),
      stream_(open_input(file.path, file.compression)),
      buffer_(std::max(kBuffer, 4 * separator_.size())) {}

bool PlainReader::next() {
  while (!piece().empty()) {
  }
  for (;;) {
    if (begin_ == end_ && !fill()) {
      if (record_ == 0) note_skip(skips_, "empty file", path_);
      record_ = std::max<uint64_t>(record_, 1);
      return false;
    }
    ++record_;
    in_document_ = true;
    first_piece_ = read_piece();
    if (!first_piece_.empty()) return true;
    note_skip(skips_, "empty document", fmt::format("{}, document {}", path_, record_));
  }
}

std::string_view PlainReader::piece() {
  if (first_piece_.empty()) return read_piece();
  const std::string_view first = first_piece_;
  first_piece_ = {};
  return first;
}

std::string_view PlainReader::read_piece() {
  while (in_document_) {
    const std::string_view ready(buffer_.data() + begin_, end_ - begin_);
    const size_t found = separator_.empty() ? ready.npos : ready.find(separator_);
    if (found == 0) {
      take(separator_.size());
      in_document_ = false;
    } else if (found != ready.npos) {
      return take(found);
    } else {
      // The last bytes may be the front of a separator.
      const size_t uncertain = separator_.empty() || stream_ended_ ? 0 : separator_.size() - 1;
      if (ready.size() > uncertain) return take(ready.size() - uncertain);
      if (!fill() && begin_ == end_) in_document_ = false;
    }
  }
  return {};
}

std::string_view PlainReader::take(size_t size) {
  const std::string_view taken(buffer_.data() + begin_, size);
  begin_ += size;
  return taken;
}

bool PlainReader::fill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const size_t got = stream_ended_ ? 0 : stream_->read(buffer_.data() + end_, buffer_.size() - end_);
  if (got == 0) stream_ended_ = true;
  end_ += got;
  return got > 0;
}

}  // namespace pmnet
