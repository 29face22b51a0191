#include "base/format.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pmnet {
namespace {

TEST(Format, SiLetters) {
  EXPECT_EQ(format_si(0), "0");
  EXPECT_EQ(format_si(0.01234), "0.0123");
  EXPECT_EQ(format_si(7), "7");
  EXPECT_EQ(format_si(999), "999");
  EXPECT_EQ(format_si(1000), "1.00k");
  EXPECT_EQ(format_si(999'499.9), "999k");
  EXPECT_EQ(format_si(999'600), "1.00M");
  EXPECT_EQ(format_si(118'970'368), "119M");
  EXPECT_EQ(format_si(-12'345), "-12.3k");
  EXPECT_EQ(format_si(NAN), "nan");
}

TEST(Format, Durations) {
  EXPECT_EQ(format_duration(0.0123), "12 ms");
  EXPECT_EQ(format_duration(0.9999), "1.0 s");
  EXPECT_EQ(format_duration(59.9), "59.9 s");
  EXPECT_EQ(format_duration(59.99), "1 min 00 s");
  EXPECT_EQ(format_duration(245), "4 min 05 s");
  EXPECT_EQ(format_duration(3 * 3600 + 60 * 7), "3 h 07 min");
  EXPECT_EQ(format_duration(100 * 3600), "4 d 04 h");
  EXPECT_EQ(format_duration(-1), "unknown");
  EXPECT_EQ(format_duration(INFINITY), "unknown");
}

TEST(Format, CountsAndRates) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_bytes(999), "999 bytes");
  EXPECT_EQ(format_bytes(1500), "1.5 kB");
  EXPECT_EQ(format_bytes(64'000'000), "64.0 MB");
  EXPECT_EQ(format_byte_rate(2'500'000), "2.5 MB/s");
  EXPECT_EQ(format_byte_rate(NAN), "unknown");
}

}  // namespace
}  // namespace pmnet
