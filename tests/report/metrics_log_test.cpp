#include "report/metrics_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/file_calls.h"
#include "support/errors.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

std::vector<int64_t> steps_of(const std::string& path, const std::string& name) {
  std::vector<int64_t> steps;
  const MetricSeries series = read_metrics(path);
  for (const MetricPoint& point : series.by_name.at(name)) steps.push_back(point.step);
  return steps;
}

// Replaces the write call for as long as it lives.
struct WriteCall {
  decltype(file_calls().write) before = file_calls().write;
  explicit WriteCall(decltype(file_calls().write) now) { file_calls().write = now; }
  ~WriteCall() { file_calls().write = before; }
};

TEST(MetricsLog, GivesBackWhatWasWritten) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  MetricsLog log(path, -1);
  log.write(1, {{"train/loss", 0.1}, {"lr", 1e-300}});
  log.write(2, {{"train/loss", NAN}, {"\xFFname\n", 2}});
  const MetricSeries series = read_metrics(path);
  EXPECT_EQ(series.unreadable_lines, 0u);
  EXPECT_EQ(series.by_name.at("train/loss")[0].value, 0.1);
  EXPECT_EQ(series.by_name.at("lr")[0].value, 1e-300);
  EXPECT_TRUE(std::isnan(series.by_name.at("train/loss")[1].value));
  EXPECT_EQ(series.by_name.size(), 3u);
}

TEST(MetricsLog, ResumeDropsLaterPointsAndDamage) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  {
    MetricsLog log(path, -1);
    for (int64_t step = 1; step <= 10; ++step) log.write(step, {{"loss", 1.0 / static_cast<double>(step)}});
  }
  std::ofstream(path, std::ios::app) << "{\"step\": 11, \"lo";
  EXPECT_EQ(read_metrics(path).unreadable_lines, 1u);
  MetricsLog resumed(path, 6);
  resumed.write(7, {{"loss", 7}});
  EXPECT_EQ(steps_of(path, "loss"), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(read_metrics(path).unreadable_lines, 0u);
  MetricsLog anew(path, -1);
  EXPECT_TRUE(read_metrics(path).by_name.empty());
}

TEST(MetricsLog, DeletedFileIsMadeAgainWithOneWarning) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  int warnings = 0;
  MetricsLog log(path, -1, [&](const std::string&) { ++warnings; });
  log.write(1, {{"loss", 1}});
  std::filesystem::remove(path);
  log.write(2, {{"loss", 2}});
  log.write(3, {{"loss", 3}});
  EXPECT_EQ(steps_of(path, "loss"), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(warnings, 1);
  std::filesystem::remove_all(folder.path());
  for (int64_t step = 4; step < 8; ++step) log.write(step, {{"loss", 4}});
  EXPECT_EQ(warnings, 1);
}

TEST(MetricsLog, FullDiskLosesPointsAndNothingElse) {
  const TemporaryFolder folder;
  const std::string path = folder / "metrics.jsonl";
  std::vector<std::string> warnings;
  MetricsLog log(path, -1, [&](const std::string& sentence) { warnings.push_back(sentence); });
  log.write(1, {{"loss", 1}});
  {
    const WriteCall full([](int, const void*, size_t) -> ssize_t {
      errno = ENOSPC;
      return -1;
    });
    log.write(2, {{"loss", 2}});
  }
  {
    const WriteCall cut([](int fd, const void* data, size_t) { return ::write(fd, data, 9); });
    log.write(3, {{"loss", 3}});
  }
  log.write(4, {{"loss", 4}});
  log.write(5, {{"loss", 5}});
  EXPECT_EQ(steps_of(path, "loss"), (std::vector<int64_t>{1, 4, 5}));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find(path), std::string::npos);
  EXPECT_NE(warnings[0].find("No space left"), std::string::npos);
}

TEST(MetricsLog, UnwritableFolderIsToldAtTheStart) {
  const TemporaryFolder folder;
  const std::string sentence = user_error_of([&] { MetricsLog(folder / "absent/metrics.jsonl", -1); });
  EXPECT_NE(sentence.find("absent/metrics.jsonl"), std::string::npos);
  EXPECT_NE(user_error_of([&] { read_metrics(folder / "none.jsonl"); }).find("none.jsonl"), std::string::npos);
}

}  // namespace
}  // namespace pmnet
