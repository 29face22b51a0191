#include "engine/engine_state.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace pmnet {

SequenceState::SequenceState(const SequenceState& other)
    : position(other.position), recent(other.recent), attention(other.attention) {
  for (const Tensor& level : other.memory) memory.push_back(level.clone());
  for (const SsmState& layer : other.ssm) ssm.push_back({layer.conv.clone(), layer.hidden.clone()});
}

int64_t SequenceState::bytes() const {
  auto total = static_cast<int64_t>(sizeof position + recent.size() * sizeof recent[0]);
  const auto add = [&](const Tensor& x) { total += static_cast<int64_t>(x.nbytes()); };
  for (const KvWindow& window : attention) add(window.keys()), add(window.values());
  for (const Tensor& level : memory) add(level);
  for (const SsmState& layer : ssm) add(layer.conv), add(layer.hidden);
  return total;
}

int64_t state_bytes(const EngineState& state) {
  int64_t total = 0;
  for (const SequenceState& sequence : state) total += sequence.bytes();
  return total;
}

ModelState to_model_state(const EngineState& state) {
  std::vector<ModelState> rows;
  for (const SequenceState& sequence : state) {
    ModelState row;
    row.positions = at::full({1}, sequence.position, at::kLong);
    if (!sequence.recent.empty()) row.recent_codes = at::tensor(sequence.recent, at::kLong).unsqueeze(0);
    for (const KvWindow& window : sequence.attention) row.attention.push_back({window.keys(), window.values()});
    for (const Tensor& level : sequence.memory) {
      const bool turns = level.scalar_type() == at::kLong;
      row.memory.push_back(
          {turns ? ops::OptTensor(level) : std::nullopt, turns ? std::nullopt : ops::OptTensor(level)});
    }
    row.ssm = sequence.ssm;
    rows.push_back(std::move(row));
  }
  return rows.size() == 1 ? rows[0] : ModelState::stack(rows);
}

EngineState from_model_state(const ModelState& state, const SequenceState& fresh) {
  EngineState sequences;
  for (int64_t b = 0; b < state.batch(); ++b) {
    const ModelState row = state.row(b);
    SequenceState sequence = fresh;
    sequence.position = row.positions.item<int64_t>();
    for (size_t i = 0; i < sequence.recent.size(); ++i)
      sequence.recent[i] = row.recent_codes[0][static_cast<int64_t>(i)].item<int64_t>();
    for (size_t l = 0; l < row.attention.size(); ++l) {
      const auto& [keys, values] = row.attention[l];
      const int64_t kept = std::min(keys.size(1), sequence.position), padding = keys.size(1) - kept;
      sequence.attention.at(l).assign(keys.narrow(1, padding, kept), values.narrow(1, padding, kept));
    }
    for (size_t h = 0; h < row.memory.size(); ++h)
      sequence.memory.at(h) = row.memory[h].turns ? *row.memory[h].turns : *row.memory[h].angle;
    sequence.ssm = row.ssm;
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

void MemoryBackup::save(Tensor& memory, const int64_t* groups, int64_t count) {
  auto* data = memory.mutable_data_ptr<int64_t>();
  const int64_t block = memory.stride(1);  // N*M
  const auto keep = [&](int64_t* from, int64_t size) {
    saved_.push_back({from, size});
    values_.insert(values_.end(), from, from + size);
  };
  if (count >= memory.size(1)) return keep(data, memory.numel());
  for (int64_t i = 0; i < count; ++i) keep(data + groups[i] * block, block);
}

void MemoryBackup::restore() {
  auto values = values_.end();
  for (auto saved = saved_.rbegin(); saved != saved_.rend(); ++saved) {
    values -= saved->count;
    std::copy_n(values, saved->count, saved->from);
  }
  clear();
}

}  // namespace pmnet
