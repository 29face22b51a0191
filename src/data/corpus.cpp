#include "data/corpus.h"

#include <fnmatch.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/hash.h"
#include "data/permutation.h"

namespace pmnet {
namespace {

// Any fixed number: it separates the choice of held-out documents from every other use of the hashes.
constexpr uint64_t kSplitSalt = 0x68656c646f757421u;
// Below this many expected held-out documents, Auto takes tails instead.
constexpr double kEnoughHeldOutDocuments = 20;

void check(const CorpusSpec& spec) {
  if (spec.sources.empty()) fail("no data was named; expected at least one file, folder or glob");
  for (const SourceSpec& source : spec.sources)
    if (!std::isfinite(source.weight) || source.weight <= 0)
      fail("the weight of '{}' is {}, expected a number above 0", source.inputs.empty() ? "" : source.inputs.front(),
           source.weight);
  const HoldOut& hold_out = spec.hold_out;
  if (hold_out.by == HoldOut::By::kPath && hold_out.patterns.empty())
    fail("holding out by path needs at least one pattern, such as 'books/*'");
  if (hold_out.by != HoldOut::By::kNone && hold_out.by != HoldOut::By::kPath &&
      !(hold_out.fraction > 0 && hold_out.fraction < 1))
    fail("the held-out fraction is {}, expected a number between 0 and 1", hold_out.fraction);
}

bool matches_any(const std::string& path, const std::vector<std::string>& patterns) {
  const std::string name = std::filesystem::path(path).filename().string();
  for (const std::string& pattern : patterns)
    if (::fnmatch(pattern.c_str(), path.c_str(), 0) == 0 || ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0)
      return true;
  return false;
}

// Moves a cut forward past the continuation bytes of a character.
uint64_t character_boundary(const Shard& shard, uint64_t offset, uint64_t cut, uint64_t bytes) {
  char next[4];
  const size_t size = std::min<uint64_t>(sizeof(next), bytes - cut);
  shard.read(offset + cut, next, size);
  for (size_t i = 0; i < size && i < 3; ++i)
    if ((static_cast<unsigned char>(next[i]) & 0xC0) != 0x80) return cut + i;
  return cut;
}

struct Divider {
  const HoldOut& hold_out;
  HoldOut::By by;
  const Shard& shard;
  std::vector<bool> path_held_out;
  DocumentSource& train;
  DocumentSource& held_out;

  void operator()(const ShardEntry& entry, uint64_t offset) {
    const Document whole{offset, entry.bytes, entry.prompt_bytes};
    if (whole.bytes == 0) return;
    if (by == HoldOut::By::kTail) {
      divide_tail(whole);
    } else if (by == HoldOut::By::kHash) {
      const double place = static_cast<double>(splitmix64(entry.hash, kSplitSalt) >> 11) * 0x1p-53;
      (place < hold_out.fraction ? held_out : train).documents.push_back(whole);
    } else {
      (by == HoldOut::By::kPath && path_held_out[entry.path] ? held_out : train).documents.push_back(whole);
    }
  }

  void divide_tail(const Document& whole) {
    const auto tail = static_cast<uint64_t>(static_cast<double>(whole.bytes) * hold_out.fraction);
    const uint64_t cut =
        tail == 0 ? whole.bytes : character_boundary(shard, whole.offset, whole.bytes - tail, whole.bytes);
    const uint64_t prompt_before = std::min(whole.prompt_bytes, cut);
    if (cut > 0) train.documents.push_back({whole.offset, cut, prompt_before});
    if (cut < whole.bytes)
      held_out.documents.push_back({whole.offset + cut, whole.bytes - cut, whole.prompt_bytes - prompt_before});
  }
};

HoldOut::By resolve(const HoldOut& hold_out, uint64_t documents) {
  if (hold_out.by != HoldOut::By::kAuto) return hold_out.by;
  return static_cast<double>(documents) * hold_out.fraction >= kEnoughHeldOutDocuments ? HoldOut::By::kHash
                                                                                       : HoldOut::By::kTail;
}

void add_source(DocumentSet& set, DocumentSource&& source) {
  if (source.documents.empty()) return;
  source.documents.shrink_to_fit();
  uint64_t hash = splitmix64(set.fingerprint, source.shard->content_hash());
  hash = splitmix64(hash, std::hash<double>{}(source.weight));
  for (const Document& document : source.documents)
    hash = splitmix64(hash, splitmix64(document.offset, document.bytes));
  set.fingerprint = hash;
  set.sources.push_back(std::move(source));
}

}  // namespace

uint64_t DocumentSet::documents() const {
  uint64_t sum = 0;
  for (const DocumentSource& source : sources) sum += source.documents.size();
  return sum;
}

uint64_t DocumentSet::bytes() const {
  uint64_t sum = 0;
  for (const DocumentSource& source : sources)
    for (const Document& document : source.documents) sum += document.bytes;
  return sum;
}

Corpus open_corpus(const CorpusSpec& spec, const PackCallback& progress) {
  check(spec);
  Corpus corpus;
  std::vector<std::shared_ptr<const Shard>> shards;
  uint64_t documents = 0;
  for (const SourceSpec& source : spec.sources) {
    corpus.packed.push_back(cached_shard(
        source.inputs, spec.read, spec.cache_folder.empty() ? default_cache_folder() : spec.cache_folder, progress));
    shards.push_back(std::make_shared<const Shard>(corpus.packed.back().shard));
    documents += shards.back()->documents();
  }
  const HoldOut::By by = resolve(spec.hold_out, documents);
  for (size_t i = 0; i < shards.size(); ++i) {
    const Shard& shard = *shards[i];
    DocumentSource train{shards[i], {}, spec.sources[i].weight}, held_out{shards[i], {}, spec.sources[i].weight};
    Divider divide{spec.hold_out, by, shard, {}, train, held_out};
    for (const std::string& origin : shard.origins())
      divide.path_held_out.push_back(matches_any(origin, spec.hold_out.patterns));
    shard.for_each([&](const ShardEntry& entry, uint64_t offset) {
      corpus.documents_with_marker_bytes += (entry.flags & ShardEntry::kHoldsMarkerBytes) != 0;
      divide(entry, offset);
    });
    add_source(corpus.train, std::move(train));
    add_source(corpus.held_out, std::move(held_out));
  }
  if (corpus.train.sources.empty())
    fail("nothing is left to train on: all {} documents are held out; hold out fewer", documents);
  if (by != HoldOut::By::kNone && corpus.held_out.sources.empty())
    fail(
        "nothing was held out of {} documents; raise data.hold_out_fraction, change data.hold_out_patterns, name other "
        "text with --validation, or hold out nothing with --hold-out none",
        documents);
  return corpus;
}

}  // namespace pmnet
