// State files: what is saved comes back to the bit, and nothing else is accepted.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/file.h"
#include "engine/session.h"
#include "model/model_folder.h"
#include "model/tensors.h"
#include "support/counting_allocator.h"
#include "support/errors.h"
#include "support/one_thread.h"
#include "support/small_model.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

class StateFile : public testing::Test {
 protected:
  Session fresh(int64_t batch = 1) const { return Session(engine_, batch); }
  Session load() const { return Session::load(file_, engine_); }
  std::string refusal() const {
    return user_error_of([&] { load(); });
  }

  // A saved session of two streams and one kept point.
  void save_sample() {
    Session session = fresh(2);
    session.feed(random_ids(config_, 2, 12));
    session.keep_point();
    session.feed(random_ids(config_, 2, 20, 5));
    session.save(file_);
  }

  // Rewrites the sample with other tensors or metadata, its checksum right.
  using Tensors = std::map<std::string, Tensor>;
  void rewrite(const std::function<void(Tensors&, Metadata&)>& change) {
    save_sample();
    const SafetensorsFile opened = SafetensorsFile::open(file_);
    Tensors tensors = read_tensors(opened);
    Metadata metadata = opened.metadata();
    metadata.erase("content");
    change(tensors, metadata);
    std::vector<Tensor> keep;
    const auto views = tensor_views({tensors.begin(), tensors.end()}, keep);
    metadata.emplace("content", tensors_hash({tensors.begin(), tensors.end()}));
    write_safetensors_atomically(file_, views, metadata);
  }

  void expect_refused(const std::string& sentence, const std::function<void(Tensors&, Metadata&)>& change) {
    rewrite(change);
    const std::string got = refusal();
    EXPECT_NE(got.find(sentence), std::string::npos) << "expected \"" << sentence << "\", got \"" << got << "\"";
    EXPECT_NE(got.find(file_.string()), std::string::npos) << got;
  }

  PmnetConfig config_ = small_config();
  std::shared_ptr<PMNet> model_ = small_model(config_);
  std::shared_ptr<const Engine> engine_ = make_engine(*model_);
  std::string hash_ = engine_->model_hash();
  TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "stream.state";
};

TEST_F(StateFile, ContinuesToTheBitFromManyPoints) {
  const OneThread one_thread;
  const Tensor ids = random_ids(config_, 1, 600);
  for (const int64_t chunk : {1, 7, 100}) {
    Session running = fresh();
    for (int64_t cut = chunk; cut < (chunk == 1 ? 30 : 600 - chunk); cut += chunk == 7 ? 21 : chunk) {
      running.feed(ids.narrow(1, running.position(), cut - running.position()));
      running.save(file_);
      Session resumed = load();
      EXPECT_TRUE(at::equal(resumed.last_logits(), running.last_logits()));
      EXPECT_EQ(resumed.position(), cut);
      Session onward = running.fork();
      EXPECT_TRUE(at::equal(resumed.feed(ids.narrow(1, cut, chunk)), onward.feed(ids.narrow(1, cut, chunk))));
    }
  }
}

TEST_F(StateFile, KeepsBatchesAndPoints) {
  Session session = fresh(3);
  session.feed(random_ids(config_, 3, 12));
  session.reset(1);
  session.keep_point();
  session.feed(random_ids(config_, 3, 5, 8));
  session.save(file_);
  Session loaded = load();
  ASSERT_EQ(loaded.batch(), 3);
  ASSERT_EQ(loaded.num_points(), 1u);
  loaded.rewind(0);
  session.rewind(0);
  EXPECT_EQ(loaded.position(0), 12);
  EXPECT_EQ(loaded.position(1), 0);
  const Tensor more = random_ids(config_, 3, 9, 11);
  EXPECT_TRUE(at::equal(loaded.feed(more), session.feed(more)));
}

TEST_F(StateFile, OfAnEmptySessionLoads) {
  fresh().save(file_);
  Session loaded = load(), new_one = fresh();
  EXPECT_FALSE(loaded.last_logits().defined());
  const Tensor ids = random_ids(config_, 1, 9);
  EXPECT_TRUE(at::equal(loaded.feed(ids), new_one.feed(ids)));
}

TEST_F(StateFile, OfUnconstrainedSumsLoads) {
  const MemorySwitches switches{.unconstrained = true};
  const auto engine = make_engine(*model_, switches);
  Session session(engine);
  session.feed(random_ids(config_, 1, 20));
  session.save(file_);
  Session loaded = Session::load(file_, engine);
  const Tensor ids = random_ids(config_, 1, 9);
  EXPECT_TRUE(at::equal(loaded.feed(ids), session.feed(ids)));
}

TEST_F(StateFile, OfAnotherModelIsRefusedByName) {
  save_sample();
  const auto other = small_model(config_, /*seed=*/2);
  const auto other_engine = make_engine(*other);
  const std::string other_hash = other_engine->model_hash();
  ASSERT_NE(other_hash, hash_);
  const std::string error = user_error_of([&] { Session::load(file_, other_engine); });
  EXPECT_NE(error.find("another model"), std::string::npos) << error;
  EXPECT_NE(error.find(hash_), std::string::npos) << error;
  EXPECT_NE(error.find(other_hash), std::string::npos) << error;
}

TEST_F(StateFile, DamageIsRefused) {
  expect_refused("is not a pmnet state file", [](Tensors&, Metadata& m) { m.erase("kind"); });
  expect_refused("is not a pmnet state file", [](Tensors&, Metadata& m) { m["kind"] = "weights"; });
  expect_refused("has state version 2", [](Tensors&, Metadata& m) { m["version"] = "2"; });
  expect_refused("no \"model\"", [](Tensors&, Metadata& m) { m.erase("model"); });
  for (const std::string bad : {"", "-1", "x", "1e3", "99999999999999999999", "65537"})
    expect_refused("metadata \"batch\"", [&](Tensors&, Metadata& m) { m["batch"] = bad; });
  expect_refused("at least one sequence", [](Tensors&, Metadata& m) { m["batch"] = "0"; });
  expect_refused("has shape [2", [](Tensors&, Metadata& m) { m["batch"] = "3"; });
  expect_refused("metadata \"points\"", [](Tensors&, Metadata& m) { m["points"] = "-1"; });
  expect_refused("point.1.positions is missing", [](Tensors&, Metadata& m) { m["points"] = "2"; });
  expect_refused("is not part of a state", [](Tensors&, Metadata& m) { m["points"] = "0"; });
  expect_refused("is not part of a state", [](Tensors& t, Metadata&) { t["extra"] = at::zeros({1}); });
  expect_refused("memory.1.turns is missing", [](Tensors& t, Metadata&) { t.erase("memory.1.turns"); });
  expect_refused("attention.0.keys is missing", [](Tensors& t, Metadata&) { t.erase("attention.0.keys"); });
  expect_refused("positions is missing", [](Tensors& t, Metadata&) { t.erase("positions"); });
  expect_refused("tensor memory.2.turns has shape [2,8,3,11]",
                 [](Tensors& t, Metadata&) { t["memory.2.turns"] = t["memory.2.turns"].narrow(1, 0, 8).contiguous(); });
  expect_refused("tensor memory.0.turns has",
                 [](Tensors& t, Metadata&) { t["memory.0.turns"] = t["memory.0.turns"].to(at::kInt); });
  expect_refused("attention.1.keys has shape", [](Tensors& t, Metadata&) {
    t["attention.1.keys"] = t["attention.1.keys"].transpose(2, 3).contiguous();
  });
  expect_refused("keys and values differ", [](Tensors& t, Metadata&) {
    t["attention.1.keys"] = t["attention.1.keys"].narrow(1, 0, 3).contiguous();
  });
  expect_refused("attention.3.values holds NaN", [](Tensors& t, Metadata&) {
    t["attention.3.values"].view({-1})[4] = std::numeric_limits<double>::quiet_NaN();
  });
  expect_refused("attention.3.keys holds NaN", [](Tensors& t, Metadata&) {
    t["attention.3.keys"].view({-1})[4] = std::numeric_limits<double>::infinity();
  });
  expect_refused("last_logits holds NaN", [](Tensors& t, Metadata&) {
    t["last_logits"].view({-1})[0] = std::numeric_limits<double>::quiet_NaN();
  });
  expect_refused("last_logits has shape",
                 [](Tensors& t, Metadata&) { t["last_logits"] = t["last_logits"].narrow(1, 0, 39).contiguous(); });
  for (const int64_t position : {int64_t{-1}, INT64_MIN, INT64_MAX})
    expect_refused("a position is out of range", [&](Tensors& t, Metadata&) { t["positions"][1] = position; });
  expect_refused("a position is out of range", [](Tensors& t, Metadata&) { t["point.0.positions"][0] = -5; });
}

// The number of sequences is compared with the tensors before anything of that size is made.
TEST_F(StateFile, ALargeBatchIsRefusedBeforeMemoryIsTakenForIt) {
  rewrite([](Tensors&, Metadata& m) { m["batch"] = "65536"; });
  const int64_t one = state_bytes(engine_->initial_state(1));
  EXPECT_LT(peak_bytes([&] { EXPECT_NE(refusal().find("has shape [2"), std::string::npos); }), 100 * one);
}

TEST_F(StateFile, AFlippedBitInTheMemoryIsNoticed) {
  save_sample();
  std::string bytes = read_file(file_, 1 << 24);
  bytes[bytes.size() - 5] ^= 1;
  std::ofstream(file_, std::ios::binary) << bytes;
  EXPECT_NE(refusal().find("not those that were saved"), std::string::npos) << refusal();
}

TEST_F(StateFile, AnythingElseIsRefused) {
  EXPECT_NE(refusal(), "(no error)");  // not there
  for (const std::string& text :
       {std::string(), std::string("hello"), std::string(100, '\0'), std::string(100, '\xff')}) {
    std::ofstream(file_, std::ios::binary) << text;
    EXPECT_NE(refusal(), "(no error)");
  }
  // A model's weights are a safetensors file too.
  std::vector<Tensor> keep;
  write_safetensors_atomically(file_, tensor_views(model_->named_parameters(), keep));
  EXPECT_NE(refusal().find("is not a pmnet state file"), std::string::npos) << refusal();
}

TEST_F(StateFile, EveryTruncationIsRefused) {
  save_sample();
  const std::string bytes = read_file(file_, 1 << 24);
  for (size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 100) {
    std::ofstream(file_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(size));
    EXPECT_NE(refusal(), "(no error)") << size << " of " << bytes.size() << " bytes";
  }
}

TEST_F(StateFile, MutationsNeverCrashAndNeverChangeTheMemory) {
  save_sample();
  const Tensor more = random_ids(config_, 2, 3, 77);
  const Tensor want = load().feed(more);
  const std::string bytes = read_file(file_, 1 << 24);
  const size_t header = 8 + static_cast<unsigned char>(bytes[0]) + (static_cast<unsigned char>(bytes[1]) << 8);
  ASSERT_LT(header, bytes.size());
  std::mt19937_64 engine(99);
  int loaded = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string mutated = bytes;
    for (uint64_t n = 1 + engine() % 3; n > 0; --n)  // mostly in the header, where the structure is
      mutated[engine() % (i % 4 == 0 ? bytes.size() : header)] = static_cast<char>(engine());
    std::ofstream(file_, std::ios::binary) << mutated;
    try {
      Session session = load();
      ASSERT_TRUE(at::equal(session.feed(more), want)) << "mutation " << i;
      ++loaded;
    } catch (const UserError&) {
    }
  }
  EXPECT_LT(loaded, 200);
}

}  // namespace
}  // namespace pmnet
