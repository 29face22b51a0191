#include "engine/session.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <atomic>
#include <new>

#include "support/differences.h"
#include "support/errors.h"
#include "support/one_thread.h"
#include "support/small_model.h"

namespace pmnet {
namespace {

constexpr double kLimit = 1e-4;

Tensor feed_in_chunks(Session& session, const Tensor& ids, int64_t chunk) {
  std::vector<Tensor> pieces;
  for (int64_t begin = 0; begin < ids.size(1); begin += chunk)
    pieces.push_back(session.feed(ids.narrow(1, begin, std::min(chunk, ids.size(1) - begin))));
  return at::cat(pieces, 1);
}

class Streaming : public testing::TestWithParam<bool> {
 protected:
  PmnetConfig config_ = GetParam() ? with_full_attention(small_config()) : small_config();
  std::shared_ptr<PMNet> model_ = small_model(config_);
  std::shared_ptr<const Engine> engine_ = make_engine(*model_);
  Session session(int64_t batch = 1) const { return Session(engine_, batch); }
  Tensor text(int64_t time, uint64_t seed = 3, int64_t batch = 1) const {
    return random_ids(config_, batch, time, seed);
  }
};

INSTANTIATE_TEST_SUITE_P(Attention, Streaming, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "full_mix" : "sliding"; });

TEST_P(Streaming, ChunksGiveTheLogitsOfOnePass) {
  at::NoGradGuard no_grad;
  const OneThread one_thread;
  const Tensor ids = text(700, 3, 2), whole = model_->logits(ids);
  for (const int64_t chunk : {1, 7, 512}) {
    Session stream = session(2);
    EXPECT_LE(largest_difference(feed_in_chunks(stream, ids, chunk), whole), kLimit) << chunk;
    EXPECT_EQ(stream.position(1), 700);
  }
}

TEST_P(Streaming, ASmallInternalChunkChangesNothing) {
  at::NoGradGuard no_grad;
  const Tensor ids = text(100);
  Session stream = session();
  stream.set_chunk(13);
  EXPECT_LE(largest_difference(stream.feed(ids), model_->logits(ids)), kLimit);
}

TEST_P(Streaming, ReadGivesTheLastLogits) {
  Session a = session(), b = session();
  const Tensor ids = text(50), all = a.feed(ids), last = b.read(ids);
  EXPECT_LE(largest_difference(all.select(1, 49), last), 1e-5);
  EXPECT_TRUE(at::equal(last, b.last_logits()));
  EXPECT_TRUE(at::equal(all.select(1, 49), a.last_logits()));
}

TEST_P(Streaming, EmptyInputChangesNothing) {
  Session stream = session();
  EXPECT_EQ(stream.feed(std::vector<int64_t>{}).sizes(), (std::vector<int64_t>{1, 0, config_.vocab_size}));
  EXPECT_FALSE(stream.last_logits().defined());
  stream.feed(text(5));
  const Tensor before = stream.last_logits().clone();
  stream.feed(text(0));
  EXPECT_TRUE(at::equal(stream.last_logits(), before));
  EXPECT_EQ(stream.position(), 5);
}

TEST_P(Streaming, InterleavedSessionsEqualSeparateOnes) {
  const Tensor first = text(60, 4), second = text(60, 5);
  Session a = session(), b = session(), a_alone = session(), b_alone = session();
  std::vector<Tensor> from_a, from_b;
  for (int64_t begin = 0; begin < 60; begin += 6) {
    from_a.push_back(a.feed(first.narrow(1, begin, 6)));
    from_b.push_back(b.feed(second.narrow(1, begin, 6)));
  }
  EXPECT_TRUE(at::equal(at::cat(from_a, 1), feed_in_chunks(a_alone, first, 6)));
  EXPECT_TRUE(at::equal(at::cat(from_b, 1), feed_in_chunks(b_alone, second, 6)));
}

// Streams of ages 0, 3, 20 and 40 (with a window of 9) put into one batch and continued together.
TEST_P(Streaming, ABatchOfDifferentAgesEqualsSeparateSessions) {
  const std::vector<int64_t> ages{0, 3, 20, 40};
  const Tensor more = text(30, 9, 4);
  Session batch = session(4);
  std::vector<Session> alone;
  for (int64_t row = 0; row < 4; ++row) {
    alone.push_back(session());
    if (ages[row] > 0) alone[row].feed(text(ages[row], 10 + row));
    batch.replace(row, alone[row], 0);
    EXPECT_EQ(batch.position(row), ages[row]);
  }
  for (int64_t begin = 0; begin < 30; begin += 10) {
    const Tensor together = batch.feed(more.narrow(1, begin, 10));
    for (int64_t row = 0; row < 4; ++row) {
      const Tensor separate = alone[row].feed(more.narrow(0, row, 1).narrow(1, begin, 10));
      EXPECT_LE(largest_difference(together.narrow(0, row, 1), separate), kLimit) << "row " << row;
    }
  }
}

TEST_P(Streaming, AResetRowStartsAnewAndOthersGoOn) {
  Session batch = session(2), undisturbed = session(2), fresh = session();
  const Tensor before = text(25, 20, 2), after = text(25, 21, 2);
  batch.feed(before);
  undisturbed.feed(before);
  batch.reset(0);
  EXPECT_EQ(batch.position(0), 0);
  EXPECT_EQ(batch.position(1), 25);
  EXPECT_EQ(batch.last_logits()[0].abs().max().item<float>(), 0);
  EXPECT_TRUE(at::equal(batch.last_logits()[1], undisturbed.last_logits()[1]));
  const Tensor logits = batch.feed(after);
  EXPECT_LE(largest_difference(logits.narrow(0, 0, 1), fresh.feed(after.narrow(0, 0, 1))), kLimit);
  EXPECT_LE(largest_difference(logits.narrow(0, 1, 1), undisturbed.feed(after).narrow(0, 1, 1)), kLimit);
}

TEST_P(Streaming, AReplacedRowBringsItsLastLogits) {
  Session batch = session(2), other = session();
  other.feed(text(12));
  batch.replace(1, other, 0);
  EXPECT_TRUE(at::equal(batch.last_logits()[1], other.last_logits()[0]));
}

TEST_P(Streaming, ForksGoTheirOwnWay) {
  Session trunk = session(), straight = session();
  const Tensor start = text(30, 30), left = text(20, 31), right = text(20, 32);
  trunk.feed(start);
  Session fork = trunk.fork();
  fork.feed(right);
  straight.feed(start);
  EXPECT_TRUE(at::equal(trunk.feed(left), straight.feed(left)));
  EXPECT_EQ(fork.position(), 50);
}

TEST_P(Streaming, RewindReturnsToAKeptPoint) {
  Session stream = session();
  stream.feed(text(15, 40));
  const size_t early = stream.keep_point();
  const Tensor logits_early = stream.last_logits().clone(), continued = stream.feed(text(20, 41));
  const size_t late = stream.keep_point();
  stream.feed(text(20, 42));
  stream.rewind(late);
  EXPECT_EQ(stream.position(), 35);
  stream.rewind(early);
  EXPECT_EQ(stream.num_points(), 1u);
  EXPECT_TRUE(at::equal(stream.last_logits(), logits_early));
  EXPECT_TRUE(at::equal(stream.feed(text(20, 41)), continued));
  EXPECT_NE(user_error_of([&] { stream.rewind(1); }).find("no kept point 1"), std::string::npos);
}

TEST(StreamingState, HasOneSizeOnceTheWindowIsFull) {
  const PmnetConfig config = small_config();
  const auto model = small_model(config);
  Session stream(make_engine(*model));
  stream.feed(random_ids(config, 1, config.sliding_window));
  const int64_t size = state_bytes(stream.state());
  for (const int64_t chunk : {1, 5, 1, 300, 2000, 1}) {
    stream.feed(random_ids(config, 1, chunk, chunk));
    EXPECT_EQ(state_bytes(stream.state()), size) << "after a chunk of " << chunk;
    for (const KvWindow& window : stream.state()[0].attention)  // with room for tokens to come
      EXPECT_LE(window.keys().storage().nbytes(), 2 * config.sliding_window * window.keys()[0][0].nbytes());
  }
}

// Passes write into the state of their session; copies taken before must not change.
TEST(StreamingState, CopiesAreNotDisturbedByBytesReadLater) {
  for (const PmnetConfig& config : {small_config(), with_full_attention(small_config())}) {
    const auto model = small_model(config);
    Session stream(make_engine(*model), 2);
    for (int64_t byte = 0; byte < 30; ++byte) {
      stream.feed(random_ids(config, 2, 1, byte));
      if (byte % 7 != 0) continue;
      const EngineState copy = stream.state();
      std::vector<Tensor> before;
      to_model_state(copy).visit([&](const std::string&, Tensor& t) { before.push_back(t.clone()); });
      Session fork = stream.fork();
      for (int64_t more = 0; more < 12; ++more) fork.feed(random_ids(config, 2, 1, 100 + more));
      size_t i = 0;
      to_model_state(copy).visit(
          [&](const std::string& name, Tensor& t) { EXPECT_TRUE(at::equal(t, before.at(i++))) << name; });
    }
  }
}

// An allocator that runs out of memory at a chosen allocation.
class FailingAllocator final : public c10::Allocator {
 public:
  explicit FailingAllocator(c10::Allocator* inner) : inner_(inner) {}
  c10::DataPtr allocate(size_t bytes) override {
    if (left_-- == 0) throw std::bad_alloc();
    return inner_->allocate(bytes);
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
  void fail_after(int64_t allocations) { left_ = allocations; }

 private:
  c10::Allocator* inner_;
  std::atomic<int64_t> left_ = -1;
};

TEST(StreamingState, APassThatFailsLeavesItAsItWas) {
  const PmnetConfig config = with_full_attention(small_config());
  const auto model = small_model(config);
  c10::Allocator* usual = c10::GetCPUAllocator();
  static FailingAllocator failing(usual);
  for (const int64_t time : {1, 5, 40}) {
    const Tensor start = random_ids(config, 2, 15), more = random_ids(config, 2, time, 5);
    Session undisturbed(make_engine(*model), 2);
    undisturbed.feed(start);
    const Tensor want = undisturbed.feed(more);
    int failures = 0;
    for (int64_t allocations = 0; allocations < 400; allocations += time < 40 ? 1 : 7) {
      Session session(make_engine(*model), 2);
      session.feed(start);
      c10::SetCPUAllocator(&failing, /*priority=*/1);
      failing.fail_after(allocations);
      bool failed = false;
      try {
        session.feed(more);
      } catch (const std::bad_alloc&) {
        failed = true;
      }
      failing.fail_after(-1);
      c10::SetCPUAllocator(usual, /*priority=*/1);
      if (!failed || session.position() != 15) break;  // so late that the pass was over
      ++failures;
      ASSERT_EQ(session.position(1), 15);
      ASSERT_TRUE(at::equal(session.feed(more), want)) << allocations;
    }
    EXPECT_GT(failures, time == 1 ? 0 : 2) << time;  // one token often finds room in every window
  }
}

TEST(StreamingState, AChunkOfNothingIsRefused) {
  const auto model = small_model(small_config());
  Session stream(make_engine(*model));
  for (const int64_t chunk : {0, -1})
    EXPECT_NE(user_error_of([&] { stream.set_chunk(chunk); }).find("at least 1"), std::string::npos);
}

// The model's config allows windows up to 2^31 - 1; memory is taken as tokens are read.
TEST(StreamingState, AHugeWindowTakesNoMemoryInAdvance) {
  PmnetConfig config = small_config();
  config.sliding_window = (int64_t{1} << 31) - 1;
  const auto model = small_model(config);
  Session stream(make_engine(*model));
  for (int64_t i = 0; i < 3; ++i) stream.feed(random_ids(config, 1, 1, i));
  EXPECT_EQ(stream.position(), 3);
}

TEST(StreamingState, RefusesIdsOutsideTheVocabulary) {
  const auto model = small_model(small_config());
  Session stream(make_engine(*model));
  for (const int64_t id : {int64_t{-1}, model->vocab_size()})
    EXPECT_NE(user_error_of([&] { stream.feed(std::vector<int64_t>{id}); }).find("vocabulary of 40"),
              std::string::npos);
}

TEST(StreamingState, UnconstrainedSumsStreamToo) {
  at::NoGradGuard no_grad;
  const auto model = small_model(small_config());
  ForwardOptions options;
  options.memory.unconstrained = true;
  Session stream(make_engine(*model, options.memory));
  const Tensor ids = random_ids(small_config(), 1, 40);
  const Tensor whole = model->logits(ids, nullptr, options);
  EXPECT_LE(largest_difference(feed_in_chunks(stream, ids, 7), whole), kLimit);
}

}  // namespace
}  // namespace pmnet
