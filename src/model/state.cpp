#include "model/state.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "ops/ops.h"

namespace pmnet {

namespace {

// Applies f to every tensor that is there.
template <typename F>
ModelState map(const ModelState& state, const F& f) {
  const auto map_optional = [&](const ops::OptTensor& x) { return x ? ops::OptTensor(f(*x)) : std::nullopt; };
  ModelState out;
  out.positions = f(state.positions);
  if (state.recent_codes.defined()) out.recent_codes = f(state.recent_codes);
  for (const auto& a : state.attention) out.attention.push_back({f(a.keys), f(a.values)});
  for (const auto& m : state.memory) out.memory.push_back({map_optional(m.turns), map_optional(m.angle)});
  for (const auto& s : state.ssm) out.ssm.push_back({f(s.conv), f(s.hidden)});
  return out;
}

}  // namespace

void ModelState::visit(const std::function<void(const std::string&, Tensor&)>& visitor) {
  visitor("positions", positions);
  if (recent_codes.defined()) visitor("recent_codes", recent_codes);
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

int64_t ModelState::bytes() const {
  int64_t total = 0;
  ModelState copy = *this;
  copy.visit([&](const std::string&, Tensor& t) { total += static_cast<int64_t>(t.nbytes()); });
  return total;
}

std::vector<Tensor> ModelState::differentiable() const {
  std::vector<Tensor> tensors;
  for (const auto& a : attention) tensors.insert(tensors.end(), {a.keys, a.values});
  for (const auto& m : memory)
    if (m.angle) tensors.push_back(*m.angle);
  for (const auto& s : ssm) tensors.insert(tensors.end(), {s.conv, s.hidden});
  return tensors;
}

ModelState ModelState::detached(bool requires_grad) const {
  ModelState out = map(*this, [&](const Tensor& x) {
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

ModelState ModelState::row(int64_t index) const {
  return map(*this, [&](const Tensor& x) { return x.narrow(0, index, 1).clone(); });
}

ModelState ModelState::stack(const std::vector<ModelState>& rows) {
  const auto join = [&](const std::function<Tensor(const ModelState&)>& get) {
    std::vector<Tensor> pieces;
    for (const ModelState& row : rows) pieces.push_back(get(row));
    return at::cat(pieces, 0);
  };
  const auto join_padded = [&](const std::function<Tensor(const ModelState&)>& get) {
    int64_t longest = 0;
    for (const ModelState& row : rows) longest = std::max(longest, get(row).size(1));
    return join([&](const ModelState& row) {
      const Tensor x = get(row);
      return at::constant_pad_nd(x, {0, 0, 0, 0, longest - x.size(1), 0});
    });
  };
  ModelState out;
  out.positions = join([](const ModelState& s) { return s.positions; });
  if (rows.at(0).recent_codes.defined()) out.recent_codes = join([](const ModelState& s) { return s.recent_codes; });
  for (size_t l = 0; l < rows.at(0).attention.size(); ++l)
    out.attention.push_back({join_padded([l](const ModelState& s) { return s.attention.at(l).keys; }),
                             join_padded([l](const ModelState& s) { return s.attention.at(l).values; })});
  for (size_t h = 0; h < rows.at(0).memory.size(); ++h) {
    ops::Phases joined;
    if (rows[0].memory[h].turns) joined.turns = join([h](const ModelState& s) { return *s.memory.at(h).turns; });
    if (rows[0].memory[h].angle) joined.angle = join([h](const ModelState& s) { return *s.memory.at(h).angle; });
    out.memory.push_back(joined);
  }
  for (size_t l = 0; l < rows.at(0).ssm.size(); ++l)
    out.ssm.push_back({join([l](const ModelState& s) { return s.ssm.at(l).conv; }),
                       join([l](const ModelState& s) { return s.ssm.at(l).hidden; })});
  return out;
}

}  // namespace pmnet
