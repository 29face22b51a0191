// Reads documents once and scores every byte with several models side by side.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "eval/documents.h"
#include "eval/position_sums.h"
#include "eval/scorer.h"

namespace pmnet {

// How states and bits are counted.
enum class EvalProtocol {
  kCarried,  // every model carries its state through a whole document
  kAuthors,  // as the paper's scripts do it: Mamba's state is cleared every kAuthorsPass bytes, and a nat of PMNet is
             // 1 / 0.693 bits
};
template <>
inline constexpr auto kEnumNames<EvalProtocol> = std::to_array<const char*>({"carried", "authors"});
inline constexpr int64_t kAuthorsPass = 30 * 1024;

struct Candidate {
  std::string label;
  std::shared_ptr<const Engine> engine;
  int64_t limit = 0;  // bytes that it reads of each document; 0: all
};

struct EvalSettings {
  int64_t chunk = 1024;    // bytes per pass and document
  int64_t rows = 1;        // documents at once
  bool score_eos = false;  // as one more byte at the end of each whole document
  int64_t window = PositionSums::kFirstWindow;
  EvalProtocol protocol = EvalProtocol::kCarried;
};

struct DocumentScore {
  std::string name;
  int64_t bytes = 0;                 // read
  int64_t words = 0;                 // of these bytes, separated by white space
  bool complete = false;             // to its end, rather than to a limit
  std::vector<PositionSums> scores;  // one per candidate
};

struct Evaluation {
  std::vector<std::string> labels;
  std::vector<DocumentScore> documents;     // in the order of the texts
  std::vector<double> seconds;              // per candidate
  std::vector<ThroughputCurve> throughput;  // per candidate, by the position of the furthest document
  int64_t marker_bytes = 0;                 // bytes of the texts that are BOS or EOS to a candidate
  bool stopped = false;  // before the end; unfinished documents are included as far as they were read

  int64_t bytes() const;
  int64_t words() const;
  int64_t scored(size_t candidate) const;
  // Perplexity per word, as PG-19 is reported: exp of the nats per byte times the bytes per word of the texts.
  double word_perplexity(size_t candidate) const;
};

struct EvalHooks {
  std::function<void(int64_t bytes, size_t documents)> progress;  // read so far, ended so far
  std::function<bool()> stop;                                     // asked between passes
};

Evaluation evaluate(const std::vector<Candidate>& candidates, DocumentQueue& queue, const EvalSettings& settings,
                    const EvalHooks& hooks = {});

// UserError when there was nothing to score, or fewer documents than asked for.
void require_documents(const Evaluation& evaluation, const DocumentQueue& queue, const DocumentLimits& limits);

// Documents to read at once so that this many threads have work: one document in short passes leaves many idle.
int64_t rows_for_threads(int threads);

}  // namespace pmnet
