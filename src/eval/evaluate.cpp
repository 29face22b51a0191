#include "eval/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/machine.h"

namespace pmnet {

namespace {

constexpr double kAuthorsLn2 = 0.693;

struct Row {
  size_t number = 0;  // in the order of the texts
  std::unique_ptr<DocumentCursor> document;
  DocumentScore score;
  std::string chunk;
  bool ended = false;
  bool in_word = false;  // the chunk before ended inside a word
};

class EvaluationLoop {
 public:
  EvaluationLoop(const std::vector<Candidate>& candidates, DocumentQueue& queue, const EvalSettings& settings,
                 const EvalHooks& hooks)
      : candidates_(candidates), queue_(queue), settings_(settings), hooks_(hooks) {
    for (const Candidate& candidate : candidates_) {
      scorers_.emplace_back(candidate.engine, 0);
      result_.labels.push_back(candidate.label);
      result_.seconds.push_back(0);
      result_.throughput.emplace_back(settings_.chunk);
      for (const int64_t id : {candidate.engine->bos_token_id(), candidate.engine->eos_token_id()})
        if (id >= 0 && id < static_cast<int64_t>(is_marker_.size())) is_marker_[id] = true;
    }
  }

  Evaluation run() {
    while (fill_rows()) {
      if (hooks_.stop && hooks_.stop()) {
        result_.stopped = true;
        break;
      }
      for (Row& row : rows_) read_chunk(row);
      for (size_t c = 0; c < candidates_.size(); ++c) score_with(c);
      for (Row& row : rows_) row.score.bytes += static_cast<int64_t>(row.chunk.size());
      if (hooks_.progress) hooks_.progress(bytes_, finished_.size());
    }
    for (Row& row : rows_)
      if (row.score.bytes > 0) finished_.push_back(std::move(row));
    std::sort(finished_.begin(), finished_.end(), [](const Row& a, const Row& b) { return a.number < b.number; });
    for (Row& row : finished_) result_.documents.push_back(std::move(row.score));
    return std::move(result_);
  }

 private:
  // Documents that have ended make room for the next ones; false when all are read.
  bool fill_rows() {
    std::vector<int64_t> from;
    std::vector<Row> kept;
    for (size_t r = 0; r < rows_.size(); ++r) {
      if (rows_[r].ended) {
        rows_[r].document.reset();
        finished_.push_back(std::move(rows_[r]));
      } else {
        from.push_back(static_cast<int64_t>(r));
        kept.push_back(std::move(rows_[r]));
      }
    }
    rows_ = std::move(kept);
    while (static_cast<int64_t>(rows_.size()) < settings_.rows) {
      std::optional<DocumentCursor> document = queue_.next();
      if (!document) break;
      Row row;
      row.number = opened_++;
      row.score.name = document->name();
      row.score.scores.assign(candidates_.size(), PositionSums(settings_.window));
      row.document = std::make_unique<DocumentCursor>(std::move(*document));
      rows_.push_back(std::move(row));
      from.push_back(Scorer::kNewRow);
    }
    if (rows_.empty()) return false;
    for (Scorer& scorer : scorers_) scorer.arrange(from);
    return true;
  }

  void read_chunk(Row& row) {
    row.chunk = row.document->read(static_cast<size_t>(settings_.chunk));
    bytes_ += static_cast<int64_t>(row.chunk.size());
    row.ended = static_cast<int64_t>(row.chunk.size()) < settings_.chunk;
    for (const unsigned char byte : row.chunk) {
      result_.marker_bytes += is_marker_[byte] ? 1 : 0;
      const bool blank = byte == ' ' || (byte >= '\t' && byte <= '\r');
      row.score.words += !blank && !row.in_word ? 1 : 0;
      row.in_word = !blank;
    }
    if (row.ended) row.score.complete = row.document->complete();
  }

  // The ids of the row's chunk that this candidate is to score.
  std::vector<int64_t> ids_for(const Row& row, const Candidate& candidate) const {
    std::string_view bytes = row.chunk;
    bool to_the_end = row.ended && row.score.complete;
    if (candidate.limit > 0) {
      const int64_t left = std::max<int64_t>(0, candidate.limit - row.score.bytes);
      to_the_end = to_the_end && static_cast<int64_t>(bytes.size()) < left;
      bytes = bytes.substr(0, static_cast<size_t>(left));
    }
    std::vector<int64_t> ids = byte_ids(bytes);
    if (settings_.score_eos && to_the_end) ids.push_back(candidate.engine->eos_token_id());
    return ids;
  }

  void score_with(size_t c) {
    std::vector<std::vector<int64_t>> ids;
    ThroughputPoint pass;
    for (const Row& row : rows_) {
      ids.push_back(ids_for(row, candidates_[c]));
      pass.bytes += static_cast<int64_t>(ids.back().size());
      if (!ids.back().empty()) pass.first = std::max(pass.first, row.score.bytes);
    }
    if (pass.bytes == 0) return;
    clear_states(c);
    const double begin = steady_seconds();
    auto bits = scorers_[c].score(std::vector<std::span<const int64_t>>(ids.begin(), ids.end()));
    pass.seconds = steady_seconds() - begin;
    pass.fastest = pass.seconds / static_cast<double>(pass.bytes);
    result_.seconds[c] += pass.seconds;
    for (size_t r = 0; r < rows_.size(); ++r) {
      if (counts_authors_bits(c))
        for (double& value : bits[r]) value *= std::numbers::ln2 / kAuthorsLn2;
      rows_[r].score.scores[c].add(bits[r]);
    }
    pass.state_bytes = state_bytes(scorers_[c].state());
    pass.resident_bytes = resident_bytes();
    result_.throughput[c].add(pass);
  }

  bool counts_authors_bits(size_t c) const {
    return settings_.protocol == EvalProtocol::kAuthors && candidates_[c].engine->pmnet_config() != nullptr;
  }

  // Of the authors' protocol: a Mamba starts anew at every multiple of their pass, with the byte before as its input.
  void clear_states(size_t c) {
    if (settings_.protocol != EvalProtocol::kAuthors) return;
    if (!std::holds_alternative<MambaConfig>(candidates_[c].engine->config())) return;
    for (size_t r = 0; r < rows_.size(); ++r)
      if (rows_[r].score.bytes % kAuthorsPass == 0) scorers_[c].clear_state(static_cast<int64_t>(r));
  }

  const std::vector<Candidate>& candidates_;
  DocumentQueue& queue_;
  EvalSettings settings_;
  const EvalHooks& hooks_;
  std::vector<Scorer> scorers_;  // one per candidate
  std::vector<Row> rows_, finished_;
  std::array<bool, 256> is_marker_{};
  size_t opened_ = 0;
  int64_t bytes_ = 0;
  Evaluation result_;
};

}  // namespace

int64_t Evaluation::bytes() const {
  int64_t sum = 0;
  for (const DocumentScore& document : documents) sum += document.bytes;
  return sum;
}

int64_t Evaluation::words() const {
  int64_t sum = 0;
  for (const DocumentScore& document : documents) sum += document.words;
  return sum;
}

double Evaluation::word_perplexity(size_t candidate) const {
  double bits = 0;
  for (const DocumentScore& document : documents) bits += document.scores.at(candidate).bits();
  const double bits_per_byte = bits / static_cast<double>(scored(candidate));
  return std::exp2(bits_per_byte * static_cast<double>(bytes()) / static_cast<double>(words()));
}

int64_t Evaluation::scored(size_t candidate) const {
  int64_t sum = 0;
  for (const DocumentScore& document : documents) sum += document.scores.at(candidate).count();
  return sum;
}

Evaluation evaluate(const std::vector<Candidate>& candidates, DocumentQueue& queue, const EvalSettings& settings,
                    const EvalHooks& hooks) {
  if (settings.chunk < 1 || settings.rows < 1 || settings.window < 1)
    fail("chunk is {}, rows {} and window {}; expected numbers above 0", settings.chunk, settings.rows,
         settings.window);
  if (settings.protocol == EvalProtocol::kAuthors && kAuthorsPass % settings.chunk != 0)
    fail("chunk is {}; the authors' protocol needs a divisor of {}, such as 1024", settings.chunk, kAuthorsPass);
  for (const Candidate& candidate : candidates) {
    require_byte_vocabulary(*candidate.engine, candidate.label);
    const int64_t eos = candidate.engine->eos_token_id();
    if (settings.score_eos && (eos < 0 || eos >= candidate.engine->vocab_size()))
      fail("{} has no EOS to score: eos_token_id is {}; omit --score-eos", candidate.label, eos);
  }
  return EvaluationLoop(candidates, queue, settings, hooks).run();
}

void require_documents(const Evaluation& evaluation, const DocumentQueue& queue, const DocumentLimits& limits) {
  if (evaluation.stopped) return;
  const auto found = static_cast<int64_t>(evaluation.documents.size());
  const std::string shorter =
      queue.too_short() > 0
          ? fmt::format(" ({} are shorter than --min-bytes {})", format_count(static_cast<uint64_t>(queue.too_short())),
                        format_count(static_cast<uint64_t>(limits.min_bytes)))
          : "";
  if (found == 0) fail("there is nothing to score: no document has any text{}; name other texts", shorter);
  if (found < limits.documents)
    fail("--documents is {} but there are only {}{}; ask for fewer or name more texts", limits.documents, found,
         shorter);
}

int64_t rows_for_threads(int threads) { return std::clamp<int64_t>(threads / 2, 1, 16); }

}  // namespace pmnet
