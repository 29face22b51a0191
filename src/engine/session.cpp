#include "engine/session.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"

namespace pmnet {

Session::Session(std::shared_ptr<const Engine> engine, int64_t batch)
    : engine_(std::move(engine)), state_(engine_->initial_state(batch)) {}

void Session::set_chunk(int64_t tokens) {
  if (tokens < 1) fail("a chunk of {} tokens reads nothing; expected at least 1", tokens);
  chunk_ = tokens;
}

Tensor Session::run(const Tensor& ids, bool all_logits) {
  TORCH_CHECK(ids.dim() == 2 && ids.size(0) == batch(), "Session: ids have shape ", ids.sizes(), ", expected [",
              batch(), ", any length]");
  const int64_t T = ids.size(1), V = engine_->vocab_size();
  if (T == 0) return at::empty({batch(), 0, V}, engine_->head_weight().options());
  std::vector<Tensor> pieces;
  for (int64_t begin = 0; begin < T; begin += chunk_) {
    const int64_t count = std::min(chunk_, T - begin);
    const Tensor hidden = engine_->hidden(ids.narrow(1, begin, count), &state_);
    if (all_logits)
      pieces.push_back(engine_->logits(hidden));
    else if (begin + count == T)
      pieces.push_back(engine_->logits(hidden.narrow(1, count - 1, 1)));
  }
  const Tensor logits = pieces.size() == 1 ? pieces[0] : at::cat(pieces, 1);
  last_logits_ = logits.select(1, logits.size(1) - 1);
  if (all_logits) last_logits_ = last_logits_.clone();
  return logits;
}

Tensor Session::feed(const Tensor& ids) { return run(ids, /*all_logits=*/true); }

Tensor Session::read(const Tensor& ids) {
  run(ids, /*all_logits=*/false);
  return last_logits_;
}

Tensor Session::feed(const std::vector<int64_t>& ids) {
  return feed(at::tensor(ids, at::kLong).view({1, static_cast<int64_t>(ids.size())}));
}

Tensor Session::feed(const Tensor& ids, Trace& trace) {
  const Tensor hidden = engine_->hidden(ids, &state_, {.trace = &trace});
  if (ids.size(1) > 0) last_logits_ = engine_->logits(hidden.narrow(1, ids.size(1) - 1, 1)).select(1, 0);
  return hidden;
}

void Session::reset(int64_t row) { replace(row, engine_->initial_state(1)[0], {}); }

void Session::replace(int64_t row, const Session& other, int64_t other_row) {
  TORCH_CHECK(engine_ == other.engine_, "Session: rows can only move between sessions of one engine");
  replace(row, other.state_.at(other_row), other.last_logits_.defined() ? other.last_logits_[other_row] : Tensor());
}

void Session::replace(int64_t row, const SequenceState& sequence, const Tensor& logits) {
  state_.at(row) = sequence;
  if (!last_logits_.defined() && !logits.defined()) return;
  const Tensor zeros = at::zeros({batch(), engine_->vocab_size()}, engine_->head_weight().options());
  last_logits_ = last_logits_.defined() ? last_logits_.clone() : zeros;
  last_logits_[row].copy_(logits.defined() ? logits : zeros[0]);
}

size_t Session::keep_point() {
  points_.push_back({state_, last_logits_});
  return points_.size() - 1;
}

void Session::rewind(size_t point) {
  if (point >= points_.size())
    fail("there is no kept point {}; this session has {}, numbered from 0", point, points_.size());
  state_ = points_[point].state;
  last_logits_ = points_[point].last_logits;
  points_.resize(point + 1);
}

}  // namespace pmnet
