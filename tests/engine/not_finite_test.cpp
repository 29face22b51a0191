// Turns cannot represent NaN: where a model has one, its logits must say so.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/session.h"
#include "support/errors.h"
#include "support/small_model.h"

namespace pmnet {
namespace {

// The model with one parameter of NaN.
std::shared_ptr<PMNet> damaged_model(const PmnetConfig& config, const std::string& damaged) {
  auto model = small_model(config);
  int64_t found = 0;
  model->visit([&](const std::string& name, Tensor& p) {
    if (name != damaged) return;
    p.fill_(NAN);
    ++found;
  });
  EXPECT_EQ(found, 1) << damaged;
  return model;
}

TEST(NotFinite, WritesMakeTheLogitsNaN) {
  const PmnetConfig config = small_config();
  const Tensor ids = random_ids(config, 2, 20);
  for (const char* part : {"norm.weight", "proj_q.weight", "proj_k.weight", "proj_v.weight", "proj_out.bias"}) {
    for (const int layer : {0, 4}) {  // at the root, and where no later level writes
      const auto model = damaged_model(config, fmt::format("model.layers.{}.memory_write_module.{}", layer, part));
      for (const bool recurrence : {true, false}) {
        for (const int64_t chunk : {1, 20}) {
          Session session(make_engine(*model, {.recurrence = recurrence}), 2);
          session.set_chunk(chunk);
          EXPECT_TRUE(session.feed(ids).isnan().all().item<bool>()) << part << " of layer " << layer;
        }
      }
    }
  }
}

TEST(NotFinite, OneSequenceDoesNotDisturbAnother) {
  PmnetConfig config = small_config();
  config.tie_word_embeddings = false;
  const auto model = small_model(config);
  constexpr int64_t kPoison = 7;
  model->visit([](const std::string& name, Tensor& p) {
    if (name == "model.embed_tokens.weight") p[kPoison].fill_(NAN);
  });
  Tensor ids = random_ids(config, 2, 20);
  ids.masked_fill_(ids == kPoison, 8);
  const auto engine = make_engine(*model);
  const auto logits = [&] {
    Session session(engine, 2);
    session.set_chunk(1);
    return session.feed(ids);
  };
  const Tensor want = logits();
  ids[0][10] = kPoison;
  const Tensor got = logits();
  EXPECT_TRUE(want.isfinite().all().item<bool>());
  EXPECT_TRUE(at::allclose(got[1], want[1]));
  EXPECT_TRUE(at::allclose(got[0].narrow(0, 0, 10), want[0].narrow(0, 0, 10)));
  EXPECT_TRUE(got[0].narrow(0, 10, 2).isnan().all().item<bool>());
}

TEST(NotFinite, EmbeddingsOfTheMemoryAreRefused) {
  const auto model = damaged_model(small_config(), "model.memory_embeddings.1");
  EXPECT_NE(user_error_of([&] { make_engine(*model); }).find("memory embeddings hold NaN"), std::string::npos);
}

}  // namespace
}  // namespace pmnet
