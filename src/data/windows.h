// Documents -> windows of context + 1 TOKENS. A window starts `context` tokens after the one before it, so that every
// token is a target once: the last id of one window is the first of the next.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/corpus.h"

namespace pmnet {

// How documents become token sequences.
struct Framing {
  int64_t bos = 254;  // -1: none
  int64_t eos = 255;  // -1: none
  int64_t pad = 0;    // stands behind the end of a short row; never a target

  uint64_t tokens(const Document& document) const { return document.bytes + (bos >= 0) + (eos >= 0); }
};

// One row of a batch to fill: context + 1 ids, and for each position whether its target (the next id) is scored.
// Not scored: prompts, BOS, padding.
struct Row {
  std::span<int64_t> ids;
  std::span<uint8_t> loss_mask;
};

// Writes tokens [first, first + count) of a document's framed sequence.
class TokenReader {
 public:
  explicit TokenReader(const Framing& framing) : framing_(framing) {}
  void read(const Shard& shard, const Document& document, uint64_t first, uint64_t count, int64_t* ids,
            uint8_t* scored);

 private:
  Framing framing_;
  std::vector<char> bytes_;
};

// The windows of one source, in an order that is a pure function of (key, number): each pass over the source ("epoch")
// is a new shuffle.
class WindowOrder {
 public:
  // packed: the epoch's shuffled documents form one stream that is cut; else no window crosses a document's end.
  WindowOrder(const DocumentSource& source, const Framing& framing, int64_t context, bool packed, bool shuffle,
              uint64_t key);

  uint64_t windows_per_epoch() const { return windows_; }
  // Fills the row with window `number` of the endless sequence; returns how many input positions are valid.
  int64_t fill(uint64_t number, Row row);

 private:
  void enter_epoch(uint64_t epoch);
  uint64_t document_at(uint64_t place) const;

  const DocumentSource& source_;
  Framing framing_;
  TokenReader tokens_;
  uint64_t context_;
  bool packed_, shuffle_;
  uint64_t key_;
  uint64_t windows_ = 0;
  uint64_t epoch_;
  // Packed: first token of each document in the epoch's stream. Else: first window of each document. One past the end
  // is the total.
  std::vector<uint64_t> starts_;
  std::vector<uint8_t> scored_;
};

// Windows that cover `tokens` tokens of one sequence: each has its own target.
uint64_t windows_in(uint64_t tokens, uint64_t context);

// Fills a row from one document; returns the valid input positions.
int64_t fill_from_document(TokenReader& reader, const Framing& framing, const DocumentSource& source,
                           const Document& document, uint64_t window, uint64_t context, std::vector<uint8_t>& scored,
                           Row row);

}  // namespace pmnet
