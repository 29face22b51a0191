#include "report/text_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "base/format.h"

namespace pmnet {

namespace {

constexpr std::string_view kMarks = ".o+x#";

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Which of `count` equal parts the value falls into.
  int part(double value, int count) const {
    return high > low ? std::min(count - 1, static_cast<int>((value - low) / (high - low) * count)) : 0;
  }
};

Range x_range(const LineChart& chart) {
  Range range;
  for (const Series& series : chart.series)
    for (size_t i = 0; i < series.x.size(); ++i)
      if (std::isfinite(series.y[i])) range.include(series.x[i]);
  return range;
}

// NaN where the series has no point.
std::vector<double> column_means(const Series& series, const Range& x, int columns) {
  std::vector<double> sums(columns, 0.0), counts(columns, 0.0);
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!std::isfinite(series.y[i])) continue;
    const int column = x.part(series.x[i], columns);
    sums[column] += series.y[i];
    counts[column] += 1;
  }
  for (int column = 0; column < columns; ++column) sums[column] /= counts[column];
  return sums;
}

}  // namespace

std::string text_chart(const LineChart& chart, int columns, int rows) {
  const Range x = x_range(chart);
  Range y;
  std::vector<std::vector<double>> lines;
  for (const Series& series : chart.series) {
    lines.push_back(column_means(series, x, columns));
    for (const double value : lines.back())
      if (!std::isnan(value)) y.include(value);
  }
  if (!(y.low <= y.high)) return {};

  std::vector<std::string> canvas(rows, std::string(columns, ' '));
  std::string legend;
  for (size_t s = 0; s < lines.size(); ++s) {
    const char mark = kMarks[s % kMarks.size()];
    legend += fmt::format("  {} {}", mark, chart.series[s].name);
    for (int column = 0; column < columns; ++column)
      if (!std::isnan(lines[s][column])) canvas[rows - 1 - y.part(lines[s][column], rows)][column] = mark;
  }
  std::string text = fmt::format("{}{}\n", chart.title, legend);
  for (int row = 0; row < rows; ++row) {
    const std::string label = row == 0          ? fmt::format("{:.3g}", y.high)
                              : row == rows - 1 ? fmt::format("{:.3g}", y.low)
                                                : "";
    text += fmt::format("{:>7} |{}\n", label, canvas[row]);
  }
  const std::string left = format_si(x.low), right = format_si(x.high) + " " + chart.x_label;
  text += fmt::format("{:>7} +{:-<{}}\n{:>9}{}{:>{}}\n", "", "", columns, "", left, right,
                      std::max(0, columns - static_cast<int>(left.size())));
  return text;
}

}  // namespace pmnet
