#include "data/windows.h"

#include <algorithm>
#include <limits>

#include "base/hash.h"
#include "data/permutation.h"

namespace pmnet {

uint64_t windows_in(uint64_t tokens, uint64_t context) {
  return tokens <= 1 ? 1 : (tokens - 1 + context - 1) / context;
}

void TokenReader::read(const Shard& shard, const Document& document, uint64_t first, uint64_t count, int64_t* ids,
                       uint8_t* scored) {
  if (count > 0 && first == 0 && framing_.bos >= 0) {
    *ids++ = framing_.bos;
    *scored++ = 0;
    ++first;
    --count;
  }
  const uint64_t first_byte = first - (framing_.bos >= 0 ? 1 : 0);
  const uint64_t size = first_byte < document.bytes ? std::min(count, document.bytes - first_byte) : 0;
  bytes_.resize(size);
  if (size > 0) shard.read(document.offset + first_byte, bytes_.data(), size);
  for (uint64_t i = 0; i < size; ++i) {
    ids[i] = static_cast<unsigned char>(bytes_[i]);
    scored[i] = first_byte + i >= document.prompt_bytes;
  }
  if (size < count) {
    ids[size] = framing_.eos;
    scored[size] = 1;
  }
}

namespace {

// Turns what is known of each token into the mask of its predecessor, and pads. Returns the valid input positions.
int64_t finish_row(const Framing& framing, const std::vector<uint8_t>& scored, uint64_t count, Row row) {
  const uint64_t context = row.loss_mask.size();
  std::fill(row.ids.begin() + count, row.ids.end(), framing.pad);
  for (uint64_t t = 0; t < context; ++t) row.loss_mask[t] = t + 1 < count ? scored[t + 1] : 0;
  return count > 0 ? static_cast<int64_t>(count) - 1 : 0;
}

}  // namespace

int64_t fill_from_document(TokenReader& reader, const Framing& framing, const DocumentSource& source,
                           const Document& document, uint64_t window, uint64_t context, std::vector<uint8_t>& scored,
                           Row row) {
  scored.resize(context + 1);
  const uint64_t first = window * context;
  const uint64_t count = std::min(context + 1, framing.tokens(document) - first);
  reader.read(*source.shard, document, first, count, row.ids.data(), scored.data());
  return finish_row(framing, scored, count, row);
}

WindowOrder::WindowOrder(const DocumentSource& source, const Framing& framing, int64_t context, bool packed,
                         bool shuffle, uint64_t key)
    : source_(source),
      framing_(framing),
      tokens_(framing),
      context_(static_cast<uint64_t>(context)),
      packed_(packed),
      shuffle_(shuffle),
      key_(key),
      epoch_(std::numeric_limits<uint64_t>::max()),
      starts_(source.documents.size() + 1),
      scored_(context_ + 1) {
  enter_epoch(0);
  windows_ = packed_ ? windows_in(starts_.back(), context_) : starts_.back();
}

uint64_t WindowOrder::document_at(uint64_t place) const {
  // Whether documents are cut singly or not, windows are shuffled below: only a stream depends on their neighbours.
  if (!shuffle_ || !packed_) return place;
  return Permutation(source_.documents.size(), splitmix64(key_, 2 * epoch_))(place);
}

void WindowOrder::enter_epoch(uint64_t epoch) {
  const bool order_depends_on_epoch = packed_ && shuffle_;
  const bool first_time = epoch_ == std::numeric_limits<uint64_t>::max();
  if (epoch == epoch_) return;
  epoch_ = epoch;
  if (!first_time && !order_depends_on_epoch) return;
  uint64_t sum = 0;
  for (size_t place = 0; place < source_.documents.size(); ++place) {
    starts_[place] = sum;
    const uint64_t tokens = framing_.tokens(source_.documents[document_at(place)]);
    sum += packed_ ? tokens : windows_in(tokens, context_);
  }
  starts_.back() = sum;
}

int64_t WindowOrder::fill(uint64_t number, Row row) {
  enter_epoch(number / windows_);
  const uint64_t in_epoch = number % windows_;
  const uint64_t window = shuffle_ ? Permutation(windows_, splitmix64(key_, 2 * epoch_ + 1))(in_epoch) : in_epoch;
  uint64_t at = packed_ ? window * context_ : window;
  size_t place = std::upper_bound(starts_.begin(), starts_.end() - 1, at) - starts_.begin() - 1;
  if (!packed_)
    return fill_from_document(tokens_, framing_, source_, source_.documents[place], at - starts_[place], context_,
                              scored_, row);
  uint64_t count = 0;
  for (; count < context_ + 1 && place < source_.documents.size(); ++place) {
    const Document& document = source_.documents[document_at(place)];
    const uint64_t first = at - starts_[place];
    const uint64_t size = std::min(context_ + 1 - count, framing_.tokens(document) - first);
    tokens_.read(*source_.shard, document, first, size, row.ids.data() + count, scored_.data() + count);
    count += size;
    at += size;
  }
  return finish_row(framing_, scored_, count, row);
}

}  // namespace pmnet
