#include "report/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace pmnet {
namespace {

// A stream that keeps what is written to it.
struct Captured {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* file = ::open_memstream(&text, &size);
  ~Captured() {
    std::fclose(file);
    std::free(text);
  }
  std::string str() {
    std::fflush(file);
    return {text, size};
  }
};

TEST(ProgressLine, ElsewhereThanATerminalItIsAFewPlainLines) {
  Captured captured;
  double now = 100;
  ProgressLine line({captured.file, false, 0.1, 5, [&] { return now; }});
  int asked = 0;
  for (int i = 0; i <= 120; ++i, now += 0.1) {
    line.update([&] {
      ++asked;
      return "state " + std::to_string(i);
    });
  }
  line.finish("done");
  EXPECT_EQ(asked, 2);
  const std::string text = captured.str();
  EXPECT_EQ(text.find('\r'), text.npos);
  EXPECT_EQ(text.find('\033'), text.npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_TRUE(text.ends_with("done\n"));
}

TEST(ProgressLine, OnATerminalItIsRedrawnAndNotesStandAbove) {
  Captured captured;
  double now = 0;
  ProgressLine line({captured.file, true, 0.1, 5, [&] { return now; }});
  line.update([] { return "first"; });
  line.update([] { return "too soon"; });
  now = 1;
  line.update([] { return std::string(500, 'x'); });
  line.print("note");
  line.finish();
  const std::string text = captured.str();
  EXPECT_EQ(text, "\rfirst\033[K\r" + std::string(79, 'x') + "\033[K\r\033[Knote\n");
}

TEST(RateMeter, FollowsTheRecentRate) {
  double now = 50;
  RateMeter meter(1000, 0, [&] { return now; });
  EXPECT_LT(meter.seconds_left(), 0);
  for (int i = 1; i <= 60; ++i) {
    now += 1;
    meter.set_done(i);
  }
  EXPECT_NEAR(meter.rate(), 1, 1e-9);
  for (int i = 1; i <= 60; ++i) {
    now += 1;
    meter.set_done(60 + 10 * i);
  }
  EXPECT_NEAR(meter.rate(), 10, 1e-9);
  EXPECT_NEAR(meter.seconds_left(), 34, 1e-9);
  EXPECT_NEAR(meter.share(), 0.66, 1e-9);
  EXPECT_NEAR(meter.elapsed(), 120, 1e-9);
}

TEST(RateMeter, WhatWasDoneBeforeIsNotSpeed) {
  double now = 0;
  RateMeter meter(1000, 900, [&] { return now; });
  now = 10;
  meter.set_done(910);
  EXPECT_NEAR(meter.rate(), 1, 1e-9);
  EXPECT_NEAR(meter.seconds_left(), 90, 1e-9);
}

}  // namespace
}  // namespace pmnet
