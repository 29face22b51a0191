#include "bench/bench.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/report.h"
#include "support/errors.h"

namespace pmnet {
namespace {

BenchPlan tiny_plan() {
  BenchPlan plan;
  plan.base.preset = "tiny";
  return plan;
}

std::vector<std::string> shell(const std::string& command) { return {"sh", "-c", command}; }

TEST(Bench, ACandidateCarriesItsCase) {
  BenchPlan plan = tiny_plan();
  plan.what = {"train", "decode"};
  plan.contexts = {64, 128};
  plan.weights = {"bf16", "int8"};
  plan.skip = {"composite", "mamba"};
  plan.against = {"rival=true"};
  const std::vector<BenchCandidate> candidates = candidates_of(plan);
  // The machine; training at two contexts and decoding at two with two formats, by two models; the rival.
  ASSERT_EQ(candidates.size(), 1u + 2 * (2 + 2 * 2) + 1);
  EXPECT_EQ(candidates[0].bench_case->what, "limits");
  EXPECT_EQ(candidates[1].bench_case->what, "train");
  EXPECT_EQ(candidates[1].bench_case->context, 64);
  EXPECT_EQ(candidates[2].bench_case->arch, Architecture::kTransformer);
  EXPECT_EQ(candidates[3].bench_case->context, 128);
  EXPECT_EQ(candidates[7].bench_case->weights, "int8");
  EXPECT_EQ(candidates.back().label, "rival");
  EXPECT_EQ(candidates.back().command.back(), "true");
  EXPECT_FALSE(candidates.back().bench_case);
}

TEST(Bench, PlansWithoutMeaningAreRefused) {
  const auto error_of = [](const auto& change) {
    BenchPlan plan = tiny_plan();
    change(plan);
    return user_error_of([&] { candidates_of(plan); });
  };
  EXPECT_NE(error_of([](BenchPlan& p) { p.contexts = {0}; }).find("--context is 0"), std::string::npos);
  EXPECT_NE(error_of([](BenchPlan& p) { p.contexts = {64, -1}; }).find("--context is -1"), std::string::npos);
  EXPECT_NE(error_of([](BenchPlan& p) { p.base.chunk = -1; }).find("--chunk is -1"), std::string::npos);
  EXPECT_NE(error_of([](BenchPlan& p) { p.base.iterations = 0; }).find("--iterations is 0"), std::string::npos);
  EXPECT_NE(error_of([](BenchPlan& p) { p.base.preset = "3n"; }).find("3m"), std::string::npos);
  EXPECT_NE(error_of([](BenchPlan& p) { p.against = {"nolabel"}; }).find("label=command"), std::string::npos);
  EXPECT_NE(error_of([](BenchPlan& p) { p.against = {"=true"}; }).find("label=command"), std::string::npos);
}

TEST(Bench, RoundsAreInterleavedAndAFailureEndsOnlyItsOwn) {
  std::vector<std::string> order;
  const std::vector<BenchCandidate> candidates = {
      {"good", shell("echo '{\"bytes_per_second\": 5, \"peak_bytes\": 7}'"), std::nullopt},
      {"bad", shell("echo because; false"), std::nullopt},
      {"silent", shell("true"), std::nullopt}};
  const auto measured = run_interleaved(candidates, 2, [&](int round, const BenchCandidate& candidate) {
    order.push_back(fmt::format("{}{}", candidate.label, round));
  });
  EXPECT_EQ(order, (std::vector<std::string>{"good0", "bad0", "silent0", "good1"}));
  ASSERT_EQ(measured.size(), 3u);
  EXPECT_EQ(measured[0].rounds.size(), 2u);
  EXPECT_EQ(measured[0].rate().median, 5);
  EXPECT_EQ(measured[0].peak_bytes(), 7);
  EXPECT_EQ(measured[1].error, "exit code 1: because");
  EXPECT_NE(measured[2].error, "");
}

TEST(Bench, TheSpreadIsMedianAndEnds) {
  const Spread even = spread_of({4, 1, 3, 2});
  EXPECT_EQ(even.median, 2.5);
  EXPECT_EQ(even.low, 1);
  EXPECT_EQ(even.high, 4);
  EXPECT_EQ(spread_of({}).median, 0);
}

TEST(Bench, AResultSurvivesItsLineOfJson) {
  BenchResult result;
  result.bytes_per_second = 12.5;
  result.peak_bytes = 99;
  result.cube_flops = 1e11;
  const BenchResult again = parse_bench_result(to_json(result), "it");
  EXPECT_EQ(again.bytes_per_second, 12.5);
  EXPECT_EQ(again.peak_bytes, 99);
  EXPECT_EQ(again.cube_flops, 1e11);
  EXPECT_NE(user_error_of([] { parse_bench_result("{\"peak_bytes\": 1}", "it"); }).find("bytes_per_second"),
            std::string::npos);
}

// Training takes three times the arithmetic of a forward pass; a decoding step reads the weights once for the batch.
TEST(Bench, LimitsFollowFromTheMachine) {
  BenchResult machine;
  machine.gemm_flops = 1e12;
  machine.read_bytes_per_second = 1e10;
  BenchCase c;
  c.preset = "tiny";
  const double train = limit_of(c, machine);
  c.what = "forward";
  EXPECT_NEAR(limit_of(c, machine), 3 * train, 1e-6 * train);
  c.what = "decode";
  const double one = limit_of(c, machine);
  EXPECT_NEAR(one, 1e10 / weight_bytes(config_of(c), "float32"), 1e-6 * one);
  c.batch = 8;
  c.weights = "int8";
  EXPECT_NEAR(limit_of(c, machine), 32 * one, 1e-6 * one);
}

TEST(Bench, TheReportNamesWhatFailed) {
  BenchReport report;
  report.rows = {{.label = "ours",
                  .what = "train",
                  .context = 64,
                  .batch = 1,
                  .rate = {2, 1, 3},
                  .share = 0.5,
                  .peak_bytes = 1'000'000'000,
                  .error = ""},
                 {.label = "theirs",
                  .what = "rival",
                  .context = 64,
                  .batch = 1,
                  .rate = {},
                  .share = 0,
                  .peak_bytes = 0,
                  .error = "exit code 1: no"}};
  const std::string table = bench_table(report);
  EXPECT_NE(table.find("50%"), std::string::npos) << table;
  EXPECT_NE(table.find("\ntheirs failed: exit code 1: no"), std::string::npos) << table;
  const auto json = nlohmann::json::parse(bench_json(report));
  EXPECT_EQ(json.at("rows").at(0).at("limit"), 4);
  EXPECT_EQ(json.at("rows").at(1).at("error"), "exit code 1: no");
}

}  // namespace
}  // namespace pmnet
