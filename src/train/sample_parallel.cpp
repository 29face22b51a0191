#include "train/sample_parallel.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "model/tensors.h"

#ifndef INTRA_OP_PARALLEL
#error "at::parallel_for is serial in this file: compile it with -fopenmp"
#endif

namespace pmnet {

namespace {

// A larger model's products are wide enough for all threads, and every part needs its own gradients.
constexpr int64_t kMaxReplicated = int64_t{8} << 20;
// Of a pass: it costs a millisecond whatever its size, and when it is longer its activations leave the caches.
constexpr int64_t kPassTokens = 2048;
// More parts than threads, so that a thread that lost its core to another program holds up the others for less.
constexpr int64_t kPartsPerThread = 4;

ModelState rows_of(const ModelState& state, int64_t first, int64_t count) {
  std::vector<ModelState> rows;
  for (int64_t row = first; row < first + count; ++row) rows.push_back(state.row(row));
  return ModelState::stack(rows);
}

// The rows of one forward and backward pass with everything that belongs to them.
struct Pass {
  SequenceBatch batch;
  LossOptions options;
  ModelState before, after;
  LossSum sum;

  Pass(const SequenceBatch& whole, const LossOptions& all, int64_t first, int64_t rows)
      : batch{whole.ids.narrow(0, first, rows), whole.targets.narrow(0, first, rows)}, options(all) {
    if (all.forward.lengths) options.forward.lengths = all.forward.lengths->narrow(0, first, rows);
    const std::vector<int64_t>& samples = all.forward.dropout.samples;
    options.forward.dropout.samples.clear();
    for (int64_t row = first; row < first + rows; ++row)
      options.forward.dropout.samples.push_back(samples.empty() ? row : samples.at(row));
    if (all.initial) before = rows_of(*all.initial, first, rows);
    options.before_last_backward = nullptr;
  }

  void run(const LanguageModel& model) {
    if (options.initial) options.initial = &before;
    if (options.final_state) options.final_state = &after;
    sum = loss_and_gradients(model, batch, options);
    batch = {};  // its activations are gone already
  }
};

}  // namespace

int64_t sample_parts(int64_t rows, int64_t context, int64_t parameters, int64_t threads) {
  if (threads == 1 || rows < threads || parameters > kMaxReplicated) return 1;
  const int64_t most = std::min(rows, kPartsPerThread * threads);
  return std::clamp(rows * context / kPassTokens, threads, most);
}

SampleParallel::SampleParallel(LanguageModel& model) : model_(model) {
  for (const auto& [name, parameter] : model.named_parameters()) {
    parameters_.push_back(parameter);
    if (!is_ngram_table(name)) num_multiplied_ += parameter.numel();  // tables are looked up, not multiplied
  }
}

LossSum SampleParallel::loss_and_gradients(const SequenceBatch& batch, const LossOptions& options) {
  const int64_t rows = batch.ids.size(0);
  const int64_t count =
      at::in_parallel_region() ? 1 : sample_parts(rows, batch.ids.size(1), num_multiplied_, at::get_num_threads());
  if (count == 1) return pmnet::loss_and_gradients(model_, batch, options);

  make_replicas(count);
  std::mutex between;
  LossOptions shared = options;
  if (options.between) {
    shared.between = [&] {
      const std::lock_guard lock(between);
      options.between();
    };
  }
  const int64_t num_passes = std::clamp(batch.ids.numel() / kPassTokens, count, rows);
  std::vector<Pass> passes;
  for (int64_t i = 0; i < num_passes; ++i)
    passes.emplace_back(batch, shared, rows * i / num_passes, rows * (i + 1) / num_passes - rows * i / num_passes);

  const at::ThreadLocalState state;
  const ops::Implementation implementation = ops::current_implementation();
  std::atomic<int64_t> next = 0;
  // Inside a parallel region every operation runs on the thread that calls it.
  at::parallel_for(0, at::get_num_threads(), /*grain_size=*/1, [&](int64_t, int64_t) {
    const at::ThreadLocalStateGuard state_guard(state);
    const ops::ImplementationGuard implementation_guard(implementation);
    for (int64_t i = next++; i < count; i = next++) {
      share_weights(replicas_[i]);
      for (int64_t pass = num_passes * i / count; pass < num_passes * (i + 1) / count; ++pass)
        passes[pass].run(*replicas_[i].model);
    }
  });

  add_gradients(count);
  LossSum total;
  std::vector<ModelState> after;
  for (Pass& pass : passes) {
    total.loss += pass.sum.loss;
    total.bytes += pass.sum.bytes;
    after.push_back(std::move(pass.after));
  }
  if (options.final_state) *options.final_state = ModelState::stack(after);
  return total;
}

void SampleParallel::make_replicas(size_t count) {
  while (replicas_.size() < count) {
    Replica& replica = replicas_.emplace_back();
    replica.model = make_model(model_.model_config(), parameters_.at(0).scalar_type());
    replica.model->visit([&](const std::string&, Tensor& parameter) { replica.parameters.push_back(&parameter); });
  }
}

// Before every pass, so that a replica follows the model wherever its weights have gone and starts without gradients.
void SampleParallel::share_weights(Replica& replica) const {
  for (size_t i = 0; i < parameters_.size(); ++i)
    *replica.parameters[i] = parameters_[i].detach().requires_grad_(parameters_[i].requires_grad());
}

// In the order of the parts, whichever thread was done first.
void SampleParallel::add_gradients(size_t count) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    for (size_t r = 0; r < count; ++r) {
      const Tensor& part = replicas_[r].parameters[i]->grad();
      if (!part.defined()) continue;
      Tensor& sum = parameters_[i].mutable_grad();
      if (sum.defined())
        sum.add_(part);
      else
        sum = part;
      replicas_[r].parameters[i]->mutable_grad() = Tensor();
    }
  }
}

}  // namespace pmnet
