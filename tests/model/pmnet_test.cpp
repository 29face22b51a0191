#include "model/pmnet.h"

#include <gtest/gtest.h>

#include "config/presets.h"
#include "ops/ops.h"
#include "support/differences.h"
#include "support/small_model.h"

namespace pmnet {
namespace {

using Shapes = std::map<std::string, std::vector<int64_t>>;

Shapes shapes_of(PMNet& model) {
  Shapes shapes;
  for (const auto& [name, p] : model.named_parameters()) shapes[name] = p.sizes().vec();
  return shapes;
}

// The published names, spelled out once for a model of two layers and a write in each second one.
TEST(PMNetParameters, HaveThePublishedNamesAndShapes) {
  PmnetConfig c = small_config();
  c.num_layers = 2;
  c.layer_types.resize(2);
  PMNet model(c, at::kFloat);
  Shapes want{
      {"model.embed_tokens.weight", {40, 20}}, {"model.memory_embeddings.0", {1, 3, 11}}, {"model.norm.weight", {20}}};
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    const Shapes every_layer{{"input_layernorm.weight", {20}},
                             {"post_attention_layernorm.weight", {20}},
                             {"self_attn.q_proj.weight", {12, 20}},
                             {"self_attn.k_proj.weight", {6, 20}},
                             {"self_attn.v_proj.weight", {6, 20}},
                             {"self_attn.o_proj.weight", {20, 12}},
                             {"self_attn.q_norm.weight", {6}},
                             {"self_attn.k_norm.weight", {6}},
                             {"mlp.gate_proj.weight", {28, 20}},
                             {"mlp.up_proj.weight", {28, 20}},
                             {"mlp.down_proj.weight", {20, 28}},
                             {"memory_read_module.norm.weight", {20}},
                             {"memory_read_module.proj_q.weight", {22, 20}},
                             {"memory_read_module.proj_q.bias", {22}},
                             {"memory_read_module.proj_kv.weight", {44, 22}},
                             {"memory_read_module.proj_kv.bias", {44}},
                             {"memory_read_module.proj_out.weight", {20, 22}},
                             {"memory_read_module.proj_out.bias", {20}}};
    for (const auto& [name, shape] : every_layer) want[layer + name] = shape;
  }
  const Shapes write_module{{"norm.weight", {20}},       {"proj_q.weight", {11, 20}},   {"proj_q.bias", {11}},
                            {"proj_k.weight", {11, 22}}, {"proj_k.bias", {11}},         {"proj_v.weight", {11, 20}},
                            {"proj_v.bias", {11}},       {"proj_out.weight", {11, 11}}, {"proj_out.bias", {11}}};
  for (const auto& [name, shape] : write_module) want["model.layers.0.memory_write_module." + name] = shape;
  EXPECT_EQ(shapes_of(model), want);
}

TEST(PMNetParameters, FollowTheSwitchesOfTheConfiguration) {
  PmnetConfig c = small_config();
  c.attention_bias = true;
  c.tie_word_embeddings = false;
  PMNet with_all(c, at::kFloat);
  const Shapes shapes = shapes_of(with_all);
  EXPECT_EQ(shapes.at("lm_head.weight"), (std::vector<int64_t>{40, 20}));
  EXPECT_EQ(shapes.at("model.layers.4.self_attn.o_proj.bias"), (std::vector<int64_t>{20}));
  EXPECT_EQ(shapes.at("model.memory_embeddings.2"), (std::vector<int64_t>{9, 3, 11}));
  c.memory_modules = false;
  PMNet without_memory(c, at::kFloat);
  for (const auto& [name, shape] : shapes_of(without_memory)) EXPECT_EQ(name.find("memory"), std::string::npos) << name;
}

TEST(PMNetParameters, CountAsPublished) {
  for (const auto& [name, want] : {std::pair{"119m", 118'970'368}, {"30m", 29'863'680}}) {
    PMNet model(preset(name), at::kBFloat16);  // allocated, never touched
    int64_t total = 0;
    for (const auto& [_, p] : model.named_parameters()) total += p.numel();
    EXPECT_EQ(total, want) << name;
  }
}

TEST(PMNetParameters, MemoryEmbeddingsHaveTheirStandardDeviation) {
  for (const double std : {0.0, 0.02, 0.5}) {
    PmnetConfig c = preset("tiny");
    c.memory_embedding_std = std;
    PMNet model(c, at::kFloat);
    model.initialize(3);
    for (const auto& embedding : model.memory_embeddings)
      EXPECT_NEAR(embedding.std().item<double>(), std, 0.15 * std) << embedding.sizes();
  }
}

TEST(PMNetParameters, ResidualInitScalesWhatEndsAResidualBranch) {
  PmnetConfig c = preset("tiny");
  PMNet published(c, at::kFloat);
  published.initialize(3);
  for (const double scale : {0.0, 0.5}) {
    c.residual_init = scale;
    PMNet model(c, at::kFloat);
    model.initialize(3);
    const auto before = published.named_parameters(), after = model.named_parameters();
    for (size_t i = 0; i < after.size(); ++i) {
      const auto& [name, parameter] = after[i];
      bool is_output = false;
      for (const char* end : {"self_attn.o_proj.weight", "mlp.down_proj.weight", "memory_read_module.proj_out.weight"})
        is_output = is_output || name.ends_with(end);
      EXPECT_TRUE(at::allclose(parameter, before[i].second * (is_output ? scale : 1.0))) << name;
    }
  }
}

TEST(PMNetInitialization, IsTheSpecifiedOneAndDependsOnTheSeedAlone) {
  PmnetConfig c = preset("1m");
  c.initializer_range = 0.05;
  c.attention_bias = true;
  c.pad_token_id = 300;
  PMNet model(c, at::kFloat), same(c, at::kFloat), other(c, at::kFloat);
  model.initialize(7);
  same.initialize(7);
  other.initialize(8);
  const auto others = other.named_parameters(), sames = same.named_parameters();
  size_t i = 0;
  for (const auto& [name, p] : model.named_parameters()) {
    EXPECT_TRUE(at::equal(p, sames[i].second)) << name;
    const bool random = p.dim() >= 2;
    EXPECT_EQ(at::equal(p, others[i].second), !random) << name;
    if (random) {
      const double want = name.find("memory_embeddings") != std::string::npos ? 0.02 : 0.05;
      const double n = static_cast<double>(p.numel());
      EXPECT_NEAR(p.mean().item<double>(), 0, 5 * want / std::sqrt(n)) << name;
      EXPECT_NEAR(p.std().item<double>(), want, 5 * want / std::sqrt(2 * n) + want / c.vocab_size) << name;
    } else {
      EXPECT_TRUE((p == (name.find("norm") != std::string::npos ? 1.0 : 0.0)).all().item<bool>()) << name;
    }
    ++i;
  }
  EXPECT_EQ(model.embed_tokens[300].abs().max().item<float>(), 0);
  const auto layer = [&](int l) { return model.layers[l].mlp.up_proj.weight; };
  EXPECT_FALSE(at::equal(layer(0), layer(1)));
}

TEST(PMNetTrace, HoldsTheInsideOfAPass) {
  const PmnetConfig c = small_config();
  const auto model = small_model(c);
  const Tensor ids = random_ids(c, 2, 50);
  Trace trace;
  model->require_gradients(true);
  model->logits(ids, nullptr, {}, &trace);
  ASSERT_EQ(trace.hidden.size(), 5u);
  ASSERT_EQ(trace.read_weights.size(), 5u);
  ASSERT_EQ(trace.routes.size(), 3u);
  EXPECT_EQ(trace.num_groups, (std::vector<int64_t>{1, 3, 9}));
  for (const Tensor& x : trace.hidden) EXPECT_EQ(x.sizes(), (std::vector<int64_t>{2, 50, 20}));
  for (const Tensor& a : trace.read_weights) {
    EXPECT_EQ(a.sizes(), (std::vector<int64_t>{2, 50, 2, 3}));
    EXPECT_TRUE(at::allclose(a.sum(-1), at::ones({2, 50, 2})));
  }
  for (size_t level = 0; level < 3; ++level) {
    EXPECT_EQ(trace.route_weights[level].sizes(), (std::vector<int64_t>{2, 50, 3}));
    EXPECT_EQ(trace.path[level].turns->sizes(), (std::vector<int64_t>{2, 50, 3, 11}));
    EXPECT_TRUE(at::equal(trace.routes[level], trace.groups[level] * 3 + trace.route_weights[level].argmax(-1)));
    if (level > 0) {
      EXPECT_TRUE(at::equal(trace.groups[level], trace.routes[level - 1]));
    }
  }
  for (const auto* list : {&trace.hidden, &trace.read_weights, &trace.route_weights})
    for (const Tensor& x : *list) EXPECT_FALSE(x.requires_grad());
  for (const ops::Phases& path : trace.path) EXPECT_FALSE(path.angle && path.angle->requires_grad());
}

TEST(PMNetTrace, InAChainEveryTokenWritesToTheOneGroupOfALevel) {
  const PmnetConfig config = as_chain(small_config());
  const auto model = small_model(config);
  EXPECT_EQ(model->memory_embeddings[2].size(0), 1);
  Trace trace;
  const Tensor ids = random_ids(config, 2, 30);
  model->logits(ids, nullptr, {}, &trace);
  ASSERT_EQ(trace.groups.size(), 3u);
  for (const Tensor& groups : trace.groups) EXPECT_EQ(groups.abs().sum().item<int64_t>(), 0);
  for (const Tensor& routes : trace.routes) EXPECT_EQ(routes.abs().sum().item<int64_t>(), 0);
}

TEST(PMNetTrace, TokensSpreadOverTheTree) {
  const auto model = small_model(small_config());
  Trace trace;
  model->logits(random_ids(small_config(), 2, 200), nullptr, {}, &trace);
  EXPECT_EQ(count_writes(trace.groups[1], 3).sum(0).min().item<float>() > 0, true);
  EXPECT_GE((count_writes(trace.groups[2], 9).sum(0) > 0).sum().item<int64_t>(), 5);
}

TEST(PMNetPass, IsCausalAndRowsAreIndependent) {
  at::NoGradGuard no_grad;
  const PmnetConfig c = with_full_attention(small_config());
  const auto model = small_model(c);
  const Tensor ids = random_ids(c, 3, 60), all = model->logits(ids);
  EXPECT_LE(largest_difference(model->logits(ids.narrow(1, 0, 31)), all.narrow(1, 0, 31)), 1e-4);
  EXPECT_LE(largest_difference(model->logits(ids.narrow(0, 1, 1)), all.narrow(0, 1, 1)), 1e-4);
}

TEST(PMNetPass, OfNoTokensGivesNoLogits) {
  const auto model = small_model(small_config());
  for (const ops::Implementation implementation : {ops::Implementation::kFast, ops::Implementation::kReference}) {
    const ops::ImplementationGuard guard(implementation);
    ModelState state = model->initial_state(2);
    EXPECT_EQ(model->logits(at::zeros({2, 0}, at::kLong), &state).sizes(), (std::vector<int64_t>{2, 0, 40}));
    EXPECT_EQ(state.positions.sum().item<int64_t>(), 0);
  }
}

TEST(PMNetPass, ThePadRowGetsNoGradientFromTheInput) {
  PmnetConfig c = small_config();
  c.pad_token_id = 7;
  c.tie_word_embeddings = false;
  const auto model = small_model(c);
  model->require_gradients(true);
  model->logits(at::full({1, 5}, 7, at::kLong)).sum().backward();
  EXPECT_EQ(model->embed_tokens.grad()[7].abs().max().item<float>(), 0);
}

class Switches : public testing::Test {
 protected:
  Tensor logits(const MemorySwitches& switches, ModelState* state = nullptr) const {
    at::NoGradGuard no_grad;
    ForwardOptions options;
    options.memory = switches;
    return model_->logits(ids_, state, options);
  }
  std::pair<double, Tensor> loss_and_gradient(const ForwardOptions& options, const Tensor& weight) const {
    model_->require_gradients(true);
    const Tensor loss = model_->losses(ids_, next_byte_targets(ids_), nullptr, options).sum();
    return {loss.item<double>(), torch::autograd::grad({loss}, {weight})[0]};
  }
  PmnetConfig config_ = small_config();
  std::shared_ptr<PMNet> model_ = small_model(config_);
  Tensor ids_ = random_ids(config_, 1, 40);
};

TEST_F(Switches, RecurrenceMayBeSwitchedEitherWay) {
  PmnetConfig off = config_;
  off.memory_cumsum = false;
  const auto without = small_model(off);
  at::NoGradGuard no_grad;
  const Tensor plain = logits({}), switched = logits({.recurrence = false});
  EXPECT_GT(largest_difference(plain, switched), 1e-2);
  EXPECT_TRUE(at::equal(switched, without->logits(ids_)));
  ForwardOptions on;
  on.memory.recurrence = true;
  EXPECT_TRUE(at::equal(plain, without->logits(ids_, nullptr, on)));
  // A token's first layer sees no other token's write: the first one cannot tell the difference.
  EXPECT_LE(largest_difference(plain.narrow(1, 0, 1), switched.narrow(1, 0, 1)), 1e-5);
}

TEST_F(Switches, WithoutRecurrenceNothingIsStored) {
  ModelState state = model_->initial_state(1);
  logits({.recurrence = false}, &state);
  for (const ops::Phases& level : state.memory) EXPECT_EQ(level.turns->abs().max().item<int64_t>(), 0);
}

TEST_F(Switches, ZeroedEmbeddingsAreAsGoodAsZeroWeights) {
  const auto zeroed_by_hand = [&](const std::vector<int64_t>& levels) {
    const auto copy = small_model(config_);
    for (const int64_t level : levels) copy->memory_embeddings[level].zero_();
    at::NoGradGuard no_grad;
    return copy->logits(ids_);
  };
  EXPECT_TRUE(at::equal(logits({.zero_embeddings = ZeroEmbeddings::kAll}), zeroed_by_hand({0, 1, 2})));
  EXPECT_TRUE(at::equal(logits({.zero_embeddings = ZeroEmbeddings::kRoot}), zeroed_by_hand({0})));
  EXPECT_TRUE(at::equal(logits({.zero_embeddings = ZeroEmbeddings::kLeaf}), zeroed_by_hand({2})));
  EXPECT_GT(largest_difference(zeroed_by_hand({0}), zeroed_by_hand({2})), 1e-3);
}

TEST_F(Switches, UnconstrainedMemoryIsAnotherFunctionOnBothPaths) {
  const MemorySwitches unconstrained{.unconstrained = true};
  const Tensor fast = logits(unconstrained);
  EXPECT_GT(largest_difference(fast, logits({})), 1e-2);
  const ops::ImplementationGuard guard(ops::Implementation::kReference);
  EXPECT_LE(largest_difference(fast, logits(unconstrained)), 1e-3);
}

TEST_F(Switches, WithoutMemoryModulesTheModelStillRunsAndStreams) {
  config_.memory_modules = false;
  model_ = small_model(config_);
  const Tensor whole = logits({});
  at::NoGradGuard no_grad;
  ModelState state = model_->initial_state(1);
  const Tensor first = model_->logits(ids_.narrow(1, 0, 13), &state),
               rest = model_->logits(ids_.narrow(1, 13, 27), &state);
  EXPECT_LE(largest_difference(at::cat({first, rest}, 1), whole), 1e-4);
}

TEST_F(Switches, NormalisationChangesGradientsAndNotTheLoss) {
  const auto run = [&](bool training, bool normalize) {
    ForwardOptions options;
    options.training = training;
    options.memory.normalize_gradient = normalize;
    return loss_and_gradient(options, model_->layers[0].memory_write_module->proj_out.weight);
  };
  const auto [loss, plain] = run(true, false);
  const auto [same_loss, normalised] = run(true, true);
  const auto [eval_loss, eval_gradient] = run(false, true);
  EXPECT_EQ(loss, same_loss);
  EXPECT_EQ(loss, eval_loss);
  EXPECT_TRUE(at::equal(plain, eval_gradient));
  EXPECT_GT(largest_difference(plain, normalised), 0.1 * plain.abs().max().item<double>());
}

TEST_F(Switches, TeachingRoutesChangesTheGradientOfTheirQueriesInTrainingAlone) {
  const Tensor& query = model_->layers[0].memory_write_module->proj_q.weight;
  ForwardOptions plain, straight, balanced;
  plain.training = straight.training = balanced.training = true;
  straight.memory.straight_through = true;
  balanced.memory.route_balance = 0.1;
  const auto [loss, gradient] = loss_and_gradient(plain, query);
  for (ForwardOptions options : {straight, balanced}) {
    const auto [same_loss, other] = loss_and_gradient(options, query);
    EXPECT_EQ(loss, same_loss);
    EXPECT_GT(largest_difference(gradient, other), 1e-2 * gradient.abs().max().item<double>());
    options.training = options.memory.normalize_gradient = false;
    plain.memory.normalize_gradient = false;
    EXPECT_TRUE(at::equal(loss_and_gradient(plain, query).second, loss_and_gradient(options, query).second));
  }
}

TEST(StraightThroughGate, IsOneWithTheGradientOfTheChosenProbability) {
  const Tensor weights = at::tensor({0.2, 0.5, 0.3, 0.1, 0.1, 0.8, 0.4, 0.3, 0.3}, at::kDouble).view({1, 3, 3});
  const Tensor a = weights.clone().requires_grad_();
  const Tensor group = at::tensor({2, 0, -1}, at::kLong).view({1, 3});
  const Tensor gate = straight_through_gate(a, group, child_group(group, weights));
  EXPECT_TRUE(at::equal(gate, at::ones({1, 3, 1}, at::kDouble)));
  gate.backward(at::tensor({2.0, 3.0, 0.0}, at::kDouble).view({1, 3, 1}));
  const Tensor want = at::tensor({0.0, 2.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0}, at::kDouble).view({1, 3, 3});
  EXPECT_TRUE(at::equal(a.grad(), want));
}

TEST(BalanceRoutes, AddsTheGradientOfTheLoadBalancingLoss) {
  // Four tokens of group 0, of which three choose slot 1, one of group 1, and padding.
  const Tensor weights =
      at::tensor({0.1, 0.9, 0.4, 0.6, 0.3, 0.7, 0.8, 0.2, 0.6, 0.4, 0.5, 0.5}, at::kDouble).view({1, 6, 2});
  const Tensor group = at::tensor({0, 0, 0, 0, 1, -1}, at::kLong).view({1, 6});
  const Tensor next = child_group(group, weights);
  const Tensor a = weights.clone().requires_grad_();
  const Tensor passed = a * 1;  // in a model the weights are the output of an operation
  balance_routes(passed, group, next, /*num_groups=*/2, /*weight=*/0.5);
  passed.sum().backward();
  const Tensor share = at::tensor({0.25, 0.75, 0.25, 0.75, 0.25, 0.75, 0.25, 0.75, 1.0, 0.0, 0.0, 0.0}, at::kDouble);
  EXPECT_LE(largest_difference(a.grad(), 1 + 0.5 * 2 * share.view({1, 6, 2})), 1e-12);
}

TEST(ChildGroup, TiesGoToTheLowestIndexAndPaddingStaysPadding) {
  const Tensor weights = at::tensor({0.5, 0.5, 0.0, 0.2, 0.4, 0.4, 0.0, 0.0, 1.0}, at::kFloat).view({1, 3, 3});
  const Tensor group = at::tensor({2, 0, -1}, at::kLong).view({1, 3});
  EXPECT_TRUE(at::equal(child_group(group, weights), at::tensor({6, 1, -1}, at::kLong).view({1, 3})));
}

TEST(CountWrites, LeavesPaddingOut) {
  const Tensor group = at::tensor({0, 2, 2, -1, -1, -1, 1, 1}, at::kLong).view({2, 4});
  EXPECT_TRUE(at::equal(count_writes(group, 3), at::tensor({1, 0, 2, 0, 2, 0}, at::kFloat).view({2, 3})));
}

TEST(NextByteTargets, AreShiftedByOne) {
  const Tensor ids = at::tensor({5, 6, 7}, at::kLong).view({1, 3});
  EXPECT_TRUE(at::equal(next_byte_targets(ids), at::tensor({6, 7, -1}, at::kLong).view({1, 3})));
  EXPECT_EQ(next_byte_targets(at::zeros({2, 0}, at::kLong)).sizes(), (std::vector<int64_t>{2, 0}));
}

TEST(DropoutRowKeys, DifferInEveryPart) {
  const auto key = [](uint64_t seed, uint64_t step, int64_t sample, int64_t layer) {
    return dropout_row_keys({.seed = seed, .step = step, .samples = {sample}}, 1, layer)[0].item<int64_t>();
  };
  std::set<int64_t> keys;
  for (const uint64_t seed : {0, 1})
    for (const uint64_t step : {0, 1, 2})
      for (const int64_t sample : {0, 1, 2})
        for (const int64_t layer : {0, 1, 2}) keys.insert(key(seed, step, sample, layer));
  EXPECT_EQ(keys.size(), 2u * 3 * 3 * 3);
  EXPECT_TRUE(at::equal(dropout_row_keys({.seed = 3, .step = 4, .samples = {}}, 2, 1),
                        dropout_row_keys({.seed = 3, .step = 4, .samples = {0, 1}}, 2, 1)));
}

}  // namespace
}  // namespace pmnet
