// The Transformer and Mamba baselines against Hugging Face's outputs, through both paths of every op.
#include <gtest/gtest.h>

#include "support/differences.h"
#include "support/fixture.h"

namespace pmnet {
namespace {

struct BaselineCase {
  const char* fixture;
  ops::Implementation implementation;
};

std::string name_of(const testing::TestParamInfo<BaselineCase>& info) {
  return std::string(info.param.fixture) +
         (info.param.implementation == ops::Implementation::kFast ? "_fast" : "_reference");
}

class Baseline : public testing::TestWithParam<BaselineCase> {
 protected:
  Fixture fixture_ = load_fixture(GetParam().fixture);
  std::unique_ptr<LanguageModel> model_ = model_of(fixture_);
  Tensor ids_ = fixture_.expected.at("input_ids");
  ops::ImplementationGuard guard_{GetParam().implementation};
};

TEST_P(Baseline, LogitsMatch) {
  const at::NoGradGuard no_grad;
  EXPECT_LE(largest_difference(model_->logits(ids_), fixture_.expected.at("logits")), 1e-4);
}

TEST_P(Baseline, LossAndEveryGradientMatch) {
  model_->require_gradients(true);
  ForwardOptions options;
  options.training = true;
  const Tensor losses = model_->losses(ids_, next_byte_targets(ids_), nullptr, options);
  const Tensor loss = losses.sum() / (ids_.size(0) * (ids_.size(1) - 1));
  EXPECT_LE(largest_difference(loss.detach().view({1}), fixture_.expected.at("loss")), 1e-5);
  loss.backward();
  for (const auto& [name, parameter] : model_->named_parameters()) {
    ASSERT_TRUE(parameter.grad().defined()) << name;
    EXPECT_LE(relative_difference(parameter.grad(), fixture_.expected.at("grad." + name)), 1e-4) << name;
  }
}

TEST_P(Baseline, StreamedLogitsMatch) {
  const at::NoGradGuard no_grad;
  ASSERT_FALSE(fixture_.chunks.empty());
  ModelState state = model_->initial_state(ids_.size(0));
  std::vector<Tensor> pieces;
  int64_t first = 0;
  for (const int64_t chunk : fixture_.chunks) {
    pieces.push_back(model_->logits(ids_.narrow(1, first, chunk), &state));
    first += chunk;
  }
  EXPECT_LE(largest_difference(at::cat(pieces, 1), fixture_.expected.at("logits_streamed")), 1e-4);
  EXPECT_TRUE(state.positions.eq(ids_.size(1)).all().item<bool>());
}

// Shorter than the convolution, empty, and uneven chunks give what the whole gives, in logits and in gradients that
// flow back through the state.
TEST_P(Baseline, ChunksGiveTheGradientsOfTheWhole) {
  model_->require_gradients(true);
  const Tensor upstream = at::randn({ids_.size(0), ids_.size(1), model_->vocab_size()});
  const auto gradients = [&](const std::vector<int64_t>& chunks) {
    ModelState state = model_->initial_state(ids_.size(0));
    Tensor total = at::zeros({});
    int64_t first = 0;
    for (const int64_t chunk : chunks) {
      const Tensor logits = model_->logits(ids_.narrow(1, first, chunk), &state);
      total = total + (logits * upstream.narrow(1, first, chunk)).sum();
      first += chunk;
    }
    total.backward();
    TensorMap found;
    model_->visit([&](const std::string& name, Tensor& parameter) {
      found[name] = parameter.grad().clone();
      parameter.mutable_grad().reset();
    });
    return found;
  };
  const TensorMap whole = gradients({70});
  const TensorMap pieces = gradients({1, 2, 0, 1, 33, 32, 1});
  for (const auto& [name, gradient] : whole) EXPECT_LE(relative_difference(pieces.at(name), gradient), 1e-5) << name;
}

// One byte at a time keys and values are appended in place; whoever took a copy of the state before must not notice.
TEST_P(Baseline, ByteByByteGivesTheLogitsOfTheWhole) {
  const at::NoGradGuard no_grad;
  const Tensor whole = model_->logits(ids_);
  const auto read = [&](ModelState& state, int64_t byte) {
    const Tensor logits = model_->logits(ids_.narrow(1, byte, 1), &state);
    EXPECT_LE(largest_difference(logits, whole.narrow(1, byte, 1)), 2e-5) << "byte " << byte;
  };
  ModelState state = model_->initial_state(ids_.size(0)), copy;
  for (int64_t byte = 0; byte < ids_.size(1); ++byte) {
    if (byte == 20) copy = state;
    read(state, byte);
  }
  for (int64_t byte = 20; byte < ids_.size(1); ++byte) read(copy, byte);
}

// Rows of unequal length: padding changes neither the logits before it nor the state a row continues from.
TEST_P(Baseline, PaddingLeavesNoTrace) {
  const at::NoGradGuard no_grad;
  const std::vector<int64_t> ends{2, 41};
  const Tensor head = ids_.narrow(1, 0, 50), tail = ids_.narrow(1, 50, 20);
  ForwardOptions options;
  options.lengths = at::tensor(ends, at::kLong);
  ModelState padded = model_->initial_state(2);
  const Tensor padded_logits = model_->logits(head, &padded, options);
  const Tensor continued = model_->logits(tail, &padded);
  for (int64_t row = 0; row < 2; ++row) {
    ModelState alone = model_->initial_state(1);
    const Tensor logits = model_->logits(head.narrow(0, row, 1).narrow(1, 0, ends[row]), &alone);
    EXPECT_LE(largest_difference(padded_logits.narrow(0, row, 1).narrow(1, 0, ends[row]), logits), 2e-5) << row;
    EXPECT_LE(largest_difference(continued.narrow(0, row, 1), model_->logits(tail.narrow(0, row, 1), &alone)), 2e-5)
        << row;
    EXPECT_EQ(padded.positions[row].item<int64_t>(), ends[row] + 20);
  }
}

INSTANTIATE_TEST_SUITE_P(Both, Baseline,
                         testing::Values(BaselineCase{"llama", ops::Implementation::kFast},
                                         BaselineCase{"llama", ops::Implementation::kReference},
                                         BaselineCase{"mamba", ops::Implementation::kFast},
                                         BaselineCase{"mamba", ops::Implementation::kReference}),
                         name_of);

TEST(MambaInitialization, FollowsTheRecipeAndTheSeedAlone) {
  const auto config = std::get<MambaConfig>(load_fixture("mamba").config);
  const auto initialized = [&](uint64_t seed) {
    auto model = make_model(config);
    model->initialize(seed);
    TensorMap tensors;
    for (const auto& [name, parameter] : model->named_parameters()) tensors[name] = parameter;
    return tensors;
  };
  const TensorMap weights = initialized(1), again = initialized(1), other = initialized(2);
  for (const auto& [name, tensor] : weights) EXPECT_TRUE(tensor.equal(again.at(name))) << name;
  EXPECT_FALSE(weights.at("backbone.embeddings.weight").equal(other.at("backbone.embeddings.weight")));

  const std::string mixer = "backbone.layers.1.mixer.";
  EXPECT_FALSE(weights.at(mixer + "in_proj.weight").equal(weights.at("backbone.layers.0.mixer.in_proj.weight")));
  const Tensor states = at::arange(1, config.state_size + 1, at::kFloat);
  EXPECT_LE(largest_difference(weights.at(mixer + "A_log").exp(), states.expand({config.intermediate_size, -1})), 1e-5);
  EXPECT_TRUE(weights.at(mixer + "D").eq(1).all().item<bool>());
  const Tensor steps = at::softplus(weights.at(mixer + "dt_proj.bias"));
  EXPECT_GE(steps.min().item<double>(), config.time_step_min * 0.999);
  EXPECT_LE(steps.max().item<double>(), config.time_step_max * 1.001);
  EXPECT_NEAR(steps.log().mean().item<double>(), std::log(config.time_step_min * config.time_step_max) / 2, 0.5);
  const Tensor dt_weight = weights.at(mixer + "dt_proj.weight");
  EXPECT_LE(dt_weight.abs().max().item<double>(), 1 / std::sqrt(static_cast<double>(config.time_step_rank)));
  EXPECT_NEAR(weights.at(mixer + "in_proj.weight").std().item<double>(), config.initializer_range, 0.01);
}

TEST(TransformerInitialization, PadRowStartsAtZeroAndBiasesToo) {
  auto config = std::get<TransformerConfig>(load_fixture("llama").config);
  config.attention_bias = config.mlp_bias = true;
  config.tie_word_embeddings = false;
  ASSERT_EQ(config.pad_token_id, 0);
  auto model = make_model(config);
  model->initialize(3);
  TensorMap weights;
  for (const auto& [name, parameter] : model->named_parameters()) weights[name] = parameter;
  const Tensor embedding = weights.at("model.embed_tokens.weight");
  EXPECT_TRUE(embedding[0].eq(0).all().item<bool>());
  EXPECT_NEAR(embedding.std().item<double>(), config.initializer_range, 0.002);
  for (const char* name : {"self_attn.q_proj", "self_attn.o_proj", "mlp.down_proj"})
    EXPECT_TRUE(weights.at(std::string("model.layers.2.") + name + ".bias").eq(0).all().item<bool>()) << name;
  EXPECT_TRUE(weights.at("model.layers.0.input_layernorm.weight").eq(1).all().item<bool>());
  EXPECT_FALSE(weights.at("lm_head.weight").equal(embedding));
}

}  // namespace
}  // namespace pmnet
