// The documents of an evaluation, opened one after another and read several at once in bounded memory.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/byte_source.h"

namespace pmnet {

struct DocumentLimits {
  int64_t max_bytes = 0;  // of each document; 0: all of it
  int64_t min_bytes = 0;  // shorter documents are left out
  int64_t documents = 0;  // how many; 0: all
};

// A file whose documents are handed out. Its reader is here, or owned by the cursor that reads the current document.
struct OpenFile {
  InputFile file;
  bool one_document = false;  // the file is one document, so its reader never comes back
  double weight = 0;          // bytes of this file that count for progress
  double done = 0;            // of those
  std::unique_ptr<DocumentReader> reader;
};

// Reads one document. While more of it is on file the cursor owns the reader of the file; a document of a file with
// several is read ahead, so that the reader is free for the next document as early as possible. Must not outlive its
// queue.
class DocumentCursor {
 public:
  DocumentCursor(std::shared_ptr<OpenFile> file, std::string name, int64_t max_bytes);  // takes file->reader
  DocumentCursor(DocumentCursor&&) noexcept = default;
  DocumentCursor& operator=(DocumentCursor&&) = delete;
  ~DocumentCursor() { return_reader(); }

  const std::string& name() const { return name_; }
  // Up to `size` more bytes, fewer only at the end.
  std::string read(size_t size);
  // Whether read() has returned the whole document, which max_bytes may have cut.
  bool complete();
  // Whether the document has this many bytes ahead, whatever max_bytes allows.
  bool has(int64_t bytes);
  // Buffers some MB of a document of a file with several; when that is all of it, the reader is free for the next one.
  void read_ahead();

 private:
  void fill(size_t size);  // until so many bytes are buffered or the document ends
  void return_reader();
  size_t buffered() const { return buffer_.size() - begin_; }

  std::shared_ptr<OpenFile> file_;
  std::unique_ptr<DocumentReader> reader_;  // null once nothing more is needed from the file
  std::string name_;
  std::string_view piece_;  // the reader's, not yet buffered
  std::string buffer_;      // returned by read() up to begin_
  size_t begin_ = 0;
  int64_t left_;  // bytes until max_bytes
};

class DocumentQueue {
 public:
  DocumentQueue(std::vector<InputFile> files, const ReadOptions& read, const DocumentLimits& limits);

  // The next document that is long enough; empty at the end, and while blocked().
  std::optional<DocumentCursor> next();
  // Whether the next document is behind a long one of the same file that is still being read.
  bool blocked() const;

  // From now on next() opens at most so many more.
  void allow(int64_t documents) { limits_.documents = opened_ + documents; }

  // Fraction of the input that has been read, for progress.
  double share() const;
  int64_t opened() const { return opened_; }
  int64_t too_short() const { return too_short_; }
  const SkipLog& skips() const { return skips_; }

 private:
  double weight_of(const InputFile& file) const;
  bool is_one_document(const InputFile& file) const;
  // The file with the next document, its reader at that document; null at the end.
  std::shared_ptr<OpenFile> advance();

  std::vector<InputFile> files_;
  ReadOptions read_;
  DocumentLimits limits_;
  SkipLog skips_;
  size_t next_file_ = 0;
  std::vector<std::shared_ptr<OpenFile>> open_;  // every file opened so far, for progress
  std::shared_ptr<OpenFile> current_;            // a file with several documents that has not ended
  int64_t opened_ = 0, too_short_ = 0;
};

}  // namespace pmnet
