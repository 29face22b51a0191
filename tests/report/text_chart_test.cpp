#include "report/text_chart.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pmnet {
namespace {

LineChart chart_of(std::vector<Series> series) {
  LineChart chart;
  chart.x_label = "steps";
  chart.title = "Bits per byte";
  chart.series = std::move(series);
  return chart;
}

TEST(TextChart, DrawsAFallingLineFromCornerToCorner) {
  const std::string text = text_chart(chart_of({{"train", {0, 1, 2, 3}, {8, 6, 4, 2}, {}, {}}}), 4, 4);
  EXPECT_EQ(text,
            "Bits per byte  . train\n"
            "      8 |.   \n"
            "        | .  \n"
            "        |  . \n"
            "      2 |   .\n"
            "        +----\n"
            "         03 steps\n");
}

TEST(TextChart, AveragesColumnsAndKeepsSeriesApart) {
  const std::string text =
      text_chart(chart_of({{"a", {0, 1, 9, 10}, {1, 3, 0, 0}, {}, {}}, {"b", {10}, {2}, {}, {}}}), 2, 3);
  EXPECT_NE(text.find("      2 |.o\n"), std::string::npos) << text;
  EXPECT_NE(text.find("      0 | .\n"), std::string::npos) << text;
}

TEST(TextChart, LeavesOutWhatIsNotFinite) {
  EXPECT_EQ(text_chart(chart_of({})), "");
  EXPECT_EQ(text_chart(chart_of({{"a", {1, 2}, {std::nan(""), INFINITY}, {}, {}}})), "");
  EXPECT_NE(text_chart(chart_of({{"a", {5}, {1}, {}, {}}})), "");
}

}  // namespace
}  // namespace pmnet
