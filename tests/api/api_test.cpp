// The public interface, used as a program outside the tree would use it: of ours only <pmnet/pmnet.h> and test helpers.
#include <gtest/gtest.h>
#include <pmnet/pmnet.h>

#include <cmath>
#include <numeric>
#include <thread>

#include "base/subprocess.h"
#include "support/temporary_folder.h"

namespace {

const std::string kText = "The lighthouse keeper wrote the same line in the log every evening: all well.";

double total(const std::vector<double>& bits) { return std::accumulate(bits.begin(), bits.end(), 0.0); }

void expect_close(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-4) << "logit " << i;
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const pmnet::UserError& error) {
    return error.what();
  }
  return "no UserError";
}

}  // namespace

TEST(ApiModel, SurvivesSavingAndLoading) {
  const pmnet::TemporaryFolder folder;
  const pmnet::Model made = pmnet::Model::create("tiny", 3);
  made.save(folder.path() / "model");
  const pmnet::Model loaded = pmnet::Model::load(folder.path() / "model");
  EXPECT_EQ(loaded.hash(), made.hash());
  EXPECT_NE(loaded.hash(), pmnet::Model::create("tiny", 4).hash());
  EXPECT_EQ(loaded.vocab_size(), 384);
  EXPECT_GT(loaded.num_parameters(), 100'000);
  EXPECT_TRUE(loaded.warnings().empty());
}

TEST(ApiModel, MistakesAreUserErrors) {
  EXPECT_NE(message_of([] { pmnet::Model::create("tinny"); }).find("tiny"), std::string::npos);
  EXPECT_NE(message_of([] { pmnet::Model::load("no/such/folder"); }).find("no/such/folder"), std::string::npos);
}

TEST(ApiSession, CutsDoNotChangeTheResult) {
  const pmnet::Model model = pmnet::Model::create("tiny", 1);
  pmnet::Session whole(model), pieces(model);
  whole.feed(kText);
  for (size_t i = 0; i < kText.size(); i += 7) pieces.feed(std::string_view(kText).substr(i, 7));
  EXPECT_EQ(whole.bytes_read(), static_cast<int64_t>(kText.size()));
  EXPECT_EQ(pieces.bytes_read(), whole.bytes_read());
  expect_close(whole.logits(), pieces.logits());
}

TEST(ApiSession, ScoreIsTheLogarithmOfTheProbability) {
  pmnet::Session session(pmnet::Model::create("tiny", 1));
  session.feed("ab");
  const std::vector<float> logits = session.logits();
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  const double expected = std::log2(sum) - static_cast<double>(logits['c']) / std::log(2.0);
  const std::vector<double> bits = session.score("cd");
  ASSERT_EQ(bits.size(), 2u);
  EXPECT_NEAR(bits[0], expected, 1e-4);
}

TEST(ApiSession, ForksAreIndependent) {
  pmnet::Session session(pmnet::Model::create("tiny", 1));
  session.feed(kText);
  const std::vector<float> before = session.logits();
  pmnet::Session fork = session.fork();
  fork.feed("something else");
  EXPECT_EQ(session.logits(), before);
  EXPECT_EQ(session.fork().score("x"), session.fork().score("x"));
  EXPECT_NE(fork.logits(), before);
}

TEST(ApiSession, RewindsToAKeptPoint) {
  pmnet::Session session(pmnet::Model::create("tiny", 1));
  session.feed(kText);
  const size_t point = session.keep_point();
  const std::vector<double> first = session.score("one way");
  session.rewind(point);
  EXPECT_EQ(session.score("one way"), first);
  EXPECT_NE(message_of([&] { session.rewind(9); }).find("9"), std::string::npos);
}

TEST(ApiSession, AMemoryFileContinuesTheText) {
  const pmnet::TemporaryFolder folder;
  const pmnet::Model model = pmnet::Model::create("tiny", 1);
  pmnet::Session session(model);
  session.feed(kText);
  session.save(folder.path() / "memory");
  pmnet::Session loaded = pmnet::Session::load(folder.path() / "memory", model);
  EXPECT_EQ(loaded.bytes_read(), session.bytes_read());
  EXPECT_EQ(loaded.state_bytes(), session.state_bytes());
  EXPECT_EQ(loaded.score("and then"), session.score("and then"));
  const pmnet::Model other = pmnet::Model::create("tiny", 2);
  EXPECT_NE(message_of([&] { pmnet::Session::load(folder.path() / "memory", other); }).find("another model"),
            std::string::npos);
}

TEST(ApiSession, GenerationIsRepeatableAndStops) {
  const pmnet::Model model = pmnet::Model::create("tiny", 1);
  pmnet::Session a(model), b(model);
  const pmnet::GenerateOptions options{.seed = 7, .max_bytes = 40};
  const std::string text = a.generate(options);
  EXPECT_EQ(b.generate(options), text);
  EXPECT_EQ(a.bytes_read(), static_cast<int64_t>(text.size()));
  int64_t calls = 0;
  EXPECT_EQ(b.generate(options, [&](std::string_view) { return ++calls < 3; }), pmnet::GenerateStop::kReceiver);
  EXPECT_EQ(calls, 3);
  EXPECT_NE(message_of([&] { a.generate({.temperature = -1}); }), "no UserError");
}

TEST(ApiSession, GeneratesTheBytesOfTheProgram) {
  const pmnet::TemporaryFolder folder;
  const pmnet::Model model = pmnet::Model::create("tiny", 1);
  model.save(folder.path() / "m");
  pmnet::Session session(model);
  session.feed(kText);
  const pmnet::ChildResult program = pmnet::run_child(
      {PMNET_PROGRAM, "generate", folder.path() / "m", kText, "--seed", "5", "--max-bytes", "40", "--raw"});
  ASSERT_TRUE(program.succeeded());
  EXPECT_EQ(program.output, session.generate({.seed = 5, .max_bytes = 40}));
}

TEST(ApiSession, SeveralThreadsReadOneModel) {
  const pmnet::Model model = pmnet::Model::create("tiny", 1);
  const double expected = total(pmnet::Session(model).score(kText));
  std::vector<double> found(3);
  std::vector<std::thread> threads;
  for (double& bits : found) threads.emplace_back([&] { bits = total(pmnet::Session(model).score(kText)); });
  for (std::thread& thread : threads) thread.join();
  for (const double bits : found) EXPECT_NEAR(bits, expected, 1e-3);
}

TEST(ApiTrainer, LearnsTheExamplesItIsGiven) {
  const pmnet::Model model = pmnet::Model::create("tiny", 1);
  const double before = total(pmnet::Session(model).score(kText));
  pmnet::Trainer trainer(model, {.learning_rate = 3e-3, .warmup_steps = 2, .total_steps = 30});
  for (int step = 0; step < 30; ++step) {
    const pmnet::StepResult result = trainer.step({{.bytes = kText}, {.bytes = kText.substr(0, 30)}});
    EXPECT_TRUE(result.updated);
    EXPECT_EQ(result.scored_bytes, static_cast<int64_t>(kText.size()) + 1 + 31);
    EXPECT_GT(result.gradient_norm, 0);
  }
  EXPECT_EQ(trainer.steps(), 30);
  EXPECT_LT(total(pmnet::Session(model).score(kText)), 0.7 * before);
}

TEST(ApiTrainer, PromptsAreReadAndNotScored) {
  const pmnet::Model model = pmnet::Model::create("tiny", 1);
  pmnet::Trainer trainer(model);
  EXPECT_EQ(trainer.step({{.bytes = "question: answer", .prompt_bytes = 10}}).scored_bytes, 7);  // six bytes and EOS
  EXPECT_NE(message_of([&] { trainer.step({{.bytes = "ab", .prompt_bytes = 3}}); }), "no UserError");
  EXPECT_NE(message_of([&] { trainer.step({}); }), "no UserError");
  EXPECT_NE(message_of([&] { pmnet::Trainer(model, {.learning_rate = 0}); }), "no UserError");
}
