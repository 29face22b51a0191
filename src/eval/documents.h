// The documents of an evaluation: opened one after another, several at once, read in constant memory.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/byte_source.h"

namespace pmnet {

struct DocumentLimits {
  int64_t max_bytes = 0;  // of each document; 0: all of it
  int64_t min_bytes = 0;  // shorter documents are left out
  int64_t documents = 0;  // how many; 0: all
};

class OpenDocument {
 public:
  OpenDocument(const OpenDocument&) = delete;
  OpenDocument& operator=(const OpenDocument&) = delete;
  ~OpenDocument() { leave(); }

  const std::string& name() const { return name_; }
  // Up to `size` more bytes, fewer only at the end.
  std::string read(size_t size);
  // Whether what read() gave so far is the whole document, which a limit may have cut.
  bool complete();

 private:
  friend class DocumentQueue;
  struct Source;
  OpenDocument(std::shared_ptr<Source> source, std::string name, int64_t max_bytes);
  // Reads ahead until `size` bytes wait, or the document ends: then true.
  bool read_ahead(size_t size);
  size_t waiting() const { return ahead_.size() - ahead_begin_; }
  void leave();  // gives the file back

  std::shared_ptr<Source> source_;  // null once the document needs the file no more
  std::string name_;
  std::string ahead_;  // read, given out up to ahead_begin_
  size_t ahead_begin_ = 0;
  int64_t left_;  // until the limit
};

class DocumentQueue {
 public:
  DocumentQueue(std::vector<InputFile> files, const ReadOptions& read, const DocumentLimits& limits);

  // The next document that is long enough. Null when there is none, or none that can be opened while an earlier one of
  // the same file is being read: a long document of a file with several holds up the rest of them.
  std::shared_ptr<OpenDocument> next();

  // From now on next() opens at most so many more.
  void allow(int64_t documents) { limits_.documents = opened_ + documents; }

  // Of the input that has been read, for progress.
  double share() const;
  int64_t opened() const { return opened_; }
  int64_t too_short() const { return too_short_; }
  const SkipLog& skips() const { return skips_; }

 private:
  bool release_source();  // false: the file has more documents and cannot be left or advanced yet

  std::vector<InputFile> files_;
  ReadOptions read_;
  DocumentLimits limits_;
  SkipLog skips_;
  size_t next_file_ = 0;
  std::vector<std::shared_ptr<OpenDocument::Source>> sources_;  // one per file that was opened; the last may go on
  std::shared_ptr<OpenDocument> last_;
  int64_t opened_ = 0, too_short_ = 0;
};

}  // namespace pmnet
