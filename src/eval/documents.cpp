#include "eval/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace pmnet {

namespace {

constexpr size_t kReadAhead = size_t{4} << 20;

}  // namespace

DocumentCursor::DocumentCursor(std::shared_ptr<OpenFile> file, std::string name, int64_t max_bytes)
    : file_(std::move(file)),
      reader_(std::move(file_->reader)),
      name_(std::move(name)),
      left_(max_bytes > 0 ? max_bytes : std::numeric_limits<int64_t>::max()) {}

void DocumentCursor::return_reader() {
  if (reader_ == nullptr) return;
  piece_ = {};
  if (file_->one_document)
    file_->done = file_->weight;
  else
    file_->reader = std::move(reader_);
  reader_ = nullptr;
}

void DocumentCursor::fill(size_t size) {
  while (reader_ != nullptr && buffered() < size) {
    if (piece_.empty()) piece_ = reader_->piece();
    if (!file_->one_document || file_->file.compression != Compression::kNone)
      file_->done = file_->weight * static_cast<double>(reader_->file_position()) /
                    std::max(1.0, static_cast<double>(file_->file.stamp.size));
    if (piece_.empty()) return return_reader();
    if (begin_ > buffer_.size() / 2) {
      buffer_.erase(0, begin_);
      begin_ = 0;
    }
    const std::string_view taken = piece_.substr(0, size - buffered());
    buffer_.append(taken);
    piece_.remove_prefix(taken.size());
  }
}

void DocumentCursor::read_ahead() {
  if (file_->one_document) return;
  // One byte beyond the limit shows that the document was cut.
  fill(static_cast<size_t>(std::min<int64_t>(left_, kReadAhead)) + 1);
  if (static_cast<int64_t>(buffered()) > left_) return_reader();
}

std::string DocumentCursor::read(size_t size) {
  size = static_cast<size_t>(std::min<int64_t>(left_, static_cast<int64_t>(size)));
  fill(size);
  std::string bytes = buffer_.substr(begin_, size);
  begin_ += bytes.size();
  left_ -= static_cast<int64_t>(bytes.size());
  if (file_->one_document && file_->file.compression == Compression::kNone)
    file_->done = std::min(file_->weight, file_->done + static_cast<double>(bytes.size()));
  read_ahead();
  return bytes;
}

bool DocumentCursor::complete() {
  fill(1);
  return reader_ == nullptr && buffered() == 0;
}

bool DocumentCursor::has(int64_t bytes) {
  fill(static_cast<size_t>(bytes));
  return static_cast<int64_t>(buffered()) >= bytes;
}

DocumentQueue::DocumentQueue(std::vector<InputFile> files, const ReadOptions& read, const DocumentLimits& limits)
    : files_(std::move(files)), read_(read), limits_(limits) {}

bool DocumentQueue::is_one_document(const InputFile& file) const {
  return file.format == FileFormat::kBytes && read_.split_on.empty();
}

double DocumentQueue::weight_of(const InputFile& file) const {
  const auto size = static_cast<double>(file.stamp.size);
  const bool cut = limits_.max_bytes > 0 && is_one_document(file) && file.compression == Compression::kNone;
  return cut ? std::min(size, static_cast<double>(limits_.max_bytes)) : size;
}

bool DocumentQueue::blocked() const { return current_ != nullptr && current_->reader == nullptr; }

std::shared_ptr<OpenFile> DocumentQueue::advance() {
  while (true) {
    if (current_ == nullptr) {
      if (next_file_ == files_.size()) return nullptr;
      const InputFile& file = files_[next_file_++];
      current_ = std::make_shared<OpenFile>();
      current_->file = file;
      current_->one_document = is_one_document(file);
      current_->weight = weight_of(file);
      current_->reader = open_documents(file, read_, skips_);
      open_.push_back(current_);
    }
    const std::shared_ptr<OpenFile> file = current_;
    const bool found = file->reader->next();
    if (!found) {
      file->done = file->weight;
      file->reader = nullptr;
    }
    if (!found || file->one_document) current_ = nullptr;
    if (found) return file;
  }
}

std::optional<DocumentCursor> DocumentQueue::next() {
  while (!blocked() && (limits_.documents == 0 || opened_ < limits_.documents)) {
    const std::shared_ptr<OpenFile> file = advance();
    if (file == nullptr) break;
    const std::string name =
        file->one_document ? file->file.path : fmt::format("{}, document {}", file->file.path, file->reader->record());
    DocumentCursor document(file, name, limits_.max_bytes);
    if (limits_.min_bytes == 0 || document.has(limits_.min_bytes)) {
      ++opened_;
      document.read_ahead();
      return document;
    }
    ++too_short_;
  }
  return std::nullopt;
}

double DocumentQueue::share() const {
  double done = 0, all = 0;
  for (const auto& file : open_) {
    done += file->done;
    all += file->weight;
  }
  for (size_t i = next_file_; i < files_.size(); ++i) all += weight_of(files_[i]);
  return all > 0 ? done / all : 1;
}

}  // namespace pmnet
