#include "train/sequence_loss.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/phasor_memory.h"

namespace pmnet {

namespace {

LossSum summarize(const Tensor& losses, const Tensor& targets) {
  return {losses.sum(at::kDouble).item<double>(), (targets >= 0).sum().item<int64_t>()};
}

// The part of a batch that one chunk covers.
struct Chunk {
  Tensor ids, targets;
  std::optional<Tensor> lengths;
  ModelState before;           // at its first token
  std::vector<Tensor> routes;  // per level [B,count]
};

Chunk cut(const SequenceBatch& batch, const ForwardOptions& options, int64_t begin, int64_t count) {
  Chunk chunk{batch.ids.narrow(1, begin, count), batch.targets.narrow(1, begin, count), {}, {}, {}};
  if (options.lengths) chunk.lengths = (*options.lengths - begin).clamp(0, count);
  return chunk;
}

ForwardOptions options_for(const ForwardOptions& options, const Chunk& chunk) {
  ForwardOptions here = options;
  here.lengths = chunk.lengths;
  return here;
}

LossSum one_pass(const LanguageModel& model, const SequenceBatch& batch, const LossOptions& options) {
  ModelState state = options.initial ? options.initial->detached() : model.initial_state(batch.ids.size(0));
  const bool stateful = options.initial != nullptr || options.final_state != nullptr;
  const Tensor losses = model.losses(batch.ids, batch.targets, stateful ? &state : nullptr, options.forward);
  if (options.before_last_backward) options.before_last_backward();
  torch::autograd::backward({losses.sum() * options.scale}, {});
  if (options.final_state) *options.final_state = state.detached();
  return summarize(losses.detach(), batch.targets);
}

// Forward without a graph; fills in what the backward needs to recompute each chunk.
LossSum forward_over(const LanguageModel& model, std::vector<Chunk>& chunks, std::vector<Tensor>& write_counts,
                     const LossOptions& options) {
  at::NoGradGuard no_grad;
  LossSum total;
  ModelState state = options.initial ? options.initial->detached() : model.initial_state(chunks.at(0).ids.size(0));
  for (Chunk& chunk : chunks) {
    if (options.between) options.between();
    chunk.before = state;
    Trace trace;
    const Tensor hidden = model.hidden(chunk.ids, &state, options_for(options.forward, chunk), &trace);
    const Tensor losses =
        ops::cross_entropy(hidden.flatten(0, 1), model.head_weight(), chunk.targets.flatten()).view_as(chunk.targets);
    const LossSum part = summarize(losses, chunk.targets);
    total.loss += part.loss;
    total.bytes += part.bytes;
    chunk.routes = trace.routes;
    // The gradient normalisation (Eq. 9) divides by the writes of the whole sequence, not of a chunk.
    for (size_t level = 0; level < trace.groups.size(); ++level) {
      const Tensor counts = count_writes(trace.groups[level], trace.num_groups[level]);
      if (write_counts.size() <= level)
        write_counts.push_back(counts);
      else
        write_counts[level] += counts;
    }
  }
  if (options.final_state) *options.final_state = state.detached();
  return total;
}

void backward_over(const LanguageModel& model, std::vector<Chunk>& chunks, const std::vector<Tensor>& write_counts,
                   const LossOptions& options) {
  std::vector<Tensor>
      state_gradients;  // of the state at the end of the chunk at hand; empty at the end of the sequence
  while (!chunks.empty()) {
    if (options.between) options.between();
    Chunk chunk = std::move(chunks.back());
    chunks.pop_back();
    ForwardOptions forward = options_for(options.forward, chunk);
    forward.routes = &chunk.routes;
    if (!options.count_writes_per_chunk) forward.write_counts = &write_counts;

    const ModelState before = chunk.before.detached(/*requires_grad=*/true);
    ModelState after = before;
    const Tensor losses = model.losses(chunk.ids, chunk.targets, &after, forward);
    std::vector<Tensor> roots{losses.sum() * options.scale}, gradients{Tensor()};
    const std::vector<Tensor> outputs = after.differentiable();
    for (size_t i = 0; i < state_gradients.size(); ++i) {
      if (!state_gradients[i].defined() || !outputs[i].requires_grad()) continue;
      roots.push_back(outputs[i]);
      gradients.push_back(state_gradients[i]);
    }
    if (chunks.empty() && options.before_last_backward) options.before_last_backward();
    torch::autograd::backward(roots, gradients);
    state_gradients.clear();
    for (const Tensor& leaf : before.differentiable()) state_gradients.push_back(leaf.grad());
  }
}

}  // namespace

LossSum loss_and_gradients(const LanguageModel& model, const SequenceBatch& batch, const LossOptions& options) {
  const int64_t T = batch.ids.size(1);
  if (options.chunk <= 0 || options.chunk >= T) return one_pass(model, batch, options);
  std::vector<Chunk> chunks;
  for (int64_t begin = 0; begin < T; begin += options.chunk)
    chunks.push_back(cut(batch, options.forward, begin, std::min(options.chunk, T - begin)));
  std::vector<Tensor> write_counts;
  const LossSum total = forward_over(model, chunks, write_counts, options);
  backward_over(model, chunks, write_counts, options);
  return total;
}

}  // namespace pmnet
