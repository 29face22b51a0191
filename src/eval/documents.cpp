#include "eval/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace pmnet {

namespace {

constexpr size_t kMostReadAhead = size_t{4} << 20;

}  // namespace

// A file that is being read.
struct OpenDocument::Source {
  InputFile file;
  bool one_document = false;  // the file is one
  double weight = 0;          // of the whole input, for progress
  std::unique_ptr<DocumentReader> reader;
  std::string_view piece;  // what is left of the last piece
  bool document_ended = true, file_ended = false;
  double given = 0;  // bytes handed out

  // More of the current document; empty at its end.
  std::string_view more() {
    if (piece.empty() && !document_ended) {
      piece = reader->piece();
      document_ended = piece.empty();
    }
    return piece;
  }

  double done() const {
    if (file_ended) return weight;
    if (one_document && file.compression == Compression::None) return std::min(given, weight);
    return weight * static_cast<double>(reader->file_position()) / std::max<double>(1, file.stamp.size);
  }
};

OpenDocument::OpenDocument(std::shared_ptr<Source> source, std::string name, int64_t max_bytes)
    : source_(std::move(source)),
      name_(std::move(name)),
      left_(max_bytes > 0 ? max_bytes : std::numeric_limits<int64_t>::max()) {}

void OpenDocument::leave() {
  if (source_ != nullptr && source_->one_document) {
    source_->file_ended = true;
    source_->reader = nullptr;
  }
  source_ = nullptr;
}

bool OpenDocument::read_ahead(size_t size) {
  while (source_ != nullptr && waiting() < size) {
    const std::string_view more = source_->more();
    if (more.empty()) {
      leave();
      break;
    }
    ahead_.erase(0, ahead_begin_);
    ahead_begin_ = 0;
    const size_t take = std::min(more.size(), size - ahead_.size());
    ahead_.append(more.substr(0, take));
    source_->piece.remove_prefix(take);
  }
  return source_ == nullptr;
}

std::string OpenDocument::read(size_t size) {
  size = static_cast<size_t>(std::min<int64_t>(left_, static_cast<int64_t>(size)));
  if (source_ != nullptr) source_->given += static_cast<double>(size);
  read_ahead(size);
  std::string bytes = ahead_.substr(ahead_begin_, size);
  ahead_begin_ += bytes.size();
  left_ -= static_cast<int64_t>(bytes.size());
  return bytes;
}

bool OpenDocument::complete() {
  const bool ended = read_ahead(1);
  return ended && waiting() == 0;
}

DocumentQueue::DocumentQueue(std::vector<InputFile> files, const ReadOptions& read, const DocumentLimits& limits)
    : files_(std::move(files)), read_(read), limits_(limits) {}

bool DocumentQueue::release_source() {
  if (last_ == nullptr || last_->source_ == nullptr) return true;
  if (last_.use_count() == 1) {  // nobody reads it any more: the reader skips the rest
    last_->leave();
    return true;
  }
  if (last_->source_->one_document) return true;
  const auto wanted = std::min<int64_t>(last_->left_, kMostReadAhead);
  const bool ended = last_->read_ahead(static_cast<size_t>(wanted));
  if (!ended && wanted < last_->left_) return false;
  if (ended) return true;
  // All that is wanted of it waits in memory; one byte more tells later that it was cut.
  last_->read_ahead(static_cast<size_t>(wanted) + 1);
  last_->leave();
  return true;
}

std::shared_ptr<OpenDocument> DocumentQueue::next() {
  if (limits_.documents > 0 && opened_ >= limits_.documents) return nullptr;
  if (!release_source()) return nullptr;
  while (true) {
    const bool file_goes_on = !sources_.empty() && !sources_.back()->one_document && !sources_.back()->file_ended;
    if (!file_goes_on) {
      if (next_file_ == files_.size()) return nullptr;
      auto source = std::make_shared<OpenDocument::Source>();
      source->file = files_[next_file_++];
      source->one_document = source->file.format == FileFormat::Bytes && read_.split_on.empty();
      source->weight = static_cast<double>(source->file.stamp.size);
      if (source->one_document && limits_.max_bytes > 0 && source->file.compression == Compression::None)
        source->weight = std::min(source->weight, static_cast<double>(limits_.max_bytes));
      source->reader = open_documents(source->file, read_, skips_);
      sources_.push_back(source);
    }
    const auto& source = sources_.back();
    source->piece = {};
    if (!source->reader->next()) {
      source->file_ended = true;
      source->reader = nullptr;
      continue;
    }
    source->document_ended = false;
    const std::string name = source->one_document
                                 ? source->file.path
                                 : fmt::format("{}, document {}", source->file.path, source->reader->record());
    last_ = std::shared_ptr<OpenDocument>(new OpenDocument(source, name, limits_.max_bytes));
    if (limits_.min_bytes > 0 && last_->read_ahead(static_cast<size_t>(limits_.min_bytes)) &&
        static_cast<int64_t>(last_->waiting()) < limits_.min_bytes) {
      ++too_short_;
      last_ = nullptr;
      continue;
    }
    ++opened_;
    return last_;
  }
}

double DocumentQueue::share() const {
  double done = 0, all = 0;
  for (const auto& source : sources_) {
    done += source->done();
    all += source->weight;
  }
  for (size_t i = next_file_; i < files_.size(); ++i) {
    double size = static_cast<double>(files_[i].stamp.size);
    if (limits_.max_bytes > 0 && files_[i].format == FileFormat::Bytes && read_.split_on.empty())
      size = std::min(size, static_cast<double>(limits_.max_bytes));
    all += size;
  }
  return all > 0 ? done / all : 1;
}

}  // namespace pmnet
