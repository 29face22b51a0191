#include "eval/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "config/presets.h"
#include "eval/eval_report.h"
#include "eval/line_scores.h"
#include "support/errors.h"
#include "support/small_model.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

class Evaluate : public testing::Test {
 protected:
  Evaluate() {
    PmnetConfig config = small_config();
    config.vocab_size = 300;
    config.bos_token_id = 256;
    config.eos_token_id = 257;
    model_ = small_model(config);
  }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  static std::string text_of(size_t bytes, unsigned seed) {
    std::string text;
    for (size_t i = 0; i < bytes; ++i) text += static_cast<char>('a' + (seed = seed * 1103515245 + 12345) / 65536 % 23);
    return text;
  }
  Evaluation run(const std::vector<std::string>& inputs, const EvalSettings& settings = {},
                 const DocumentLimits& limits = {}, const ReadOptions& read = {}, const EvalHooks& hooks = {}) {
    DocumentQueue queue(find_inputs(inputs), read, limits);
    return evaluate(candidates_, queue, settings, hooks);
  }
  // The documents of a plain text with one per line: long and short ones, in an awkward order.
  std::string lines_of_several_lengths() const {
    std::string text;
    for (const size_t bytes : {300, 7, 64, 1, 200, 129, 5, 128}) text += text_of(bytes, bytes) + "\n";
    return write("lines.txt", text);
  }

  TemporaryFolder folder_;
  std::shared_ptr<PMNet> model_;
  std::vector<Candidate> candidates_ = {};
};

TEST_F(Evaluate, DocumentsSideBySideCostWhatTheyCostAlone) {
  candidates_ = {{"plain", make_engine(*model_), 0}, {"off", make_engine(*model_, {.recurrence = false}), 0}};
  const std::string path = lines_of_several_lengths();
  ReadOptions lines;
  lines.split_on = "\n";
  const Evaluation alone = run({path}, {.chunk = 64, .rows = 1}, {}, lines);
  ASSERT_EQ(alone.documents.size(), 8u);
  EXPECT_EQ(alone.bytes(), 834);
  for (const int64_t rows : {2, 3, 8, 20}) {
    const Evaluation together = run({path}, {.chunk = 64, .rows = rows}, {}, lines);
    ASSERT_EQ(together.documents.size(), 8u);
    for (size_t d = 0; d < 8; ++d) {
      EXPECT_EQ(together.documents[d].name, alone.documents[d].name);
      EXPECT_EQ(together.documents[d].bytes, alone.documents[d].bytes);
      for (size_t c = 0; c < 2; ++c)
        EXPECT_NEAR(together.documents[d].scores[c].bits(), alone.documents[d].scores[c].bits(), 2e-3) << rows << d;
    }
  }
}

TEST_F(Evaluate, EveryCurveCoversEveryByteOnce) {
  candidates_ = {{"plain", make_engine(*model_), 0}, {"short", make_engine(*model_), 100}};
  ReadOptions lines;
  lines.split_on = "\n";
  const Evaluation evaluation = run({lines_of_several_lengths()}, {.chunk = 50, .rows = 3}, {}, lines);
  for (size_t c = 0; c < 2; ++c) {
    const int64_t expected = c == 0 ? 834 : 100 + 7 + 64 + 1 + 100 + 100 + 5 + 100;
    EXPECT_EQ(evaluation.scored(c), expected);
    const double bits = mean_bits(evaluation, c).mean * static_cast<double>(expected);
    for (const CurveKind kind : {CurveKind::kOctaves, CurveKind::kWindows, CurveKind::kLogWindows}) {
      int64_t bytes = 0, next = 1;
      double sum = 0;
      for (const PositionPoint& point : position_curve(evaluation, kind, c)) {
        EXPECT_EQ(point.first, next);
        next = point.last + 1;
        bytes += point.bytes;
        sum += point.bits_per_byte.mean * static_cast<double>(point.bytes);
      }
      EXPECT_EQ(bytes, expected);
      EXPECT_EQ(next, c == 0 ? 301 : 101);
      EXPECT_NEAR(sum, bits, 1e-6);
    }
    const PositionCurve so_far = position_curve(evaluation, CurveKind::kCumulative, c);
    EXPECT_EQ(so_far.back().bytes, expected);
    EXPECT_NEAR(so_far.back().bits_per_byte.mean, mean_bits(evaluation, c).mean, 1e-9);
  }
  // Where both have read, they differ by nothing.
  const PositionCurve difference = position_curve(evaluation, CurveKind::kOctaves, 1, 0);
  ASSERT_FALSE(difference.empty());
  for (const PositionPoint& point : difference) EXPECT_NEAR(point.bits_per_byte.mean, 0, 1e-6);
}

TEST_F(Evaluate, AModelHasOneColourInAllCharts) {
  candidates_ = {{"plain", make_engine(*model_), 0}, {"off", make_engine(*model_, {.recurrence = false}), 0}};
  const std::vector<LineChart> charts = eval_charts(run({lines_of_several_lengths()}));
  ASSERT_EQ(charts.size(), 3u);
  EXPECT_EQ(charts[0].series.at(1).name, charts[2].series.at(0).name);
  EXPECT_EQ(charts[0].series[1].colour, -1);  // its place, 1
  EXPECT_EQ(charts[2].series[0].colour, 1);
}

TEST_F(Evaluate, WordsAreCountedAcrossPasses) {
  candidates_ = {{"plain", make_engine(*model_), 0}};
  const std::string text = "one two\n\nthree  four-five\tsix";
  for (const int64_t chunk : {1, 4, 7, 64}) {
    const Evaluation evaluation = run({write("words.txt", text)}, {.chunk = chunk});
    EXPECT_EQ(evaluation.words(), 5);
    EXPECT_NEAR(evaluation.word_perplexity(0), std::exp2(evaluation.documents[0].scores[0].bits() / 5), 1e-9);
  }
  EXPECT_FALSE(std::isfinite(run({write("blank.txt", " \n ")}).word_perplexity(0)));
}

TEST_F(Evaluate, AuthorsProtocolRoundsLn2) {
  candidates_ = {{"pmnet", make_engine(*model_), 0}};
  const std::string path = write("short.txt", text_of(90, 3));
  const auto bits = [&](EvalProtocol protocol) {
    return run({path}, {.protocol = protocol}).documents[0].scores[0].bits();
  };
  EXPECT_NEAR(bits(EvalProtocol::kAuthors) / bits(EvalProtocol::kCarried), std::log(2) / 0.693, 1e-9);
  expect_mentions(user_error_of([&] { run({path}, {.chunk = 1000, .protocol = EvalProtocol::kAuthors}); }),
                  {"chunk is 1000", "divisor of 30720"});
}

TEST_F(Evaluate, AuthorsProtocolClearsMamba) {
  MambaConfig config = mamba_like(model_->config());
  config.num_layers = 1;
  config.initializer_range = 0.3;
  const std::shared_ptr<LanguageModel> mamba = make_model(config);
  mamba->initialize(1);
  candidates_ = {{"mamba", make_engine(*mamba), 0}};
  const std::string text = text_of(kAuthorsPass + 64, 3);
  const std::string path = write("long.txt", text);
  const auto last_bits = [&](EvalProtocol protocol) {
    return run({path}, {.chunk = 3072, .protocol = protocol}).documents[0].scores[0].windows(64).back();
  };
  // What follows a whole pass is read from an empty state, with the byte before as the first input.
  const std::vector<int64_t> ids = byte_ids(text.substr(kAuthorsPass - 1));
  const Tensor rest = at::tensor(ids, at::kLong).unsqueeze(0);
  const Tensor nats = candidates_[0].engine->losses(rest.narrow(1, 0, 64), rest.narrow(1, 1, 64), nullptr);
  const double expected = nats.sum().item<double>() / std::log(2);
  EXPECT_NEAR(last_bits(EvalProtocol::kAuthors), expected, 1e-3);
  EXPECT_GT(std::abs(last_bits(EvalProtocol::kCarried) - expected), 1e-1);
}

TEST_F(Evaluate, LimitsAndTheEndOfADocument) {
  candidates_ = {{"plain", make_engine(*model_), 0}};
  const std::string long_one = write("long.txt", text_of(200, 1)), short_one = write("short.txt", text_of(30, 2));
  Evaluation evaluation = run({long_one, short_one}, {.chunk = 64, .score_eos = true}, {.max_bytes = 128});
  ASSERT_EQ(evaluation.documents.size(), 2u);
  EXPECT_EQ(evaluation.documents[0].bytes, 128);
  EXPECT_FALSE(evaluation.documents[0].complete);
  EXPECT_EQ(evaluation.documents[0].scores[0].count(), 128);
  EXPECT_TRUE(evaluation.documents[1].complete);
  EXPECT_EQ(evaluation.documents[1].scores[0].count(), 31);  // EOS is one more

  evaluation = run({long_one, short_one}, {}, {.max_bytes = 200, .min_bytes = 31});
  ASSERT_EQ(evaluation.documents.size(), 1u);
  EXPECT_TRUE(evaluation.documents[0].complete);
  EXPECT_EQ(run({long_one, short_one}, {}, {.documents = 1}).documents.size(), 1u);
  EXPECT_EQ(run({write("empty.txt", "")}).documents.size(), 0u);
}

TEST_F(Evaluate, StopsWhereAskedAndKeepsWhatItHas) {
  candidates_ = {{"plain", make_engine(*model_), 0}};
  int passes = 0;
  const EvalHooks hooks{.progress = {}, .stop = [&] { return ++passes > 3; }};
  const Evaluation evaluation = run({write("long.txt", text_of(500, 1))}, {.chunk = 50}, {}, {}, hooks);
  EXPECT_TRUE(evaluation.stopped);
  ASSERT_EQ(evaluation.documents.size(), 1u);
  EXPECT_EQ(evaluation.documents[0].bytes, 150);
  EXPECT_EQ(evaluation.scored(0), 150);
}

TEST_F(Evaluate, KnowsTimeAndStateByPosition) {
  candidates_ = {{"plain", make_engine(*model_), 0}};
  const Evaluation evaluation = run({write("long.txt", text_of(500, 1))}, {.chunk = 100});
  const std::vector<ThroughputPoint>& curve = evaluation.throughput.at(0).points();
  ASSERT_EQ(curve.size(), 5u);
  EXPECT_EQ(curve[4].first, 400);
  EXPECT_EQ(curve[4].bytes, 100);
  EXPECT_GT(curve[4].seconds, 0);
  EXPECT_GT(curve[4].resident_bytes, 1 << 20);
  EXPECT_GT(curve[4].state_bytes, 0);
  EXPECT_EQ(curve[4].state_bytes, curve[0].state_bytes);  // constant once the window is full
}

// A document longer than the read-ahead keeps the reader of its file until its rest fits into memory.
TEST_F(Evaluate, ALongDocumentBlocksTheRestOfItsFile) {
  std::string text(9 << 20, 'x');
  text += "\nsecond";
  DocumentQueue queue(find_inputs({write("two.txt", text)}), {.split_on = "\n"}, {});
  EXPECT_FALSE(queue.blocked());
  auto first = queue.next();
  ASSERT_TRUE(first);
  EXPECT_TRUE(queue.blocked());
  EXPECT_FALSE(queue.next());
  EXPECT_EQ(first->read(2 << 20).size(), size_t{2} << 20);
  EXPECT_TRUE(queue.blocked());
  EXPECT_NEAR(queue.share(), 6.0 / 9, 0.03);  // 4 MiB are read ahead, in pieces of 256 KiB
  EXPECT_EQ(first->read(4 << 20).size(), size_t{4} << 20);
  EXPECT_FALSE(queue.blocked());
  auto second = queue.next();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->read(100), "second");
  EXPECT_EQ(first->read(4 << 20).size(), size_t{3} << 20);
  EXPECT_TRUE(first->complete());
  EXPECT_TRUE(second->complete());
  EXPECT_FALSE(queue.next());
  EXPECT_FALSE(queue.blocked());
}

TEST_F(Evaluate, ADroppedDocumentFreesItsFile) {
  DocumentQueue queue(find_inputs({write("two.txt", std::string(9 << 20, 'x') + "\nsecond")}), {.split_on = "\n"}, {});
  ASSERT_TRUE(queue.next());
  EXPECT_FALSE(queue.blocked());
  auto second = queue.next();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->read(100), "second");
}

// The limit of what is read is below the length that a document must have.
TEST_F(Evaluate, LimitsCutDocumentsThatAreLongEnough) {
  const std::string path = write("three.txt", "aaaaaaaaaa\nbbb\ncccccccc");
  DocumentQueue queue(find_inputs({path}), {.split_on = "\n"}, {.max_bytes = 4, .min_bytes = 8});
  auto first = queue.next();
  ASSERT_TRUE(first);
  auto third = queue.next();
  ASSERT_TRUE(third);
  EXPECT_EQ(first->read(100), "aaaa");
  EXPECT_FALSE(first->complete());
  EXPECT_EQ(third->read(100), "cccc");
  EXPECT_EQ(queue.too_short(), 1);
  EXPECT_FALSE(queue.next());
}

TEST_F(Evaluate, LinesCostWhatTheWholeTextCosts) {
  candidates_ = {{"plain", make_engine(*model_), 0}};
  const std::string path = lines_of_several_lengths();
  const double whole = run({path}, {.chunk = 64}).documents[0].scores[0].bits();
  std::ifstream stream(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  for (const size_t piece : {1, 70, 5000}) {
    std::vector<LineScore> lines;
    LineScorer scorer(Session(make_engine(*model_)), {.keep_text = 10, .chunk = 64},
                      [&](const LineScore& line) { lines.push_back(line); });
    for (size_t begin = 0; begin < text.size(); begin += piece) scorer.push(text.substr(begin, piece));
    scorer.push("rest");
    scorer.finish();
    ASSERT_EQ(lines.size(), 9u);
    double sum = 0;
    for (size_t i = 0; i < 8; ++i) sum += lines[i].bits;
    EXPECT_NEAR(sum, whole, 5e-3);
    EXPECT_EQ(lines[0].bytes, 301u);
    EXPECT_EQ(lines[0].text, text.substr(0, 10));
    EXPECT_TRUE(lines[0].text_cut);
    EXPECT_FALSE(lines[1].text_cut);
    EXPECT_EQ(lines[8].bytes, 4u);
    EXPECT_EQ(lines[8].line, 9u);
  }
}

TEST_F(Evaluate, IndependentLinesAreEachTheirOwnText) {
  std::vector<LineScore> lines;
  LineScorer scorer(Session(make_engine(*model_)), {.independent = true},
                    [&](const LineScore& line) { lines.push_back(line); });
  scorer.push("one line\nanother one\none line\n");
  scorer.push_line("one\nline");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_NEAR(lines[0].bits, lines[2].bits, 1e-4);
  EXPECT_GT(std::abs(lines[0].bits - lines[1].bits), 0.1);
  EXPECT_EQ(lines[3].bytes, 9u);
}

TEST(PositionSums, MergesWindowsWhenThereAreTooMany) {
  PositionSums sums(2);
  const std::vector<double> ones(10'000, 1.0);
  sums.add(ones);
  EXPECT_EQ(sums.window(), 8);
  const std::vector<double> windows = sums.windows(16);
  ASSERT_EQ(windows.size(), 625u);
  for (const double window : windows) EXPECT_EQ(window, 16);
  EXPECT_EQ(sums.octaves().size(), 14u);
  EXPECT_EQ(sums.octaves()[10], 1024);
}

TEST(ThroughputCurve, JoinsStretchesWhenThereAreTooMany) {
  ThroughputCurve curve(10);
  for (int64_t document = 0; document < 2; ++document)
    for (int64_t first = 0; first < 50'000; first += 10)
      curve.add({.first = first,
                 .bytes = 10,
                 .seconds = 1,
                 .fastest = static_cast<double>(2 + document),
                 .state_bytes = first,
                 .resident_bytes = 5});
  ASSERT_EQ(curve.points().size(), 1250u);
  EXPECT_EQ(curve.points()[1].first, 40);
  EXPECT_EQ(curve.points()[1].bytes, 80);
  EXPECT_EQ(curve.points()[1].seconds, 8);
  EXPECT_EQ(curve.points()[1].fastest, 2);
  EXPECT_EQ(curve.points()[1].state_bytes, 70);
  EXPECT_EQ(curve.points()[1].resident_bytes, 5);
}

TEST(RatioInterval, IsTheMeanWhenDocumentsAreEquallyLong) {
  const std::vector<double> values = {1.5, 2.5, 2.0, 3.25, 0.75}, ones(5, 1.0), tens(5, 10.0);
  const Interval expected = mean_interval(values);
  const Interval got = ratio_interval(values, ones);
  EXPECT_NEAR(got.mean, expected.mean, 1e-12);
  EXPECT_NEAR(got.low, expected.low, 1e-9);
  EXPECT_NEAR(got.high, expected.high, 1e-9);
  EXPECT_NEAR(ratio_interval(values, tens).high * 10, expected.high, 1e-9);
}

TEST(RatioInterval, LongDocumentsWeighMoreAndOneGivesNoBounds) {
  const std::vector<double> bits = {100, 30}, bytes = {100, 10};
  EXPECT_NEAR(ratio_interval(bits, bytes).mean, 130.0 / 110, 1e-12);
  EXPECT_FALSE(std::isfinite(ratio_interval(std::vector<double>{1, 0}, std::vector<double>{2, 0}).low));
}

}  // namespace
}  // namespace pmnet
