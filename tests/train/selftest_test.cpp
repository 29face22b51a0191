#include "train/selftest.h"

#include <gtest/gtest.h>

#include <set>

#include "support/errors.h"

namespace pmnet {
namespace {

TEST(Selftest, HoldsOnTheCpu) {
  std::set<std::string> parts;
  const SelftestReport report = run_selftest(at::kCPU, {std::filesystem::path(PMNET_FIXTURES) / "base"},
                                             [&](const std::string& part) { parts.insert(part); });
  for (const ParityRow& row : report.rows) EXPECT_TRUE(row.holds()) << row.item << " " << row.error;
  EXPECT_TRUE(report.holds());
  EXPECT_TRUE(parts.contains("recorded outputs: base"));
  EXPECT_GT(report.rows.size(), 20u);  // those of the folder, and one per further part
  ASSERT_EQ(report.speeds.size(), 2u);
  for (const SelftestSpeed& speed : report.speeds) EXPECT_GT(speed.bytes_per_second, 0) << speed.item;
}

TEST(Selftest, DoesNotHoldWhenAnyCheckFails) {
  SelftestReport report;
  report.rows = {{"a", 0.5, 1, ""}};
  EXPECT_TRUE(report.holds());
  report.rows.push_back({"b", std::nan(""), 1, ""});
  EXPECT_FALSE(report.holds());
}

TEST(Selftest, RefusesADeviceThatIsNotThere) {
  if (at::hasCUDA()) GTEST_SKIP() << "this machine has one";
  const auto run = [] { run_selftest(at::Device(at::kCUDA), {}, [](const std::string&) {}); };
  expect_mentions(user_error_of(run), {"no CUDA device", "cpu"});
}

}  // namespace
}  // namespace pmnet
