#include "data/batcher.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "base/hash.h"
#include "data/data_files.h"
#include "data/permutation.h"
#include "support/errors.h"
#include "support/files.h"

namespace pmnet {
namespace {

using namespace testing;

constexpr int64_t kBos = 300, kEos = 301, kPad = 400;

// Documents whose bytes name them: two letters of the document's number, then a running pattern.
struct Texts {
  TemporaryFolder folder;
  std::vector<std::string> texts;
  std::shared_ptr<const DocumentSet> set;

  explicit Texts(std::vector<size_t> sizes, std::vector<double> weights = {1}) {
    CorpusSpec spec;
    size_t next = 0;
    for (size_t s = 0; s < weights.size(); ++s) {
      const std::string path = folder / ("source" + std::to_string(s) + ".jsonl");
      std::string lines;
      for (size_t i = s; i < sizes.size(); i += weights.size()) {
        texts.push_back(random_text(next++, sizes[i]));
        lines += "{\"text\": \"" + texts.back() + "\"}\n";
      }
      write_file(path, lines);
      spec.sources.push_back({{path}, weights[s]});
    }
    spec.cache_folder = folder / "cache";
    set = std::make_shared<const DocumentSet>(open_corpus(spec).train);
  }
};

std::vector<size_t> uneven_sizes(size_t count) {
  std::vector<size_t> sizes;
  for (size_t i = 0; i < count; ++i) sizes.push_back(1 + splitmix64(i) % 97);
  sizes[count / 2] = 1000;
  return sizes;
}

BatchOptions options_for(SampleMode mode, int64_t rows = 4, int64_t context = 16) {
  BatchOptions options;
  options.mode = mode;
  options.rows = rows;
  options.context = context;
  options.seed = 5;
  options.framing = {kBos, kEos, kPad};
  return options;
}

std::vector<int64_t> framed(const std::string& text) {
  std::vector<int64_t> ids = {kBos};
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  ids.push_back(kEos);
  return ids;
}

// The ids that count as targets, as one bag.
std::multiset<int64_t> targets_of(const Batch& batch) {
  std::multiset<int64_t> targets;
  for (int64_t r = 0; r < batch.rows; ++r)
    for (int64_t t = 0; t < batch.context; ++t)
      if (batch.loss_mask[r * batch.context + t]) targets.insert(batch.ids[r * (batch.context + 1) + t + 1]);
  return targets;
}

std::multiset<int64_t> all_targets(const std::vector<std::string>& texts) {
  std::multiset<int64_t> targets;
  for (const std::string& text : texts) {
    const std::vector<int64_t> ids = framed(text);
    targets.insert(ids.begin() + 1, ids.end());
  }
  return targets;
}

TEST(Permutation, IsABijectionForEverySizeAndChangesWithTheKey) {
  for (uint64_t size = 1; size < 300; ++size) {
    const Permutation permutation(size, size * 7);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < size; ++i) seen.insert(permutation(i));
    ASSERT_EQ(seen.size(), size);
    ASSERT_EQ(*seen.rbegin(), size - 1);
  }
  int fixed = 0, same = 0;
  const Permutation one(10'000, 1), two(10'000, 2);
  for (uint64_t i = 0; i < 10'000; ++i) {
    fixed += one(i) == i;
    same += one(i) == two(i);
  }
  EXPECT_LT(fixed, 10);
  EXPECT_LT(same, 10);
}

TEST(Batcher, PackedEpochHasEveryTokenAsTargetOnce) {
  const Texts data(uneven_sizes(60));
  for (const int64_t context : {1, 3, 16, 100, 5000}) {
    Batcher batcher(data.set, options_for(SampleMode::kPacked, 1, context));
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::multiset<int64_t> targets;
      for (uint64_t i = 0; i < batcher.samples_per_epoch(); ++i)
        targets.merge(targets_of(batcher.make(static_cast<int64_t>(epoch * batcher.samples_per_epoch() + i))));
      EXPECT_EQ(targets, all_targets(data.texts)) << context;
    }
  }
}

TEST(Batcher, PackedRowsAreStretchesOfWholeDocumentsInAShuffledOrder) {
  const Texts data(uneven_sizes(40));
  BatchOptions options = options_for(SampleMode::kPacked, 1, 100'000);  // one row holds the whole epoch
  Batcher batcher(data.set, options);
  ASSERT_EQ(batcher.samples_per_epoch(), 1u);
  std::vector<std::vector<size_t>> orders;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    const Batch batch = batcher.make(epoch);
    std::vector<size_t>& order = orders.emplace_back();
    auto at = batch.ids.begin();
    while (*at == kBos) {
      const auto end = std::find(at, batch.ids.end(), kEos) + 1;
      const std::vector<int64_t> ids(at, end);
      size_t found = 0;
      while (found < data.texts.size() && framed(data.texts[found]) != ids) ++found;
      ASSERT_LT(found, data.texts.size());
      order.push_back(found);
      at = end;
    }
    EXPECT_EQ(at - batch.ids.begin(), batch.lengths[0] + 1);
    EXPECT_EQ(*at, kPad);
    EXPECT_EQ(std::set<size_t>(order.begin(), order.end()).size(), data.texts.size());
  }
  EXPECT_NE(orders[0], orders[1]);
  std::vector<size_t> sorted(data.texts.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  EXPECT_NE(orders[0], sorted);
}

TEST(Batcher, PerDocumentRowsStayInsideADocumentAndCoverIt) {
  const Texts data(uneven_sizes(50));
  Batcher batcher(data.set, options_for(SampleMode::kPerDocument, 1));
  std::multiset<int64_t> targets;
  for (uint64_t i = 0; i < batcher.samples_per_epoch(); ++i) {
    const Batch batch = batcher.make(static_cast<int64_t>(i));
    targets.merge(targets_of(batch));
    const int64_t length = batch.lengths[0];
    for (int64_t t = 0; t <= batch.context; ++t) {
      EXPECT_TRUE(t == 0 || batch.ids[t] != kBos);
      EXPECT_TRUE(t >= length || batch.ids[t] != kEos);
      EXPECT_EQ(batch.ids[t] == kPad, t > length);
      EXPECT_TRUE(t == batch.context || batch.loss_mask[t] == (t < length));
    }
  }
  EXPECT_EQ(targets, all_targets(data.texts));
}

TEST(Batcher, CarryRowsWalkDocumentsWindowByWindow) {
  const Texts data(uneven_sizes(30));
  const BatchOptions options = options_for(SampleMode::kCarry);
  Batcher batcher(data.set, options);
  std::vector<std::vector<int64_t>> walked(options.rows);
  std::map<std::vector<int64_t>, int> finished;
  int resets = 0, continued = 0;
  for (int64_t step = 0; step < 200; ++step) {
    const Batch batch = batcher.make(step);
    for (int64_t r = 0; r < batch.rows; ++r) {
      const auto row = batch.ids.begin() + r * (batch.context + 1);
      if (batch.continues[r]) {
        ++continued;
        ASSERT_EQ(walked[r].back(), row[0]) << "the last target of a window is the first input of the next";
        walked[r].pop_back();
      } else {
        ++resets;
        if (!walked[r].empty()) ++finished[walked[r]];
        walked[r].clear();
      }
      walked[r].insert(walked[r].end(), row, row + batch.lengths[r] + 1);
    }
  }
  EXPECT_GT(continued, 100);
  EXPECT_GT(resets, 30);
  size_t whole = 0;
  for (const std::string& text : data.texts) whole += finished.count(framed(text));
  EXPECT_GE(whole, data.texts.size() - 1);  // the long one is walked in parts
}

TEST(Batcher, CarryGivesOneLongDocumentToAllRowsInParts) {
  const Texts data({4000});
  Batcher batcher(data.set, options_for(SampleMode::kCarry));
  const int64_t steps = batcher.steps_per_epoch();
  std::multiset<int64_t> targets;
  for (int64_t step = 0; step < steps; ++step) {
    const Batch batch = batcher.make(step);
    targets.merge(targets_of(batch));
    // The shortest part is one window shorter than the others: its row has begun the next epoch.
    EXPECT_TRUE(step + 1 == steps || batch.continues == std::vector<uint8_t>(4, step > 0));
  }
  const std::multiset<int64_t> expected = all_targets(data.texts);
  for (int64_t id = 0; id <= kEos; ++id) EXPECT_GE(targets.count(id), expected.count(id));
}

TEST(Batcher, AnyStepCanBeMadeDirectly) {
  const Texts data(uneven_sizes(25), {1, 2, 0.5});
  for (const SampleMode mode : {SampleMode::kPacked, SampleMode::kPerDocument, SampleMode::kCarry}) {
    const BatchOptions options = options_for(mode);
    Batcher straight(data.set, options);
    std::vector<uint64_t> hashes;
    for (int64_t step = 0; step < 120; ++step) hashes.push_back(straight.make(step).hash);
    EXPECT_EQ(std::set<uint64_t>(hashes.begin(), hashes.end()).size(), hashes.size());
    for (int64_t split = 0; split < 119; ++split) {
      Batcher resumed(data.set, options);
      ASSERT_EQ(resumed.make(split).hash, hashes[split]);
      ASSERT_EQ(resumed.make(split + 1).hash, hashes[split + 1]);
    }
    for (const int64_t step : {119, 3, 60, 0}) EXPECT_EQ(straight.make(step).hash, hashes[step]);
  }
}

TEST(Batcher, RanksTakeSlicesOfTheSameBatch) {
  const Texts data(uneven_sizes(25), {1, 3});
  for (const SampleMode mode : {SampleMode::kPacked, SampleMode::kPerDocument, SampleMode::kCarry}) {
    BatchOptions options = options_for(mode, 12);
    Batcher whole(data.set, options);
    for (const int world : {2, 3, 12}) {
      options.world = world;
      std::vector<Batcher> ranks;
      for (options.rank = 0; options.rank < world; ++options.rank) ranks.emplace_back(data.set, options);
      for (int64_t step = 0; step < 30; ++step) {
        const Batch expected = whole.make(step);
        Batch joined;
        for (Batcher& rank : ranks) {
          const Batch part = rank.make(step);
          ASSERT_EQ(part.rows, 12 / world);
          const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
          append(joined.ids, part.ids);
          append(joined.lengths, part.lengths);
          append(joined.loss_mask, part.loss_mask);
          append(joined.continues, part.continues);
          append(joined.sample_ids, part.sample_ids);
        }
        ASSERT_EQ(joined.ids, expected.ids);
        ASSERT_EQ(joined.lengths, expected.lengths);
        ASSERT_EQ(joined.loss_mask, expected.loss_mask);
        ASSERT_EQ(joined.continues, expected.continues);
        ASSERT_EQ(joined.sample_ids, expected.sample_ids);
      }
    }
  }
}

TEST(Batcher, SeedAndStageChangeTheOrder) {
  const Texts data(uneven_sizes(25));
  BatchOptions options = options_for(SampleMode::kPacked);
  const uint64_t hash = Batcher(data.set, options).make(0).hash;
  options.seed = 6;
  EXPECT_NE(Batcher(data.set, options).make(0).hash, hash);
  options.seed = 5;
  options.stage = 1;
  EXPECT_NE(Batcher(data.set, options).make(0).hash, hash);
}

TEST(Batcher, LaterStageStartsAtItsFirstStep) {
  const Texts data(uneven_sizes(25));
  BatchOptions options = options_for(SampleMode::kPacked);
  const Batch early = Batcher(data.set, options).make(0);
  options.first_step = 50;
  const Batch late = Batcher(data.set, options).make(50);
  EXPECT_EQ(late.ids, early.ids);
  EXPECT_EQ(late.sample_ids[0], 50 * options.rows);
  EXPECT_THROW(Batcher(data.set, options).make(49), std::logic_error);
}

TEST(SourceMix, SharesFollowWeightsAndNoNumberIsLeftOut) {
  const SourceMix mix({1, 2, 5, 1e-9}, 3);
  std::vector<std::set<uint64_t>> numbers(4);
  for (uint64_t sample = 0; sample < 4096 * 5; ++sample) {
    const SourceMix::Place place = mix.locate(sample);
    EXPECT_TRUE(numbers.at(place.source).insert(place.number).second);
  }
  EXPECT_NEAR(static_cast<double>(numbers[0].size()), 4096 * 5 / 8.0, 10);
  EXPECT_NEAR(static_cast<double>(numbers[1].size()), 4096 * 5 / 4.0, 10);
  EXPECT_EQ(numbers[3].size(), 5u);
  for (const auto& set : numbers) EXPECT_EQ(*set.rbegin(), set.size() - 1);
  EXPECT_THROW(SourceMix(std::vector<double>(5000, 1.0), 0), UserError);
}

TEST(Batcher, PromptsAndFramesAreNotScored) {
  const TemporaryFolder folder;
  write_file(folder / "a.jsonl", "{\"prompt\": \"ask \", \"completion\": \"yes\"}\n");
  CorpusSpec spec;
  spec.sources = {{{folder / "a.jsonl"}, 1}};
  spec.cache_folder = folder / "cache";
  const auto set = std::make_shared<const DocumentSet>(open_corpus(spec).train);
  const Batch batch = Batcher(set, options_for(SampleMode::kPerDocument, 1, 12)).make(0);
  EXPECT_EQ(batch.ids, (std::vector<int64_t>{kBos, 'a', 's', 'k', ' ', 'y', 'e', 's', kEos, kPad, kPad, kPad, kPad}));
  EXPECT_EQ(batch.loss_mask, (std::vector<uint8_t>{0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(batch.lengths[0], 8);
}

TEST(Batcher, SingleEpochShowsEachWindowOnceAndThenNothing) {
  const Texts data(uneven_sizes(25), {1, 7});
  BatchOptions options = options_for(SampleMode::kPerDocument, 7);
  options.single_epoch = true;
  options.shuffle = false;
  Batcher batcher(data.set, options);
  std::multiset<int64_t> targets;
  for (int64_t step = 0; step < batcher.steps_per_epoch() + 2; ++step) {
    const Batch batch = batcher.make(step);
    targets.merge(targets_of(batch));
    EXPECT_EQ(batch.sample_ids == std::vector<int64_t>(7, -1), step >= batcher.steps_per_epoch());
  }
  EXPECT_EQ(targets, all_targets(data.texts));
}

TEST(Batcher, ImpossibleSettingsAreRefused) {
  const Texts data({10});
  BatchOptions options = options_for(SampleMode::kPacked);
  options.world = 3;
  expect_mentions(user_error_of([&] { Batcher(data.set, options); }), {"4 rows", "3 processes"});
  options.world = 1;
  options.context = 0;
  expect_mentions(user_error_of([&] { Batcher(data.set, options); }), {"context"});
  expect_mentions(user_error_of([&] { Batcher(std::make_shared<DocumentSet>(), options); }), {"empty"});
}

TEST(BatchQueue, DeliversTheSameBatchesFromAnyStart) {
  const Texts data(uneven_sizes(25));
  for (const SampleMode mode : {SampleMode::kPacked, SampleMode::kCarry}) {
    const BatchOptions options = options_for(mode);
    Batcher direct(data.set, options);
    for (const int64_t start : {0, 1, 17, 63}) {
      BatchQueue queue(Batcher(data.set, options), start, 3);
      for (int64_t step = start; step < start + 20; ++step) {
        const Batch batch = queue.next();
        ASSERT_EQ(batch.step, step);
        ASSERT_EQ(batch.hash, direct.make(step).hash);
      }
    }
  }
}

TEST(BatchQueue, FaultOfTheReaderReachesTheCaller) {
  const Texts data(uneven_sizes(25));
  BatchQueue queue(Batcher(data.set, options_for(SampleMode::kPacked)), 0, 2);
  queue.next();
  const std::string shard = data.set->sources[0].shard->path();
  fs::resize_file(shard, 1);
  expect_mentions(user_error_of([&] {
                    for (int i = 0; i < 100; ++i) queue.next();
                  }),
                  {shard});
}

}  // namespace
}  // namespace pmnet
