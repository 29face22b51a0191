#include "eval/scorer.h"

#include <cmath>
#include <numbers>

#include "config/presets.h"
#include "support/errors.h"
#include "support/fixture.h"
#include "support/small_model.h"

namespace pmnet {
namespace {

std::vector<int64_t> random_bytes(size_t count, uint64_t seed) {
  const Tensor ids =
      at::randint(0, 250, {static_cast<int64_t>(count)}, at::make_generator<at::CPUGeneratorImpl>(seed), at::kLong);
  return {ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + count};
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

std::vector<double> bits_in_chunks(const std::shared_ptr<const LanguageModel>& model, const std::vector<int64_t>& ids,
                                   size_t chunk, const MemorySwitches& switches = {}) {
  Scorer scorer(make_engine(*model, switches));
  std::vector<double> bits;
  for (size_t begin = 0; begin < ids.size(); begin += chunk) {
    const size_t count = std::min(chunk, ids.size() - begin);
    const std::vector<double> chunk_bits = scorer.score({std::span(ids).subspan(begin, count)}).front();
    bits.insert(bits.end(), chunk_bits.begin(), chunk_bits.end());
  }
  return bits;
}

// All three architectures, small, over bytes, with weights that matter.
std::vector<std::shared_ptr<LanguageModel>> byte_models() {
  PmnetConfig small = small_config();
  small.vocab_size = 300;
  small.bos_token_id = 256;
  small.eos_token_id = 257;
  std::vector<std::shared_ptr<LanguageModel>> models = {small_model(small)};
  for (const ModelConfig& config : {ModelConfig(transformer_like(small)), ModelConfig(mamba_like(small))}) {
    models.push_back(make_model(config));
    models.back()->initialize(5);
    models.back()->visit([](const std::string& name, Tensor& p) {
      if (p.dim() == 2 && name.find("A_log") == std::string::npos) p.mul_(4);
    });
  }
  return models;
}

TEST(Scorer, UniformLogitsCostTheLogarithmOfTheVocabulary) {
  for (const auto& model : byte_models()) {
    const_cast<Tensor&>(model->head_weight()).zero_();
    const std::vector<double> bits = bits_in_chunks(model, random_bytes(300, 1), 100);
    EXPECT_EQ(bits.size(), 300u);
    EXPECT_NEAR(sum(bits) / 300, std::log2(300.0), 1e-6);
  }
}

// The recorded loss is the mean over both rows of what all ids but the first cost.
TEST(Scorer, CostsWhatTheReferenceRecorded) {
  for (const char* name : {"base", "grouped_query", "uneven_depth", "write_every_layer", "llama", "mamba"}) {
    const Fixture fixture = load_fixture(name);
    const std::shared_ptr<const LanguageModel> model = model_of(fixture);
    const Tensor ids = fixture.expected.at("input_ids");
    const double expected = fixture.expected.at("loss").item<double>() / std::numbers::ln2;
    double bits = 0, count = 0;
    for (int64_t row = 0; row < ids.size(0); ++row) {
      const int64_t* first = ids.const_data_ptr<int64_t>() + row * ids.size(1);
      const std::vector<int64_t> stream(first, first + ids.size(1));
      ASSERT_EQ(stream.front(), bos_token_id(model->model_config())) << "the recorded texts begin as ours do";
      bits += sum(bits_in_chunks(model, {stream.begin() + 1, stream.end()}, 25));
      count += static_cast<double>(stream.size() - 1);
    }
    EXPECT_NEAR(bits / count, expected, 1e-5) << name;
  }
}

TEST(Scorer, ChunksDoNotMatter) {
  for (const auto& model : byte_models()) {
    const std::vector<int64_t> ids = random_bytes(1500, 2);
    const double whole = sum(bits_in_chunks(model, ids, 30'720)) / 1500;
    EXPECT_NEAR(sum(bits_in_chunks(model, ids, 512)) / 1500, whole, 1e-5);
    EXPECT_NEAR(sum(bits_in_chunks(model, ids, 1)) / 1500, whole, 1e-5);
  }
}

// The chunked passes of one call, of several calls, and the plain loss of the model agree.
TEST(Scorer, ATextCostsTheSameInOneCallAndInMany) {
  for (const auto& model : byte_models()) {
    std::string text;
    for (const int64_t id : random_bytes(700, 7)) text += static_cast<char>(id);
    int passes = 0;
    const std::vector<double> bits =
        Scorer(make_engine(*model)).score(text, {.chunk = 64, .before_pass = [&] { ++passes; }, .after_pass = {}});
    EXPECT_EQ(passes, 11);
    ASSERT_EQ(bits.size(), 700u);
    Scorer carried(make_engine(*model));
    const double first = sum(carried.score(std::string_view(text).substr(0, 333), {.chunk = 100}));
    EXPECT_NEAR(first + sum(carried.score(std::string_view(text).substr(333))), sum(bits), 1e-2);
    EXPECT_NEAR(bits_per_byte(make_engine(*model), text), sum(bits) / 700, 1e-5);

    at::NoGradGuard no_grad;
    std::vector<int64_t> ids = byte_ids(text);
    ids.insert(ids.begin(), bos_token_id(model->model_config()));
    const Tensor all = at::tensor(ids, at::kLong).unsqueeze(0);
    const Tensor nats = model->losses(all.narrow(1, 0, 700), all.narrow(1, 1, 700));
    EXPECT_NEAR(nats.sum(at::kDouble).item<double>() / std::numbers::ln2, sum(bits), 1e-2);
  }
}

TEST(Scorer, StreamsAtTheirOwnPositionsCostWhatTheyCostAlone) {
  for (const auto& model : byte_models()) {
    const auto a = random_bytes(60, 3), b = random_bytes(90, 4), c = random_bytes(40, 5);
    Scorer scorer(make_engine(*model), 2);
    std::vector<double> of_a, of_b, of_c;
    const auto append = [](std::vector<double>& to, const std::vector<double>& more) {
      to.insert(to.end(), more.begin(), more.end());
    };
    const auto part = [](const std::vector<int64_t>& ids, size_t begin, size_t count) {
      return std::span<const int64_t>(ids).subspan(begin, count);
    };
    auto bits = scorer.score({part(a, 0, 50), part(b, 0, 20)});
    append(of_a, bits[0]);
    append(of_b, bits[1]);
    bits = scorer.score({part(a, 50, 10), part(b, 20, 0)});
    append(of_a, bits[0]);
    EXPECT_TRUE(bits[1].empty());
    scorer.arrange({1, Scorer::kNewRow});  // the first has ended, another begins
    bits = scorer.score({part(b, 20, 70), part(c, 0, 40)});
    append(of_b, bits[0]);
    append(of_c, bits[1]);
    EXPECT_NEAR(sum(of_a), sum(bits_in_chunks(model, a, 60)), 1e-3);
    EXPECT_NEAR(sum(of_b), sum(bits_in_chunks(model, b, 90)), 1e-3);
    EXPECT_NEAR(sum(of_c), sum(bits_in_chunks(model, c, 40)), 1e-3);
  }
}

TEST(Scorer, SwitchesChangeWhatALaterByteCosts) {
  const auto model = byte_models().front();
  const std::vector<int64_t> ids = random_bytes(200, 6);
  const double plain = sum(bits_in_chunks(model, ids, 64));
  EXPECT_GT(std::abs(sum(bits_in_chunks(model, ids, 64, {.recurrence = false})) - plain), 0.1);
  EXPECT_GT(std::abs(sum(bits_in_chunks(model, ids, 64, {.zero_embeddings = ZeroEmbeddings::kRoot})) - plain), 0.01);
}

TEST(Scorer, RefusesVocabulariesThatAreNotBytes) {
  EXPECT_NE(user_error_of([] {
              require_byte_vocabulary(*make_engine(*small_model(small_config())), "it");
            }).find("it has a vocabulary of 40 ids"),
            std::string::npos);
  PmnetConfig large = small_config();
  large.vocab_size = 49'152;
  EXPECT_NE(user_error_of([&] { require_byte_vocabulary(*make_engine(*small_model(large)), "it"); }).find("49152"),
            std::string::npos);
}

}  // namespace
}  // namespace pmnet
