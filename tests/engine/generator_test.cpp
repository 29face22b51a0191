#include "engine/generator.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/stop_strings.h"
#include "model/model_folder.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

class GeneratorTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    threads_ = at::get_num_threads();
    at::set_num_threads(1);  // steps of a tiny model are too short to share
    engine_ = make_engine(*load_or_make_model("tiny", /*seed=*/3).model);
  }
  static void TearDownTestSuite() {
    engine_.reset();
    at::set_num_threads(threads_);
  }

  static Session new_session() { return Session(engine_); }

  struct Written {
    std::string text;
    GenerateResult result;
  };
  static Written write(Session& session, const std::string& prompt, const GenerateSettings& settings) {
    Generator generator(session);
    generator.read(prompt);
    Written written;
    written.result = generator.generate(settings, [&](std::string_view bytes) {
      written.text += bytes;
      return true;
    });
    return written;
  }
  static Written write(const std::string& prompt, const GenerateSettings& settings) {
    Session session = new_session();
    return write(session, prompt, settings);
  }
  // Without EOS on the way: the first seed whose text is as long as asked. EOS is hardly ever among the likeliest.
  static GenerateSettings settings_for(const std::string& prompt, int64_t max_bytes) {
    GenerateSettings settings{.sampling = {.top_k = 8}, .max_bytes = max_bytes, .stop = {}};
    while (write(prompt, settings).result.reason != StopReason::kMaxBytes) ++settings.sampling.seed;
    return settings;
  }

  static int threads_;
  static std::shared_ptr<const Engine> engine_;
};
int GeneratorTest::threads_ = 1;
std::shared_ptr<const Engine> GeneratorTest::engine_;

TEST_F(GeneratorTest, GivesTheSameTextForTheSameSeed) {
  const GenerateSettings settings = settings_for("Once", 60);
  const Written one = write("Once", settings);
  EXPECT_EQ(one.text.size(), 60u);
  EXPECT_EQ(one.result.bytes, 60);
  EXPECT_EQ(write("Once", settings).text, one.text);
  GenerateSettings other = settings;
  other.sampling.seed += 1000;
  EXPECT_NE(write("Once", other).text, one.text);
}

TEST_F(GeneratorTest, ReadsAPromptAlikeHoweverItIsCut) {
  std::string prompt;
  for (int i = 0; i < 2600; ++i) prompt += static_cast<char>('a' + i * i % 26);
  Session whole = new_session();
  Generator reader(whole);
  reader.read(prompt);
  reader.finish_prompt();
  EXPECT_EQ(whole.position(), 2601);  // BOS and the prompt
  EXPECT_EQ(reader.prompt_bytes(), 2600);
  for (const size_t piece : {1, 7, 999, 1024, 1025}) {
    Session session = new_session();
    Generator generator(session);
    for (size_t at = 0; at < prompt.size(); at += piece) generator.read(prompt.substr(at, piece));
    generator.finish_prompt();
    EXPECT_TRUE(at::equal(session.last_logits(), whole.last_logits())) << piece;
  }
}

TEST_F(GeneratorTest, BeginsWithBosWhenThePromptIsEmpty) {
  Session session = new_session();
  write(session, "", {.sampling = {}, .max_bytes = 0, .stop = {}});
  EXPECT_EQ(session.position(), 1);
  Session by_hand = new_session();
  by_hand.feed({engine_->bos_token_id()});
  EXPECT_TRUE(at::equal(session.last_logits(), by_hand.last_logits()));
}

TEST_F(GeneratorTest, ContinuesASavedMemoryExactly) {
  const TemporaryFolder folder;
  GenerateSettings settings = settings_for("The memory", 50);
  const std::string whole = write("The memory", settings).text;
  for (const int64_t cut : {0, 1, 20, 49}) {
    settings.max_bytes = cut;
    Session first = new_session();
    const std::string before = write(first, "The memory", settings).text;
    first.save(folder / "memory");
    Session second = Session::load(folder / "memory", engine_);
    settings.max_bytes = 50 - cut;
    EXPECT_EQ(before + write(second, "", settings).text, whole) << cut;
    EXPECT_EQ(second.position(), 1 + 10 + 50);
  }
}

TEST_F(GeneratorTest, EndsBeforeAStopString) {
  GenerateSettings settings = settings_for("Stop", 60);
  const std::string whole = write("Stop", settings).text;
  const std::string stop = whole.substr(30, 4);
  settings.stop = {"never in a random text", stop};
  const Written cut = write("Stop", settings);
  const size_t found = whole.find(stop);
  EXPECT_EQ(cut.text, whole.substr(0, found));
  EXPECT_EQ(cut.result.reason, StopReason::kStopString);
  EXPECT_EQ(cut.result.bytes, static_cast<int64_t>(found + stop.size()));
  // The beginning of a stop string at the very end is text after all.
  settings.stop = {whole.substr(58) + "..."};
  EXPECT_EQ(write("Stop", settings).text, whole);
}

TEST_F(GeneratorTest, EndsWithTheTextAndLeavesEosUnread) {
  Session session = new_session();
  const Written written = write(session, "x", {.sampling = {.seed = 5}, .max_bytes = 20'000, .stop = {}});
  EXPECT_EQ(written.result.reason, StopReason::kEndOfText);
  EXPECT_EQ(static_cast<int64_t>(written.text.size()), written.result.bytes);
  EXPECT_EQ(session.position(), 2 + written.result.bytes);
}

TEST_F(GeneratorTest, EndsWhenNobodyListens) {
  const GenerateSettings settings = settings_for("y", 40);
  Session session = new_session();
  Generator generator(session);
  generator.read("y");
  int64_t received = 0;
  const GenerateResult result = generator.generate(settings, [&](std::string_view bytes) {
    received += static_cast<int64_t>(bytes.size());
    return received < 10;
  });
  EXPECT_EQ(result.reason, StopReason::kReceiver);
  EXPECT_EQ(received, 10);
}

TEST_F(GeneratorTest, RefusesBadSettingsAndSeveralStreams) {
  EXPECT_EQ((GenerateSettings{.sampling = {.temperature = -1}, .max_bytes = -1, .stop = {""}}).problems().size(), 3u);
  Session two(engine_, /*batch=*/2);
  EXPECT_NE(user_error_of([&] { Generator generator(two); }).find("2 sequences"), std::string::npos);
}

TEST(StopStrings, FindsTheSameAsSearchingTheWholeText) {
  std::mt19937 random(4);
  const auto random_text = [&](size_t size) {
    std::string text;
    while (text.size() < size) text += static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> strings;
    for (size_t i = random() % 3 + 1; i > 0; --i) strings.push_back(random_text(random() % 5 + 2));
    const std::string text = random_text(40);
    std::string expected = text;
    for (size_t end = 1; end <= text.size() && expected == text; ++end)
      for (const std::string& string : strings)
        if (std::string_view(text).substr(0, end).ends_with(string))
          expected = std::min(expected, text.substr(0, end - string.size()),
                              [](const auto& a, const auto& b) { return a.size() < b.size(); });
    StopStrings stop(strings);
    std::string got;
    for (size_t i = 0; i < text.size() && !stop.found(); ++i) got += stop.push(text[i]);
    EXPECT_EQ(stop.found(), expected != text);
    got += stop.finish();
    ASSERT_EQ(got, expected) << text << " " << testing::PrintToString(strings);
  }
}

TEST(StopStrings, HoldsBackNoMoreThanItMust) {
  StopStrings stop({"abc"});
  EXPECT_EQ(stop.push('x'), "x");
  EXPECT_EQ(stop.push('a'), "");
  EXPECT_EQ(stop.push('a'), "a");
  EXPECT_EQ(stop.push('b'), "");
  EXPECT_EQ(stop.push('d'), "abd");
  EXPECT_EQ(stop.finish(), "");
}

TEST(StopStrings, RefusesEmptyLongAndMany) {
  EXPECT_EQ(StopStrings::problems({"", std::string(2000, 'x')}).size(), 2u);
  EXPECT_EQ(StopStrings::problems(std::vector<std::string>(65, "x")).size(), 1u);
  EXPECT_NE(user_error_of([] { StopStrings stop({""}); }).find("empty"), std::string::npos);
}

}  // namespace
}  // namespace pmnet
