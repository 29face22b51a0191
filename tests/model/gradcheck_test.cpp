// The whole model in double against central differences: normalisation off (it is deliberately not the derivative),
// routes frozen (an argmax has none).
#include "support/gradcheck.h"

#include <gtest/gtest.h>

#include "support/small_model.h"

namespace pmnet {
namespace {

struct GradcheckCase {
  std::string name;
  PmnetConfig config;
  MemorySwitches memory = {};
  bool padded = false;
  int64_t split = 0;  // the pass goes through in two chunks with the state between them
};

PmnetConfig tiny_config() {
  PmnetConfig c = small_config();
  c.vocab_size = 7;
  c.hidden_size = 6;
  c.intermediate_size = 5;
  c.num_layers = 3;
  c.head_dim = 4;
  c.memory_size = 3;
  c.num_memory = 2;
  c.sliding_window = 4;
  c.attention_bias = true;
  c.tie_word_embeddings = false;
  c.layer_types = {LayerType::kSliding, LayerType::kFull, LayerType::kSliding};
  return c;
}

PmnetConfig with_dropout(PmnetConfig c) {
  c.attention_dropout = 0.3;
  return c;
}

PmnetConfig with_options(MemoryKeys keys, MemoryValues values) {
  PmnetConfig c = tiny_config();
  c.memory_keys = keys;
  c.memory_values = values;
  return c;
}

class WholeModel : public testing::TestWithParam<GradcheckCase> {};

TEST_P(WholeModel, GradientIsTheDerivative) {
  const GradcheckCase& c = GetParam();
  constexpr int64_t kTime = 7;
  const auto model = small_model(c.config, 1, at::kDouble);
  const Tensor ids = random_ids(c.config, 2, kTime);
  ForwardOptions options;
  options.training = true;
  options.memory = c.memory;
  options.memory.normalize_gradient = false;
  if (c.padded) options.lengths = at::tensor({kTime, int64_t{4}}, at::kLong);
  Trace trace;
  model->logits(ids, nullptr, options, &trace);

  const auto pass = [&](int64_t begin, int64_t count, ModelState* state) {
    std::vector<Tensor> routes;
    for (const Tensor& route : trace.routes) routes.push_back(route.narrow(1, begin, count));
    ForwardOptions here = options;
    here.routes = &routes;
    return model->logits(ids.narrow(1, begin, count), state, here);
  };
  const auto function = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    size_t next = 0;
    model->visit([&](const std::string&, Tensor& p) { p = in[next++]; });
    if (c.split == 0) return {pass(0, kTime, nullptr)};
    ModelState state = model->initial_state(2);
    return {pass(0, c.split, &state), pass(c.split, kTime - c.split, &state)};
  };
  std::vector<Tensor> parameters;
  for (const auto& [name, p] : model->named_parameters()) parameters.push_back(p.clone());
  EXPECT_EQ(gradient_mismatch(function, parameters, {.max_entries = 5}), "");
}

INSTANTIATE_TEST_SUITE_P(
    Variants, WholeModel,
    testing::Values(
        GradcheckCase{.name = "plain", .config = tiny_config()},
        GradcheckCase{.name = "dropout", .config = with_dropout(tiny_config())},
        GradcheckCase{.name = "padded", .config = tiny_config(), .padded = true},
        GradcheckCase{.name = "streamed", .config = with_dropout(tiny_config()), .split = 5},
        GradcheckCase{.name = "anchor_keys", .config = with_options(MemoryKeys::kAnchor, MemoryValues::kAnchored)},
        GradcheckCase{.name = "both_keys", .config = with_options(MemoryKeys::kBoth, MemoryValues::kBare), .split = 5},
        GradcheckCase{
            .name = "bare_values", .config = with_options(MemoryKeys::kState, MemoryValues::kBare), .split = 3},
        GradcheckCase{.name = "chain", .config = as_chain(tiny_config()), .split = 5},
        GradcheckCase{.name = "ngrams", .config = with_ngrams(tiny_config()), .split = 2},
        GradcheckCase{.name = "padded_ngrams", .config = with_ngrams(tiny_config()), .padded = true},
        GradcheckCase{.name = "no_recurrence", .config = tiny_config(), .memory = {.recurrence = false}},
        GradcheckCase{.name = "unconstrained", .config = tiny_config(), .memory = {.unconstrained = true}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace pmnet
