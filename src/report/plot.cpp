#include "report/plot.h"

#include <cmath>
#include <filesystem>
#include <stdexcept>

#include "base/error.h"
#include "report/gnuplot.h"

namespace pmnet {
namespace {

constexpr int kWidth = 900, kChartHeight = 480;
// Told apart by people who see few colours, and on paper by their lightness.
constexpr const char* kColours[] = {"#1b6ca8", "#d1601f", "#2e8b57", "#8a3ea8", "#b5202b",
                                    "#7a5c3a", "#c24d94", "#5a5a5a", "#9a9a1f", "#2aa6b5"};

bool drawable(double value, Scale scale) { return std::isfinite(value) && (scale == Scale::Linear || value > 0); }

std::string number(double value, Scale scale) { return drawable(value, scale) ? fmt::format("{:.9g}", value) : "NaN"; }

void check(const Series& series) {
  if (series.x.size() != series.y.size() || series.low.size() != series.high.size() ||
      (!series.low.empty() && series.low.size() != series.x.size()))
    throw std::logic_error("plot: the columns of series '" + series.name + "' differ in length");
}

uint64_t count_points(const LineChart& chart) {
  uint64_t points = 0;
  for (const Series& series : chart.series) {
    check(series);
    for (size_t i = 0; i < series.x.size(); ++i)
      points += drawable(series.x[i], chart.x_scale) && drawable(series.y[i], chart.y_scale);
  }
  return points;
}

// Inline data of one series: x y low high.
std::string data_block(const LineChart& chart, const Series& series, const std::string& name) {
  std::string block = "$" + name + " << EOD\n";
  for (size_t i = 0; i < series.x.size(); ++i) {
    block += number(series.x[i], chart.x_scale) + " " + number(series.y[i], chart.y_scale);
    if (!series.low.empty())
      block += " " + number(series.low[i], chart.y_scale) + " " + number(series.high[i], chart.y_scale);
    block += "\n";
  }
  return block + "EOD\n";
}

std::string axis_scale(char axis, Scale scale) {
  switch (scale) {
    case Scale::Log2:
      return fmt::format("set logscale {} 2\n", axis);
    case Scale::Log10:
      return fmt::format("set logscale {} 10\n", axis);
    case Scale::Linear:
      break;
  }
  return fmt::format("unset logscale {}\n", axis);
}

std::string labels(const std::string& title, const std::string& x_label, const std::string& y_label) {
  return "set title " + gnuplot_quote(title) + "\nset xlabel " + gnuplot_quote(x_label) + "\nset ylabel " +
         gnuplot_quote(y_label) + "\n";
}

// `layer` is "front" where the picture would cover the lines.
std::string marker_lines(const std::vector<Marker>& markers, Scale scale, const std::string& colour,
                         const std::string& layer) {
  std::string script;
  int drawn = 0;
  for (const Marker& marker : markers) {
    if (!drawable(marker.x, scale)) continue;
    const double height = 0.97 - 0.06 * (drawn++ % 4);  // labels of neighbours must not run into each other
    const std::string x = number(marker.x, scale);
    script += fmt::format("set arrow from {0}, graph 0 to {0}, graph 1 nohead {1} dashtype 2 linecolor rgb '{2}'\n", x,
                          layer, colour);
    script += fmt::format("set label {} at {}, graph {} offset 0.5,0 {} textcolor rgb '{}'\n",
                          gnuplot_quote(marker.label), x, height, layer, colour);
  }
  return script;
}

std::string one_chart(const LineChart& chart, size_t chart_number) {
  std::string script = labels(chart.title, chart.x_label, chart.y_label);
  script += axis_scale('x', chart.x_scale) + axis_scale('y', chart.y_scale);
  script += "unset arrow\nunset label\n" + marker_lines(chart.markers, chart.x_scale, "#777777", "");
  std::string bands, lines;
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const Series& series = chart.series[s];
    const std::string name = fmt::format("data_{}_{}", chart_number, s);
    const char* colour = kColours[s % std::size(kColours)];
    script += data_block(chart, series, name);
    if (!series.low.empty())
      bands +=
          fmt::format("${} using 1:3:4 with filledcurves fillcolor rgb '{}' fillstyle transparent solid 0.2 notitle, ",
                      name, colour);
    // A single point has no line.
    const char* style = series.x.size() == 1 ? "points pointtype 7" : "lines linewidth 2";
    lines += fmt::format("{}${} using 1:2 with {} linecolor rgb '{}' title {}", s ? ", " : "", name, style, colour,
                         gnuplot_quote(series.name));
  }
  return script + "plot " + bands + lines + "\n";
}

std::string script_head(const std::string& output, int height) {
  const bool svg = output.ends_with(".svg");
  return fmt::format("set terminal {} size {},{} noenhanced font 'sans,12' background '#ffffff'\nset output {}\n",
                     svg ? "svg" : "pngcairo", kWidth, height, gnuplot_quote(output)) +
         "set key outside right top\nset grid linetype 1 linecolor rgb '#dddddd'\nset border 3\nset tics nomirror\n";
}

}  // namespace

std::string chart_script(const std::vector<LineChart>& charts, const std::string& output) {
  std::string script = script_head(output, kChartHeight * static_cast<int>(charts.size()));
  if (charts.size() > 1) script += fmt::format("set multiplot layout {},1\n", charts.size());
  for (size_t i = 0; i < charts.size(); ++i) script += one_chart(charts[i], i);
  if (charts.size() > 1) script += "unset multiplot\n";
  return script;
}

void write_charts(const std::vector<LineChart>& charts, const std::string& path) {
  if (charts.empty()) throw std::logic_error("plot: no chart was given");
  for (const LineChart& chart : charts)
    if (count_points(chart) == 0)
      fail("there is nothing to draw in '{}' ({}): no point is finite{}", path, chart.title,
           chart.y_scale == Scale::Linear && chart.x_scale == Scale::Linear ? "" : " and above 0");
  draw_with_gnuplot(path, [&](const std::string& output) { return chart_script(charts, output); });
}

void write_chart(const LineChart& chart, const std::string& path) { write_charts({chart}, path); }

void write_heat_map(const HeatMap& map, const std::string& path) {
  if (map.values.empty() || map.values[0].empty()) fail("there is nothing to draw in '{}' ({})", path, map.title);
  const size_t columns = map.values[0].size();
  std::string data = "$map << EOD\n";
  for (size_t row = 0; row < map.values.size(); ++row) {
    if (map.values[row].size() != columns) throw std::logic_error("plot: rows of the heat map differ in length");
    for (size_t column = 0; column < columns; ++column)
      data += fmt::format("{} {} {}\n", column, row, number(map.values[row][column], Scale::Linear));
    data += "\n";
  }
  data += "EOD\n";
  const auto tics = [](char axis, const std::vector<std::string>& names) {
    std::string script;
    for (size_t i = 0; i < names.size(); ++i)
      script += fmt::format("{}{} {}", i ? ", " : "", gnuplot_quote(names[i]), i);
    return names.empty() ? std::string() : fmt::format("set {}tics ({})\n", axis, script);
  };
  draw_with_gnuplot(path, [&](const std::string& output) {
    return script_head(output, kChartHeight) + labels(map.title, map.x_label, map.y_label) +
           "unset key\nunset grid\nset cblabel " + gnuplot_quote(map.value_label) + "\n" + tics('x', map.x_names) +
           tics('y', map.y_names) + "set palette defined (0 '#f7fbff', 0.5 '#6baed6', 1 '#08306b')\n" +
           (map.low < map.high ? fmt::format("set cbrange [{}:{}]\n", map.low, map.high) : "") +
           fmt::format("set xrange [-0.5:{}]\nset yrange [{}:-0.5]\n", columns - 0.5, map.values.size() - 0.5) +
           marker_lines(map.markers, Scale::Linear, "#b5202b", "front") + data + "plot $map using 1:2:3 with image\n";
  });
}

}  // namespace pmnet
