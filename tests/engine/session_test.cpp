#include "engine/session.h"

#include <gtest/gtest.h>

#include "engine/packed_model.h"
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
  Session session(int64_t batch = 1) const { return Session(model_, "hash", batch); }
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
  for (const ops::Implementation implementation : {ops::Implementation::kFast, ops::Implementation::kReference}) {
    const ops::ImplementationGuard guard(implementation);
    for (const int64_t chunk : {1, 7, 512}) {
      if (chunk == 1 && implementation == ops::Implementation::kReference) continue;
      Session stream = session(2);
      EXPECT_LE(largest_difference(feed_in_chunks(stream, ids, chunk), whole), kLimit) << chunk;
      EXPECT_EQ(stream.position(1), 700);
    }
  }
}

TEST_P(Streaming, ASmallInternalChunkChangesNothing) {
  at::NoGradGuard no_grad;
  const Tensor ids = text(100);
  Session stream = session();
  stream.chunk = 13;
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

// The bytes that a state's tensors really hold on to.
int64_t held_bytes(State state) {
  int64_t total = 0;
  state.visit([&](const std::string&, Tensor& t) { total += static_cast<int64_t>(t.storage().nbytes()); });
  return total;
}

TEST(StreamingState, HasOneSizeOnceTheWindowIsFull) {
  const PmnetConfig config = small_config();
  Session stream(small_model(config), "hash");
  stream.feed(random_ids(config, 1, config.sliding_window));
  const int64_t size = stream.state().bytes();
  for (const int64_t chunk : {5, 300, 2000}) {
    stream.feed(random_ids(config, 1, chunk, chunk));
    EXPECT_EQ(stream.state().bytes(), size) << "after a chunk of " << chunk;
    EXPECT_EQ(held_bytes(stream.state()), size) << "after a chunk of " << chunk;
  }
}

// Byte by byte, keys and values move through storage with room for half a window more.
TEST(StreamingState, ByteByByteHoldsAtMostHalfAsMuchAgain) {
  const PmnetConfig config = small_config();
  Session stream(small_model(config), "hash");
  stream.feed(random_ids(config, 1, config.sliding_window));
  const int64_t size = stream.state().bytes();
  for (int64_t byte = 0; byte < 5 * config.sliding_window; ++byte) {
    stream.feed(random_ids(config, 1, 1, byte));
    EXPECT_EQ(stream.state().bytes(), size) << "after byte " << byte;
    EXPECT_LE(held_bytes(stream.state()), size * 3 / 2 + 1024) << "after byte " << byte;
  }
}

// Decoding writes into its state; whoever took a copy before must not notice.
TEST(StreamingState, CopiesAreNotDisturbedByBytesReadLater) {
  for (const PmnetConfig& config : {small_config(), with_full_attention(small_config())}) {
    const auto model = small_model(config);
    Session stream(model, "hash", 2);
    for (int64_t byte = 0; byte < 30; ++byte) {
      stream.feed(random_ids(config, 2, 1, byte));
      if (byte % 7 != 0) continue;
      const State copy = stream.state();
      State kept = copy.detached();
      std::vector<Tensor> before;
      kept.visit([&](const std::string&, Tensor& t) { before.push_back(t.clone()); });
      Session fork = stream.fork();
      for (int64_t more = 0; more < 12; ++more) fork.feed(random_ids(config, 2, 1, 100 + more));
      State now = copy;
      size_t i = 0;
      now.visit([&](const std::string& name, Tensor& t) { EXPECT_TRUE(at::equal(t, before.at(i++))) << name; });
    }
  }
}

// One byte at a time takes a path of its own; the general one, on plain tensors, must give the same.
TEST(StreamingState, ByteByByteAgreesWithThePlainPath) {
  using kernels::WeightType;
  for (const PmnetConfig& config : {small_config(), with_full_attention(small_config())})
    for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kInt8})
      for (const int64_t batch : {2, 8}) {
        const auto model = small_model(config);
        round_weights(*model, type);
        pack_weights(*model);
        Session fast(model, "hash", batch), plain(model, "hash", batch);
        for (Session* session : {&fast, &plain}) {
          session->feed(random_ids(config, batch, 5, 50));
          session->reset(1);  // the rows are now of different age
        }
        // The path of its own multiplies bf16 and int8 weights with vectors rounded to 16 bits.
        const double limit = type == WeightType::kF32 ? kLimit : 2e-3;
        for (int64_t byte = 0; byte < 40; ++byte) {
          const Tensor id = random_ids(config, batch, 1, byte), got = fast.feed(id);
          const ops::ImplementationGuard guard(ops::Implementation::kReference);
          ASSERT_LE(largest_difference(got, plain.feed(id)), limit) << "byte " << byte << ", type " << int(type);
        }
      }
}

TEST(StreamingState, RefusesIdsOutsideTheVocabulary) {
  const auto model = small_model(small_config());
  Session stream(model, "hash");
  for (const int64_t id : {int64_t{-1}, model->vocab_size()})
    EXPECT_NE(user_error_of([&] { stream.feed(std::vector<int64_t>{id}); }).find("vocabulary of 40"),
              std::string::npos);
}

TEST(StreamingState, UnconstrainedSumsStreamToo) {
  at::NoGradGuard no_grad;
  const auto model = small_model(small_config());
  ForwardOptions options;
  options.memory.unconstrained = true;
  Session stream(model, "hash", 1, options.memory);
  const Tensor ids = random_ids(small_config(), 1, 40);
  const Tensor whole = model->logits(ids, nullptr, options);
  EXPECT_LE(largest_difference(feed_in_chunks(stream, ids, 7), whole), kLimit);
}

}  // namespace
}  // namespace pmnet
