#include "train/sample_parallel.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "support/differences.h"
#include "support/small_model.h"

namespace pmnet {
namespace {

class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

// Rows of different lengths, dropout by sample, and a memory from an earlier text.
struct Samples {
  std::shared_ptr<PMNet> model;
  SequenceBatch batch;
  ModelState before, after;
  LossOptions options;

  explicit Samples(int64_t chunk = 0, int64_t rows = 7, int64_t time = 40) {
    PmnetConfig config = small_config();
    config.attention_dropout = 0.2;
    model = small_model(config);
    model->require_gradients(true);
    const Tensor ids = random_ids(config, rows, time);
    batch = {ids, next_byte_targets(ids)};
    batch.targets[2].narrow(0, 10, time - 10).fill_(-1);
    before = model->initial_state(rows);
    {
      const at::NoGradGuard no_grad;
      const Threads one(1);  // small tensors: threads would only wait for each other
      model->hidden(random_ids(config, rows, 12, /*seed=*/9), &before, {}, nullptr);
    }
    options.forward.training = true;
    options.forward.dropout = {.seed = 5, .step = 17, .samples = {}};
    if (rows == 7) options.forward.dropout.samples = {3, 900, 4, 11, 12, 70, 8};
    options.forward.lengths = at::full({rows}, time, at::kLong);
    (*options.forward.lengths)[2] = 11;
    options.chunk = chunk;
    options.scale = 1.0 / static_cast<double>(rows * time);
    options.initial = &before;
    options.final_state = &after;
  }

  struct Outcome {
    LossSum sum;
    std::vector<std::pair<std::string, Tensor>> gradients;
    ModelState after;
  };

  // Twice in a row, as the parts of an accumulated batch: gradients add up.
  Outcome run(int threads) {
    const Threads guard(threads);
    SampleParallel samples(*model);
    samples.loss_and_gradients(batch, options);
    Outcome outcome{samples.loss_and_gradients(batch, options), {}, after};
    for (auto& [name, p] : model->named_parameters()) {
      outcome.gradients.emplace_back(name, p.grad());
      p.mutable_grad() = Tensor();
    }
    return outcome;
  }
};

TEST(SampleParallel, GradientsEqualTheOnesOfOnePass) {
  Samples whole_samples, in_chunks(/*chunk=*/9), several_passes_per_part(/*chunk=*/0, /*rows=*/18, /*time=*/1024);
  for (Samples* samples : {&whole_samples, &in_chunks, &several_passes_per_part}) {
    Samples& s = *samples;
    const Samples::Outcome whole = s.run(1);
    for (const int threads : {2, 3}) {
      Samples::Outcome parts = s.run(threads);
      EXPECT_NEAR(parts.sum.loss, whole.sum.loss, 1e-6 * whole.sum.loss);
      EXPECT_EQ(parts.sum.bytes, whole.sum.bytes);
      for (size_t i = 0; i < whole.gradients.size(); ++i) {
        const auto& [name, want] = whole.gradients[i];
        const double largest = want.abs().max().item<double>();
        ASSERT_GT(largest, 0) << name;
        EXPECT_LE(largest_difference(parts.gradients[i].second, want), 1e-5 * largest) << name;
      }
      std::vector<Tensor> states;
      ModelState want = whole.after;
      want.visit([&](const std::string&, Tensor& tensor) { states.push_back(tensor); });
      size_t next = 0;
      parts.after.visit([&](const std::string& name, Tensor& tensor) {
        EXPECT_LE(largest_difference(tensor.to(at::kDouble), states.at(next).to(at::kDouble)),
                  1e-5 * states.at(next).abs().max().item<double>())
            << name;
        ++next;
      });
    }
  }
}

TEST(SampleParallel, EqualThreadsGiveEqualBits) {
  Samples s;
  const Samples::Outcome first = s.run(2);
  for (int repeat = 0; repeat < 10; ++repeat) {
    const Samples::Outcome again = s.run(2);
    EXPECT_EQ(again.sum.loss, first.sum.loss);
    for (size_t i = 0; i < first.gradients.size(); ++i)
      EXPECT_TRUE(at::equal(again.gradients[i].second, first.gradients[i].second)) << first.gradients[i].first;
  }
}

TEST(SampleParallel, OneThreadIsOnePass) {
  Samples s;
  const Samples::Outcome parts = s.run(1);
  const Threads one(1);
  loss_and_gradients(*s.model, s.batch, s.options);
  loss_and_gradients(*s.model, s.batch, s.options);
  size_t next = 0;
  for (const auto& [name, p] : s.model->named_parameters())
    EXPECT_TRUE(at::equal(p.grad(), parts.gradients[next++].second)) << name;
}

TEST(SampleParallel, FollowsTheWeights) {
  Samples s;
  const Threads two(2);
  SampleParallel samples(*s.model);
  const double before = samples.loss_and_gradients(s.batch, s.options).loss;
  {
    const at::NoGradGuard no_grad;
    s.model->embed_tokens.mul_(0.5);
  }
  EXPECT_GT(std::abs(samples.loss_and_gradients(s.batch, s.options).loss - before), 1e-3);
}

TEST(SampleParallel, WhoeverIsAskedBetweenChunksMayStop) {
  Samples s(/*chunk=*/9);
  const Threads two(2);
  SampleParallel samples(*s.model);
  s.options.between = [] { throw std::runtime_error("stop"); };
  EXPECT_THROW(samples.loss_and_gradients(s.batch, s.options), std::runtime_error);
  for (const auto& [name, p] : s.model->named_parameters()) EXPECT_FALSE(p.grad().defined()) << name;
}

TEST(SampleParallel, LargeModelsFewRowsAndOneThreadStayWhole) {
  constexpr int64_t kSmall = 100'000, kLarge = 30'000'000;
  EXPECT_EQ(sample_parts(64, 128, kSmall, 1), 1);
  EXPECT_EQ(sample_parts(1, 128, kSmall, 2), 1);
  EXPECT_EQ(sample_parts(64, 128, kLarge, 2), 1);
  EXPECT_EQ(sample_parts(2, 1024, kSmall, 2), 2);
  EXPECT_EQ(sample_parts(128, 1024, kSmall, 2), 8);  // more parts than threads, but not for small batches
  EXPECT_EQ(sample_parts(16, 64, kSmall, 2), 2);
}

}  // namespace
}  // namespace pmnet
