#include "model/state.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/held_once.h"
#include "ops/ops.h"

namespace pmnet {

namespace {

// Applies f to every tensor that is there.
template <typename F>
State map(const State& state, const F& f) {
  const auto map_optional = [&](const ops::OptTensor& x) { return x ? ops::OptTensor(f(*x)) : std::nullopt; };
  State out;
  out.positions = f(state.positions);
  for (const auto& a : state.attention) out.attention.push_back({f(a.keys), f(a.values)});
  for (const auto& m : state.memory) out.memory.push_back({map_optional(m.turns), map_optional(m.angle)});
  for (const auto& s : state.ssm) out.ssm.push_back({f(s.conv), f(s.hidden)});
  return out;
}

// The newest `count` tokens, sharing storage.
Tensor newest(const Tensor& tokens, int64_t count) { return tokens.narrow(1, tokens.size(1) - count, count); }

// Makes a tensor that nobody else holds begin `skip` tokens later and have `count`: no new tensor, which would cost as
// much as the attention to a dozen tokens.
void show(Tensor& tokens, int64_t skip, int64_t count) {
  const std::array<int64_t, 4> sizes{tokens.size(0), count, tokens.size(2), tokens.size(3)};
  const std::array<int64_t, 4> strides{tokens.stride(0), tokens.stride(1), tokens.stride(2), tokens.stride(3)};
  tokens.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, tokens.storage_offset() + skip * strides[1]);
}

}  // namespace

void append_place(Tensor& tokens, int64_t window) {
  const int64_t B = tokens.size(0), used = tokens.size(1), width = tokens.size(2) * tokens.size(3);
  const int64_t kept = window > 0 ? std::min(used, window - 1) : used;
  // A storage of our own has room for more tokens than are seen; the tokens move to a new one when they reach its end.
  const int64_t places = used > 0 && tokens.stride(1) == width ? tokens.stride(0) / width : 0;
  const int64_t first = places > 0 ? tokens.storage_offset() / width : 0;
  const bool room = held_once(tokens) && first + used < places &&
                    static_cast<int64_t>(tokens.storage().nbytes()) == B * places * width * tokens.element_size();
  if (room) return show(tokens, used - kept, kept + 1);
  const int64_t spare = window > 0 ? (window + 1) / 2 : used / 2 + 64;
  Tensor storage = at::empty({B, kept + 1 + spare, tokens.size(2), tokens.size(3)}, tokens.options());
  storage.narrow(1, 0, kept).copy_(newest(tokens, kept));
  tokens = storage.narrow(1, 0, kept + 1);
}

void forget_oldest(AttentionState& state, int64_t window) {
  if (window <= 0 || state.keys.size(1) < window) return;
  for (Tensor* tokens : {&state.keys, &state.values}) {
    if (held_once(*tokens))
      show(*tokens, tokens->size(1) - (window - 1), window - 1);
    else
      *tokens = newest(*tokens, window - 1);
  }
}

void State::visit(const std::function<void(const std::string&, Tensor&)>& visitor) {
  visitor("positions", positions);
  for (size_t l = 0; l < attention.size(); ++l) {
    visitor(fmt::format("attention.{}.keys", l), attention[l].keys);
    visitor(fmt::format("attention.{}.values", l), attention[l].values);
  }
  for (size_t h = 0; h < memory.size(); ++h) {
    if (memory[h].turns)
      visitor(fmt::format("memory.{}.turns", h), *memory[h].turns);
    else if (memory[h].angle)
      visitor(fmt::format("memory.{}.angle", h), *memory[h].angle);
  }
  for (size_t l = 0; l < ssm.size(); ++l) {
    visitor(fmt::format("ssm.{}.conv", l), ssm[l].conv);
    visitor(fmt::format("ssm.{}.hidden", l), ssm[l].hidden);
  }
}

int64_t State::bytes() const {
  int64_t total = 0;
  State copy = *this;
  copy.visit([&](const std::string&, Tensor& t) { total += static_cast<int64_t>(t.nbytes()); });
  return total;
}

std::vector<Tensor> State::differentiable() const {
  std::vector<Tensor> tensors;
  for (const auto& a : attention) tensors.insert(tensors.end(), {a.keys, a.values});
  for (const auto& m : memory)
    if (m.angle) tensors.push_back(*m.angle);
  for (const auto& s : ssm) tensors.insert(tensors.end(), {s.conv, s.hidden});
  return tensors;
}

State State::detached(bool requires_grad) const {
  State out = map(*this, [&](const Tensor& x) {
    const Tensor y = x.detach();
    return requires_grad && y.is_floating_point() ? y.clone().requires_grad_() : y;
  });
  for (auto& m : out.memory) {
    if (!m.turns) continue;
    // The angle repeats the turns: it exists only where gradients need it.
    m.angle =
        requires_grad ? ops::OptTensor(ops::to_angle(*m.turns, at::kFloat).detach().requires_grad_()) : std::nullopt;
  }
  return out;
}

State State::row(int64_t index) const {
  return map(*this, [&](const Tensor& x) { return x.narrow(0, index, 1).clone(); });
}

State State::stack(const std::vector<State>& rows) {
  const auto join = [&](const std::function<Tensor(const State&)>& get) {
    std::vector<Tensor> pieces;
    for (const State& row : rows) pieces.push_back(get(row));
    return at::cat(pieces, 0);
  };
  const auto join_padded = [&](const std::function<Tensor(const State&)>& get) {
    int64_t longest = 0;
    for (const State& row : rows) longest = std::max(longest, get(row).size(1));
    return join([&](const State& row) {
      const Tensor x = get(row);
      return at::constant_pad_nd(x, {0, 0, 0, 0, longest - x.size(1), 0});
    });
  };
  State out;
  out.positions = join([](const State& s) { return s.positions; });
  for (size_t l = 0; l < rows.at(0).attention.size(); ++l)
    out.attention.push_back({join_padded([l](const State& s) { return s.attention.at(l).keys; }),
                             join_padded([l](const State& s) { return s.attention.at(l).values; })});
  for (size_t h = 0; h < rows.at(0).memory.size(); ++h) {
    ops::Phases joined;
    if (rows[0].memory[h].turns) joined.turns = join([h](const State& s) { return *s.memory.at(h).turns; });
    if (rows[0].memory[h].angle) joined.angle = join([h](const State& s) { return *s.memory.at(h).angle; });
    out.memory.push_back(joined);
  }
  for (size_t l = 0; l < rows.at(0).ssm.size(); ++l)
    out.ssm.push_back({join([l](const State& s) { return s.ssm.at(l).conv; }),
                       join([l](const State& s) { return s.ssm.at(l).hidden; })});
  return out;
}

}  // namespace pmnet
