// Sessions of one engine on several threads at once give what they give one after the other. The passes are short, so
// that all parallel work runs on the engine's pool and none in OpenMP regions, which thread sanitizers do not know.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

#include "config/presets.h"
#include "engine/session.h"
#include "support/small_model.h"

namespace pmnet {
namespace {

TEST(Threads, MayRunSessionsOfOneEngine) {
  constexpr int kThreads = 4, kBytes = 40;
  const PmnetConfig config = small_config();
  for (const ModelConfig& kind :
       {ModelConfig(config), ModelConfig(transformer_like(config)), ModelConfig(mamba_like(config))}) {
    std::shared_ptr<LanguageModel> model = make_model(kind);
    model->initialize(1);
    const auto engine = make_engine(*model);
    const auto write = [&](int number) {
      Session session(engine);
      session.read(random_ids(config, 1, 2, number));
      std::vector<int64_t> bytes;
      for (int i = 0; i < kBytes; ++i) {
        const Tensor next = session.last_logits().argmax(-1, /*keepdim=*/true);
        bytes.push_back(next.item<int64_t>());
        session.read(next);
        if (i == kBytes / 2) session = session.fork();
      }
      return bytes;
    };
    std::vector<std::vector<int64_t>> alone(kThreads), together(kThreads);
    for (int i = 0; i < kThreads; ++i) alone[i] = write(i);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { together[i] = write(i); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(together, alone);
  }
}

}  // namespace
}  // namespace pmnet
