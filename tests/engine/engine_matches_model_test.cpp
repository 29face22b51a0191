// Every engine gives what the training model gives: over architectures, shapes, batches, chunkings, weight types,
// switches, and rows at positions of their own.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "config/presets.h"
#include "engine/session.h"
#include "support/differences.h"
#include "support/small_model.h"

namespace pmnet {
namespace {

constexpr double kRounding = 1e-4;

struct Architecture {
  std::string name;
  ModelConfig config;
};

std::vector<Architecture> architectures() {
  const PmnetConfig small = small_config();
  PmnetConfig every_layer = small, biased = small, plain = small, untied = small, many_slots = small;
  every_layer.write_period = 1;
  every_layer.num_layers = 3;
  every_layer.layer_types.assign(3, LayerType::kSliding);
  biased.attention_bias = true;
  biased.num_heads = 4;
  biased.num_kv_heads = 2;
  plain.memory_modules = false;
  untied.tie_word_embeddings = false;
  many_slots.num_memory = 7;
  many_slots.num_read_heads = 3;
  many_slots.num_layers = 3;
  many_slots.layer_types.assign(3, LayerType::kSliding);
  PmnetConfig anchor_keys = every_layer, both_keys = small;
  anchor_keys.memory_keys = MemoryKeys::kAnchor;
  anchor_keys.num_read_heads = 2;
  both_keys.memory_keys = MemoryKeys::kBoth;
  both_keys.memory_embedding_std = 0.2;
  PmnetConfig bare_values = small, bare_anchor = every_layer, bare_both = both_keys;
  bare_values.memory_values = bare_anchor.memory_values = bare_both.memory_values = MemoryValues::kBare;
  bare_anchor.memory_keys = MemoryKeys::kAnchor;
  TransformerConfig llama = transformer_like(small);
  llama.mlp_bias = llama.attention_bias = true;
  MambaConfig mamba = mamba_like(small);
  mamba.use_bias = true;
  return {{"pmnet", small},
          {"full_attention_mix", with_full_attention(small)},
          {"write_every_layer", every_layer},
          {"attention_bias", biased},
          {"no_memory_modules", plain},
          {"untied_head", untied},
          {"many_slots", many_slots},
          {"anchor_keys", anchor_keys},
          {"both_keys", both_keys},
          {"bare_values", bare_values},
          {"bare_values_anchor_keys", bare_anchor},
          {"bare_values_both_keys", bare_both},
          {"chain", as_chain(small)},
          {"ngrams", with_ngrams(small)},
          {"transformer_ngrams", transformer_like(with_ngrams(small))},
          {"mamba_ngrams", mamba_like(with_ngrams(small))},
          {"transformer", transformer_like(small)},
          {"transformer_biased", llama},
          {"mamba", mamba_like(small)},
          {"mamba_biased", mamba}};
}

// Weights large enough that every part matters.
std::unique_ptr<LanguageModel> make_test_model(const ModelConfig& config) {
  std::unique_ptr<LanguageModel> model = make_model(config);
  model->initialize(7);
  const double factor = std::holds_alternative<MambaConfig>(config) ? 1.5 : 6;  // Mamba's begin larger
  model->visit([=](const std::string& name, Tensor& p) {
    if (is_stored_smaller(name) || name.find("embed") != name.npos) p.mul_(factor);
    if (is_ngram_table(name)) fill_normal(p, 0.1, 3, name);  // begins at zero
    if (name.ends_with(".bias") && name.find("dt_proj") == name.npos) fill_normal(p, 0.1, 3, name);
  });
  return model;
}

Tensor ids_for(const Engine& engine, int64_t batch, int64_t time, uint64_t seed = 2) {
  return at::randint(0, engine.vocab_size(), {batch, time}, at::make_generator<at::CPUGeneratorImpl>(seed), at::kLong);
}

Tensor hidden_in_chunks(const Engine& engine, const Tensor& ids, int64_t chunk, EngineState& state) {
  std::vector<Tensor> pieces;
  for (int64_t begin = 0; begin < ids.size(1); begin += chunk)
    pieces.push_back(engine.hidden(ids.narrow(1, begin, std::min(chunk, ids.size(1) - begin)), &state));
  return at::cat(pieces, 1);
}

void expect_same_state(const EngineState& got, const EngineState& want, double limit) {
  ModelState a = to_model_state(got), b = to_model_state(want);
  std::vector<std::pair<std::string, Tensor>> wanted;
  b.visit([&](const std::string& name, Tensor& t) { wanted.emplace_back(name, t); });
  size_t i = 0;
  a.visit([&](const std::string& name, Tensor& t) {
    const auto& [want_name, want_tensor] = wanted.at(i++);
    ASSERT_EQ(name, want_name);
    ASSERT_EQ(t.sizes(), want_tensor.sizes()) << name;
    if (t.numel() == 0) return;
    if (name.ends_with(".turns")) {  // the difference wraps
      const Tensor turns = (t - want_tensor).to(at::kDouble).abs() * 0x1p-64;
      EXPECT_LE(turns.max().item<double>(), limit) << name;
    } else {
      EXPECT_LE(largest_difference(t, want_tensor), limit) << name;
    }
  });
}

class EngineMatchesModel : public testing::TestWithParam<Architecture> {
 protected:
  const std::shared_ptr<const LanguageModel> model_ = make_test_model(GetParam().config);
  const std::shared_ptr<const Engine> engine_ = make_engine(model_), twin_ = make_model_engine(model_);
};
INSTANTIATE_TEST_SUITE_P(Shapes, EngineMatchesModel, testing::ValuesIn(architectures()),
                         [](const auto& info) { return info.param.name; });

// A batch too large for the activations of one group: as if each sequence had been read alone.
TEST(EngineMatchesItself, InGroupsOfSequences) {
  PmnetConfig wide = small_config();
  wide.hidden_size = 256;
  for (const ModelConfig& config :
       {ModelConfig(wide), ModelConfig(transformer_like(wide)), ModelConfig(mamba_like(wide))}) {
    const std::shared_ptr<const LanguageModel> model = make_test_model(config);
    const auto engine = make_engine(model);
    const int64_t length = (1 << 19) / engine->head_weight().size(1) / 2 + 1;  // two are too long for one group
    const Tensor ids = ids_for(*engine, 3, length), lengths = at::tensor({length, length, int64_t{5}}, at::kLong);
    EngineState state = engine->initial_state(3);
    const Tensor hidden = engine->hidden(ids, &state, {.lengths = lengths});
    for (int64_t b = 0; b < 3; ++b) {
      const int64_t tokens = lengths[b].item<int64_t>();
      EngineState alone = engine->initial_state(1);
      const Tensor want = engine->hidden(ids.narrow(0, b, 1).narrow(1, 0, tokens), &alone);
      EXPECT_LE(largest_difference(hidden.narrow(0, b, 1).narrow(1, 0, tokens), want), kRounding) << b;
      expect_same_state({state[b]}, alone, kRounding);
    }
  }
}

TEST_P(EngineMatchesModel, InAnyChunks) {
  constexpr int64_t kTime = 45;
  for (const int64_t batch : {1, 3}) {
    const Tensor ids = ids_for(*engine_, batch, kTime);
    EngineState reference = twin_->initial_state(batch);
    const Tensor want = twin_->hidden(ids, &reference);
    for (const int64_t chunk : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{7}, kTime}) {
      EngineState state = engine_->initial_state(batch);
      EXPECT_LE(largest_difference(hidden_in_chunks(*engine_, ids, chunk, state), want), kRounding) << chunk;
      expect_same_state(state, reference, kRounding);
    }
    EXPECT_LE(largest_difference(engine_->hidden(ids, nullptr), want), kRounding);
    EXPECT_LE(largest_difference(engine_->logits(want), twin_->logits(want)), kRounding);
  }
}

TEST_P(EngineMatchesModel, WithRowsAtTheirOwnPositionsAndLengths) {
  EngineState state, reference;
  for (const int64_t age : {0, 3, 20}) {  // the window is 9
    EngineState one = engine_->initial_state(1), other = twin_->initial_state(1);
    if (age > 0) {
      const Tensor ids = ids_for(*engine_, 1, age, 10 + age);
      engine_->hidden(ids, &one);
      twin_->hidden(ids, &other);
    }
    state.push_back(one[0]);
    reference.push_back(other[0]);
  }
  for (const int64_t time : {1, 4, 12}) {
    const Tensor ids = ids_for(*engine_, 3, time, 20 + time);
    const PassOptions options{.lengths = at::tensor({time, time / 2, int64_t{0}}, at::kLong)};
    EXPECT_LE(largest_difference(engine_->hidden(ids, &state, options), twin_->hidden(ids, &reference, options)),
              kRounding);
    EXPECT_LE(largest_difference(engine_->hidden(ids, &state), twin_->hidden(ids, &reference)), kRounding);
    expect_same_state(state, reference, kRounding);
  }
}

TEST_P(EngineMatchesModel, WithSmallerWeights) {
  for (const WeightType type : {WeightType::kBF16, WeightType::kInt8}) {
    // The model with the weights as they are after rounding.
    std::shared_ptr<LanguageModel> rounded = make_test_model(GetParam().config);
    rounded->visit([&](const std::string& name, Tensor& p) {
      if (is_stored_smaller(name)) p.copy_(widened(quantize(p, type)));
    });
    const auto twin = make_model_engine(rounded);
    const auto engine = make_engine(EngineWeights(make_test_model(GetParam().config), type));
    const Tensor ids = ids_for(*engine, 2, 40);
    for (const int64_t chunk : {1, 4, 40}) {
      EngineState state = engine->initial_state(2), reference = twin->initial_state(2);
      const Tensor want = hidden_in_chunks(*twin, ids, chunk, reference);
      const double error = largest_difference(hidden_in_chunks(*engine, ids, chunk, state), want);
      EXPECT_LE(error, 2e-2) << "type " << static_cast<int>(type) << ", chunk " << chunk;  // operands have 16 bits
    }
  }
}

TEST_P(EngineMatchesModel, InWhatATraceShows) {
  Trace got, want;
  const Tensor ids = ids_for(*engine_, 2, 11);
  const PassOptions lengths{.lengths = at::tensor({11, 6}, at::kLong)};
  engine_->hidden(ids, nullptr, {.lengths = lengths.lengths, .trace = &got});
  twin_->hidden(ids, nullptr, {.lengths = lengths.lengths, .trace = &want});
  EXPECT_EQ(got.num_groups, want.num_groups);
  const auto row = [](const Tensor& x, int64_t b) { return x[b].narrow(0, 0, b == 0 ? 11 : 6); };  // without padding
  const auto compare = [&](const std::vector<Tensor>& a, const std::vector<Tensor>& b, const char* what) {
    ASSERT_EQ(a.size(), b.size()) << what;
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].sizes(), b[i].sizes()) << what;
      for (const int64_t r : {0, 1})
        EXPECT_LE(largest_difference(row(a[i], r), row(b[i], r)), kRounding) << what << ' ' << i;
    }
  };
  compare(got.hidden, want.hidden, "hidden");
  compare(got.groups, want.groups, "groups");
  compare(got.routes, want.routes, "routes");
  compare(got.route_weights, want.route_weights, "route_weights");
  compare(got.read_weights, want.read_weights, "read_weights");
  ASSERT_EQ(got.path.size(), want.path.size());
  for (size_t level = 0; level < got.path.size(); ++level)
    for (const int64_t r : {0, 1})
      EXPECT_LE(
          (row(*got.path[level].turns, r) - row(*want.path[level].turns, r)).to(at::kDouble).abs().max().item<double>(),
          kRounding * 0x1p32);
  for (size_t level = 0; level < got.groups.size(); ++level)
    EXPECT_TRUE((got.groups[level][1].narrow(0, 6, 5) == -1).all().item<bool>());
}

TEST(EngineMatchesModelWith, EverySwitch) {
  const std::shared_ptr<const LanguageModel> model = make_test_model(with_full_attention(small_config()));
  for (const MemorySwitches& switches :
       {MemorySwitches{.recurrence = false}, MemorySwitches{.recurrence = true},
        MemorySwitches{.zero_embeddings = ZeroEmbeddings::kAll},
        MemorySwitches{.zero_embeddings = ZeroEmbeddings::kRoot},
        MemorySwitches{.zero_embeddings = ZeroEmbeddings::kLeaf}, MemorySwitches{.unconstrained = true}}) {
    const auto engine = make_engine(model, switches), twin = make_model_engine(model, switches);
    const auto plain = make_engine(model);
    const Tensor ids = ids_for(*engine, 2, 30);
    for (const int64_t chunk : {1, 5, 30}) {
      EngineState state = engine->initial_state(2), reference = twin->initial_state(2), other = plain->initial_state(2);
      const Tensor want = hidden_in_chunks(*twin, ids, chunk, reference);
      EXPECT_LE(largest_difference(hidden_in_chunks(*engine, ids, chunk, state), want), kRounding);
      expect_same_state(state, reference, kRounding);
      if (switches.recurrence.value_or(false)) continue;  // the others change something
      EXPECT_GT(largest_difference(hidden_in_chunks(*plain, ids, chunk, other), want), 10 * kRounding);
    }
  }
}

TEST(EngineMatchesModelWith, LossesOfTheModel) {
  at::NoGradGuard no_grad;
  const auto model = small_model(small_config());
  const auto engine = make_engine(*model);
  const Tensor ids = random_ids(small_config(), 2, 20), targets = next_byte_targets(ids);
  EXPECT_LE(largest_difference(engine->losses(ids, targets, nullptr), model->losses(ids, targets)), kRounding);
}

// Engines with other switches share the packed weights.
TEST(EngineWeights, ArePackedOnce) {
  const EngineWeights weights(make_test_model(small_config()), WeightType::kInt8);
  const auto first = make_engine(weights), second = make_engine(weights, {.recurrence = false});
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  EXPECT_TRUE(weights.read_packed(name).data.is_same(weights.read_packed(name).data));
}

TEST(Engine, RefersToTheWeightsOfAFloat32Model) {
  const auto model = small_model(small_config());
  EXPECT_TRUE(make_engine(*model)->head_weight().is_alias_of(model->head_weight()));
}

TEST(Engine, RunsModelsOfAnyDtype) {
  const auto model = small_model(small_config(), 1, at::kDouble);
  at::NoGradGuard no_grad;
  const auto engine = make_engine(*model);
  const Tensor ids = random_ids(small_config(), 1, 12);
  EngineState state = engine->initial_state(1);
  EXPECT_LE(largest_difference(engine->logits(hidden_in_chunks(*engine, ids, 5, state)), model->logits(ids)), 1e-9);
}

}  // namespace
}  // namespace pmnet
