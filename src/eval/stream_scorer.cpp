// Letters: B rows, T steps of the pass.
#include "eval/stream_scorer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numbers>

#include "base/error.h"
#include "engine/session.h"

namespace pmnet {

namespace {

constexpr int64_t kBytes = 256;
constexpr int64_t kMostSpecialIds = 1024;  // beside the bytes; a tokenizer's vocabulary has many more

}  // namespace

StreamScorer::StreamScorer(std::shared_ptr<const LanguageModel> model, const MemorySwitches& switches, int64_t rows)
    : model_(std::move(model)), switches_(switches) {
  arrange(std::vector<int64_t>(rows, kNewRow));
}

State StreamScorer::fresh_state(int64_t rows) const { return Session(model_, "", rows, switches_).state(); }

void StreamScorer::arrange(const std::vector<int64_t>& from) {
  bool same = static_cast<int64_t>(from.size()) == rows();
  for (int64_t row = 0; same && row < rows(); ++row) same = from[row] == row;
  if (same) return;
  std::vector<int64_t> last_ids;
  for (const int64_t row : from) last_ids.push_back(row == kNewRow ? model_->bos_token_id() : last_ids_.at(row));
  if (std::all_of(from.begin(), from.end(), [](int64_t row) { return row == kNewRow; })) {
    state_ = fresh_state(static_cast<int64_t>(from.size()));
  } else {
    std::vector<State> rows_of_state;
    for (const int64_t row : from) rows_of_state.push_back(row == kNewRow ? fresh_state(1) : state_.row(row));
    state_ = State::stack(rows_of_state);
  }
  last_ids_ = std::move(last_ids);
}

std::vector<std::vector<double>> StreamScorer::score(const std::vector<std::span<const int64_t>>& next, Trace* trace) {
  TORCH_CHECK(static_cast<int64_t>(next.size()) == rows(), "StreamScorer: ", next.size(), " rows of ids for ", rows(),
              " streams");
  const int64_t B = rows();
  size_t longest = 0;
  for (const auto& ids : next) longest = std::max(longest, ids.size());
  const auto T = static_cast<int64_t>(longest);
  std::vector<std::vector<double>> bits(B);
  if (T == 0) return bits;

  at::NoGradGuard no_grad;
  const Tensor ids = at::zeros({B, T}, at::kLong), targets = at::full({B, T}, -1, at::kLong);
  const Tensor lengths = at::empty({B}, at::kLong);
  auto id = ids.accessor<int64_t, 2>(), target = targets.accessor<int64_t, 2>();
  auto length = lengths.accessor<int64_t, 1>();
  bool padded = false;
  for (int64_t b = 0; b < B; ++b) {
    length[b] = static_cast<int64_t>(next[b].size());
    padded = padded || length[b] < T;
    for (int64_t t = 0; t < length[b]; ++t) {
      id[b][t] = t == 0 ? last_ids_[b] : next[b][t - 1];
      target[b][t] = next[b][t];
    }
    if (length[b] > 0) last_ids_[b] = next[b].back();
  }
  const at::Device device = model_->head_weight().device();
  ForwardOptions options;
  options.memory = switches_;
  if (padded) options.lengths = lengths.to(device);
  const Tensor hidden = model_->hidden(ids.to(device), &state_, options, trace);  // [B,T,d]
  const Tensor losses = ops::cross_entropy(hidden.flatten(0, 1), model_->head_weight(), targets.flatten().to(device))
                            .view({B, T})
                            .to(at::kCPU, at::kDouble);
  const auto loss = losses.accessor<double, 2>();
  for (int64_t b = 0; b < B; ++b)
    for (int64_t t = 0; t < length[b]; ++t) bits[b].push_back(loss[b][t] / std::numbers::ln2);
  return bits;
}

std::vector<double> StreamScorer::score(std::span<const int64_t> next) {
  return score(std::vector<std::span<const int64_t>>{next}).front();
}

void require_byte_vocabulary(const LanguageModel& model, const std::string& name) {
  const int64_t vocabulary = model.vocab_size();
  if (vocabulary < kBytes || vocabulary > kBytes + kMostSpecialIds)
    fail("{} has a vocabulary of {} ids, which are not bytes; expected a model whose ids 0 to 255 are the bytes", name,
         vocabulary);
  if (model.bos_token_id() < 0 || model.bos_token_id() >= vocabulary)
    fail("{} has no BOS to begin a text with: bos_token_id is {}, expected 0 to {}; set it in its config.json", name,
         model.bos_token_id(), vocabulary - 1);
}

}  // namespace pmnet
