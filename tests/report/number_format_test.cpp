#include "report/number_format.h"

#include <gtest/gtest.h>

#include <cmath>

#include "report/table.h"

namespace pmnet {
namespace {

TEST(NumberFormat, SiLetters) {
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

TEST(NumberFormat, Durations) {
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

TEST(NumberFormat, CountsAndRates) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_byte_rate(2'500'000), "2.5 MB/s");
  EXPECT_EQ(format_byte_rate(NAN), "unknown");
}

TEST(Table, TextAlignsNumbersRightAndCountsCharacters) {
  Table table({"name", "bytes", "note"});
  table.add_row({"ä", "5", "-"});
  table.add_row({"longer", "1,234", ""});
  EXPECT_EQ(table.text(),
            "name    bytes  note\n"
            "ä           5  -\n"
            "longer  1,234\n");
}

TEST(Table, FilesQuoteWhatTheyMust) {
  Table table({"a,b", "n"});
  table.add_row({"say \"x\"\n|", "-1.5"});
  EXPECT_EQ(table.csv(), "\"a,b\",n\r\n\"say \"\"x\"\"\n|\",-1.5\r\n");
  EXPECT_EQ(table.markdown(), "| a,b | n |\n| --- | ---: |\n| say \"x\" \\| | -1.5 |\n");
  EXPECT_THROW(table.add_row({"one"}), std::logic_error);
}

}  // namespace
}  // namespace pmnet
