#include "engine/session.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"

namespace pmnet {

Session::Session(std::shared_ptr<const LanguageModel> model, std::string model_hash, int64_t batch,
                 const MemorySwitches& switches)
    : model_(std::move(model)),
      model_hash_(std::move(model_hash)),
      switches_(switches),
      head_(ops::pack_weight({model_->head_weight()})),
      state_(model_->initial_state(batch)) {
  if (!switches_.unconstrained) return;
  for (ops::Phases& level : state_.memory) {  // sums without wrapping are angles
    const auto sizes = level.turns ? level.turns->sizes() : level.angle->sizes();
    level = {.turns = std::nullopt, .angle = at::zeros(sizes, model_->head_weight().options())};
  }
}

Tensor Session::run(const Tensor& ids, bool all_logits) {
  at::NoGradGuard no_grad;
  TORCH_CHECK(ids.dim() == 2 && ids.size(0) == batch(), "Session: ids have shape ", ids.sizes(), ", expected [",
              batch(), ", any length]");
  const int64_t T = ids.size(1);
  const Tensor here = ids.cpu().contiguous();
  const auto* first = here.const_data_ptr<int64_t>();
  if (std::any_of(first, first + here.numel(), [&](int64_t id) { return id < 0 || id >= model_->vocab_size(); }))
    fail("an id is outside the model's vocabulary of {}", model_->vocab_size());
  ForwardOptions options;
  options.memory = switches_;
  std::vector<Tensor> pieces;
  for (int64_t begin = 0; begin < T; begin += chunk) {
    const int64_t count = std::min(chunk, T - begin);
    const Tensor hidden = model_->hidden(ids.narrow(1, begin, count), &state_, options, nullptr);
    const Tensor wanted = all_logits || count == 1 ? hidden : hidden.narrow(1, count - 1, 1);
    if (all_logits || begin + count == T) pieces.push_back(ops::packed_linear(wanted, head_, std::nullopt));
  }
  if (pieces.empty()) return at::empty({batch(), 0, model_->vocab_size()}, model_->head_weight().options());
  const Tensor logits = pieces.size() == 1 ? pieces[0] : at::cat(pieces, 1);
  const Tensor last = logits.select(1, logits.size(1) - 1);
  last_logits_ = all_logits ? last.clone() : last;
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

int64_t Session::position(int64_t row) const { return state_.positions[row].item<int64_t>(); }

void Session::reset(int64_t row) { replace(row, Session(model_, model_hash_, 1, switches_), 0); }

void Session::replace(int64_t row, const Session& other, int64_t other_row) {
  TORCH_CHECK(model_ == other.model_, "Session: rows can only move between sessions of one model");
  std::vector<State> rows;
  for (int64_t b = 0; b < batch(); ++b) rows.push_back(b == row ? other.state_.row(other_row) : state_.row(b));
  state_ = State::stack(rows);
  if (!last_logits_.defined() && !other.last_logits_.defined()) return;
  const auto zeros = at::zeros({batch(), model_->vocab_size()}, model_->head_weight().options());
  last_logits_ = last_logits_.defined() ? last_logits_.clone() : zeros;
  last_logits_[row].copy_(other.last_logits_.defined() ? other.last_logits_[other_row] : zeros[0]);
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
