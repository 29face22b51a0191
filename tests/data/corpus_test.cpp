#include "data/corpus.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "data/corpus_stat.h"
#include "data/data_files.h"
#include "data/stories.h"
#include "support/errors.h"
#include "support/files.h"

namespace pmnet {
namespace {

using namespace testing;

std::multiset<std::string> texts_of(const DocumentSet& set) {
  std::multiset<std::string> texts;
  for (const DocumentSource& source : set.sources)
    for (const Document& document : source.documents) {
      std::string text(document.bytes, ' ');
      source.shard->read(document.offset, text.data(), text.size());
      texts.insert(text);
    }
  return texts;
}

std::string numbered_lines(int count, int first = 0) {
  std::string lines;
  for (int i = first; i < first + count; ++i) lines += "{\"text\": \"document " + std::to_string(i) + "\"}\n";
  return lines;
}

CorpusSpec spec_for(const TemporaryFolder& folder, const std::vector<std::string>& inputs) {
  CorpusSpec spec;
  for (const std::string& input : inputs) spec.sources.push_back({{folder / input}, 1});
  spec.cache_folder = folder / "cache";
  return spec;
}

TEST(HoldOut, ByHashIsDisjointCompleteAndStable) {
  const TemporaryFolder folder;
  write_file(folder / "a.jsonl", numbered_lines(2000));
  CorpusSpec spec = spec_for(folder, {"a.jsonl"});
  spec.hold_out = {HoldOut::By::kHash, 0.1, {}};
  const Corpus corpus = open_corpus(spec);
  const auto train = texts_of(corpus.train), held_out = texts_of(corpus.held_out);
  EXPECT_EQ(train.size() + held_out.size(), 2000u);
  EXPECT_NEAR(static_cast<double>(held_out.size()), 200, 45);
  for (const std::string& text : held_out) EXPECT_EQ(train.count(text), 0u);

  // Another file around it, another order: the same documents are held out.
  write_file(folder / "b.jsonl", numbered_lines(500, 5000) + numbered_lines(2000));
  CorpusSpec other = spec_for(folder, {"b.jsonl"});
  other.hold_out = spec.hold_out;
  const auto other_held_out = texts_of(open_corpus(other).held_out);
  for (const std::string& text : held_out) EXPECT_EQ(other_held_out.count(text), 1u) << text;
}

TEST(HoldOut, EqualDocumentsFallOnTheSameSide) {
  const TemporaryFolder folder;
  write_file(folder / "a.jsonl", numbered_lines(300) + numbered_lines(300));
  CorpusSpec spec = spec_for(folder, {"a.jsonl"});
  spec.hold_out = {HoldOut::By::kHash, 0.3, {}};
  const Corpus corpus = open_corpus(spec);
  for (const std::string& text : texts_of(corpus.held_out)) EXPECT_EQ(texts_of(corpus.train).count(text), 0u);
}

TEST(HoldOut, ByPath) {
  const TemporaryFolder folder;
  for (int i = 0; i < 5; ++i)
    write_file(folder / ("in/part-" + std::to_string(i) + ".txt"), "text " + std::to_string(i));
  CorpusSpec spec = spec_for(folder, {"in"});
  spec.hold_out = {HoldOut::By::kPath, 0, {"part-4*", "*/in/part-0.txt"}};
  const Corpus corpus = open_corpus(spec);
  EXPECT_EQ(texts_of(corpus.held_out), (std::multiset<std::string>{"text 0", "text 4"}));
  EXPECT_EQ(corpus.train.documents(), 3u);
  spec.hold_out.patterns = {"nothing*"};
  expect_mentions(user_error_of([&] { open_corpus(spec); }), {"nothing was held out"});
  spec.hold_out.patterns = {"*"};
  expect_mentions(user_error_of([&] { open_corpus(spec); }), {"nothing is left to train on"});
}

TEST(HoldOut, TailCutsEachDocumentAtACharacter) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 101; ++i) text += "ä😀";
  write_file(folder / "a.txt", text);
  CorpusSpec spec = spec_for(folder, {"a.txt"});
  spec.hold_out = {HoldOut::By::kAuto, 0.1, {}};  // one document: Auto takes tails
  const Corpus corpus = open_corpus(spec);
  const std::string train = *texts_of(corpus.train).begin(), held_out = *texts_of(corpus.held_out).begin();
  EXPECT_EQ(train + held_out, text);
  EXPECT_NE(static_cast<unsigned char>(held_out[0]) & 0xC0, 0x80);
  EXPECT_NEAR(static_cast<double>(held_out.size()), 60, 4);
}

TEST(Corpus, FingerprintFollowsContentNotPlace) {
  const TemporaryFolder folder;
  write_file(folder / "a.jsonl", numbered_lines(20));
  write_file(folder / "copy.jsonl", numbered_lines(20));
  write_file(folder / "other.jsonl", numbered_lines(21));
  const auto fingerprint = [&](const std::vector<std::string>& names) {
    return open_corpus(spec_for(folder, names)).train.fingerprint;
  };
  EXPECT_EQ(fingerprint({"a.jsonl"}), fingerprint({"copy.jsonl"}));
  EXPECT_NE(fingerprint({"a.jsonl"}), fingerprint({"other.jsonl"}));
  EXPECT_NE(fingerprint({"a.jsonl", "other.jsonl"}), fingerprint({"other.jsonl", "a.jsonl"}));
}

TEST(Corpus, BadSettingsAreRefused) {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", "text");
  CorpusSpec spec = spec_for(folder, {"a.txt"});
  spec.sources[0].weight = -1;
  expect_mentions(user_error_of([&] { open_corpus(spec); }), {"weight", "-1"});
  spec.sources[0].weight = 1;
  spec.hold_out = {HoldOut::By::kHash, 1.5, {}};
  expect_mentions(user_error_of([&] { open_corpus(spec); }), {"1.5", "between 0 and 1"});
  expect_mentions(user_error_of([&] { open_corpus({}); }), {"no data"});
}

TEST(CorpusStat, CountsDocumentsSkipsAndRefusals) {
  const TemporaryFolder folder;
  write_file(folder / "in/a.jsonl", numbered_lines(10) + "{\"text\": \"\"}\nnot json\n");
  write_file(folder / "in/b.txt.gz", gzip(std::string(1000, 'b') + "\xFE\xFF"));
  write_file(folder / "in/c.gz", gzip(random_text(1, 1000)).substr(0, 50));
  write_file(folder / "in/d.txt", "");
  const CorpusStat stat = examine_inputs({folder / "in"}, {});
  EXPECT_EQ(stat.total.files, 4u);
  EXPECT_EQ(stat.total.documents, 11u);
  EXPECT_EQ(stat.total.document_bytes, 10 * 10 + 1002u);
  EXPECT_EQ(stat.by_format.at("jsonl").documents, 10u);
  EXPECT_EQ(stat.by_format.at("plain.gz").files, 2u);
  EXPECT_EQ(stat.lengths, (std::map<uint64_t, uint64_t>{{10, 10}, {1002, 1}}));
  EXPECT_EQ(stat.length_quantile(0), 10u);
  EXPECT_EQ(stat.length_quantile(0.5), 10u);
  EXPECT_EQ(stat.length_quantile(1), 1002u);
  EXPECT_EQ(stat.documents_with_marker_bytes, 1u);
  EXPECT_EQ(stat.marker_bytes, 2u);
  EXPECT_EQ(stat.skips.at("empty or null text").count, 1u);
  EXPECT_EQ(stat.skips.at("malformed record").count, 1u);
  EXPECT_EQ(stat.skips.at("empty file").count, 1u);
  ASSERT_EQ(stat.refused.size(), 1u);
  expect_mentions(stat.refused[0], {"c.gz", "cut off"});
  EXPECT_FALSE(stat.sample.empty());
}

TEST(Stories, AreAFunctionOfSeedAndNumberAndNeedTheirOpening) {
  const StoryOptions options{7, 3000};
  EXPECT_EQ(make_story(options, 12), make_story(options, 12));
  EXPECT_NE(make_story(options, 12), make_story(options, 13));
  EXPECT_NE(make_story(options, 12), make_story({8, 3000}, 12));
  double bytes = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    const std::string story = make_story(options, i);
    bytes += static_cast<double>(story.size());
    const size_t said = story.rfind("said the word \"") + 15;
    const std::string word = story.substr(said, story.find('"', said) - said);
    const size_t told = story.find("only to the word \"" + word + "\"");
    ASSERT_NE(told, std::string::npos) << story;
    EXPECT_LT(told, 700u);
    EXPECT_GT(said, story.size() - 500);
  }
  EXPECT_NEAR(bytes / 200, 3750, 400);
}

TEST(Stories, FilesHoldWholeStories) {
  const TemporaryFolder folder;
  const StoryOptions options{3, 1500};
  const uint64_t tales = write_stories(folder / "a.txt", 100'000, options);
  EXPECT_EQ(write_stories(folder / "a.jsonl", 100'000, options), tales);
  ReadOptions split;
  split.split_on = kStorySeparator;
  const auto documents = read_documents(folder / "a.txt", split);
  EXPECT_EQ(documents.size(), tales);
  EXPECT_EQ(documents, read_documents(folder / "a.jsonl"));
  EXPECT_EQ(documents[2], make_story(options, 2));
  expect_mentions(user_error_of([&] { write_stories(folder / "a.txt", 10, options); }), {"a.txt"});
}

TEST(Corpus, KnowsOfBytesThatStandForBosAndEos) {
  const TemporaryFolder folder;
  write_file(folder / "a.jsonl", numbered_lines(10));
  write_file(folder / "b.txt", "text \xFE more");
  EXPECT_EQ(open_corpus(spec_for(folder, {folder / "a.jsonl"})).documents_with_marker_bytes, 0u);
  const CorpusSpec both = spec_for(folder, {folder / "a.jsonl", folder / "b.txt"});
  for (int time = 0; time < 2; ++time)  // packed, then found in the cache
    EXPECT_EQ(open_corpus(both).documents_with_marker_bytes, 1u);
}

TEST(Stories, AppearWholeOrNotAtAll) {
  const TemporaryFolder folder;
  struct Stop {};
  const auto stop = [](uint64_t) { throw Stop{}; };
  EXPECT_THROW(write_stories(folder / "a.txt", 3'000'000, {}, stop), Stop);
  EXPECT_TRUE(fs::is_empty(folder.path()));
  write_stories(folder / "a.txt", 10'000, {});
  expect_mentions(user_error_of([&] { write_stories(folder / "a.txt", 10'000, {}); }), {"a.txt", "exists already"});
}

}  // namespace
}  // namespace pmnet
