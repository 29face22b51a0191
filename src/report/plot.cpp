#include "report/plot.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "report/gnuplot.h"

namespace pmnet {
namespace {

constexpr int kWidth = 900, kChartHeight = 480;
// Told apart by people who see few colours, and on paper by their lightness.
constexpr const char* kColours[] = {"#1b6ca8", "#d1601f", "#2e8b57", "#8a3ea8", "#b5202b",
                                    "#7a5c3a", "#c24d94", "#5a5a5a", "#9a9a1f", "#2aa6b5"};

bool drawable(double value, Scale scale) { return std::isfinite(value) && (scale == Scale::kLinear || value > 0); }

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

// Inline data of one series: x y smooth low high.
std::string data_block(const LineChart& chart, const Series& series, const std::string& name) {
  const auto column = [&](const std::vector<double>& values, size_t i) {
    return " " + (values.empty() ? "NaN" : number(values[i], chart.y_scale));
  };
  std::string block = "$" + name + " << EOD\n";
  for (size_t i = 0; i < series.x.size(); ++i)
    block += number(series.x[i], chart.x_scale) + column(series.y, i) + column(series.smooth, i) +
             column(series.low, i) + column(series.high, i) + "\n";
  return block + "EOD\n";
}

// Least and greatest of the numbers that are drawn.
std::pair<double, double> extent(const LineChart& chart, Scale scale, bool of_x) {
  std::pair<double, double> range{INFINITY, -INFINITY};
  const auto take = [&](const std::vector<double>& values) {
    for (const double value : values) {
      if (!drawable(value, scale)) continue;
      range = {std::min(range.first, value), std::max(range.second, value)};
    }
  };
  for (const Series& series : chart.series) {
    take(of_x ? series.x : series.y);
    if (of_x) continue;
    take(series.low);
    take(series.high);
  }
  return range;
}

// Steps and bytes are whole numbers: no ticks between them, and all their digits.
std::string x_ticks(const LineChart& chart) {
  for (const Series& series : chart.series)
    for (const double x : series.x)
      if (std::isfinite(x) && x != std::round(x)) return "set format x\nset xtics autofreq\n";
  const auto [least, most] = extent(chart, chart.x_scale, /*of_x=*/true);
  const bool few = chart.x_scale == Scale::kLinear && most - least <= 10;
  return fmt::format("set format x '%.0f'\nset xtics {}\n", few ? "1" : "autofreq");
}

// gnuplot would show a constant on an axis of one percent around it.
std::string y_range(const LineChart& chart) {
  const auto [least, most] = extent(chart, chart.y_scale, /*of_x=*/false);
  if (chart.y_scale != Scale::kLinear || least != most) return "set yrange [*:*]\n";
  const double end = most == 0 ? 1 : 2 * most;
  return fmt::format("set yrange [{}:{}]\n", std::min(0.0, end), std::max(0.0, end));
}

std::string axis_scale(char axis, Scale scale) {
  switch (scale) {
    case Scale::kLog2:
      return fmt::format("set logscale {} 2\n", axis);
    case Scale::kLog10:
      return fmt::format("set logscale {} 10\n", axis);
    case Scale::kLinear:
      break;
  }
  return fmt::format("unset logscale {}\n", axis);
}

std::string labels(const std::string& title, const std::string& x_label, const std::string& y_label) {
  return "set title " + gnuplot_quote(title) + "\nset xlabel " + gnuplot_quote(x_label) + " offset 0,0.4\nset ylabel " +
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
    script += fmt::format("set label {} at {}, graph {} offset 0.5,0 front boxed textcolor rgb '{}'\n",
                          gnuplot_quote(marker.label), x, height, colour);
  }
  return script;
}

std::string one_chart(const LineChart& chart, size_t chart_number) {
  std::string script = labels(chart.title, chart.x_label, chart.y_label);
  script += axis_scale('x', chart.x_scale) + axis_scale('y', chart.y_scale);
  script += "unset arrow\nunset label\n" + marker_lines(chart.markers, chart.x_scale, "#777777", "");
  script += x_ticks(chart) + y_range(chart);
  std::string bands, faint, lines;
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const Series& series = chart.series[s];
    const std::string name = fmt::format("data_{}_{}", chart_number, s);
    const size_t place = series.colour >= 0 ? static_cast<size_t>(series.colour) : s;
    const char* colour = kColours[place % std::size(kColours)];
    script += data_block(chart, series, name);
    if (!series.low.empty())
      bands +=
          fmt::format("${} using 1:4:5 with filledcurves fillcolor rgb '{}' fillstyle transparent solid 0.2 notitle, ",
                      name, colour);
    if (!series.smooth.empty())
      faint += fmt::format("${} using 1:2 with lines linewidth 1 linecolor rgb '#b0{}' notitle, ", name, colour + 1);
    // A single point has no line.
    const std::string style = series.x.size() == 1
                                  ? "points pointtype 7"
                                  : fmt::format("lines linewidth 2 dashtype {}", series.dashed ? 2 : 1);
    lines += fmt::format("{}${} using 1:{} with {} linecolor rgb '{}' title {}", s ? ", " : "", name,
                         series.smooth.empty() ? 2 : 3, style, colour, gnuplot_quote(series.name));
  }
  return script + "plot " + bands + faint + lines + "\n";
}

// Fixed margins: charts above one another have axes of equal width. Labels stand on white, so that no line runs through
// them.
constexpr const char* kStyle =
    "set lmargin at screen 0.1\nset rmargin at screen 0.97\nset key below center horizontal height 1\n"
    "set grid linetype 1 linecolor rgb '#dddddd'\nset border 3\nset tics nomirror\n"
    "set style textbox opaque noborder fillcolor rgb '#ffffff' margins 0.3,0.3\n";

}  // namespace

Series seed_band(std::string name, std::vector<double> xs, const std::vector<std::vector<double>>& values) {
  Series series{std::move(name), std::move(xs), {}};
  for (size_t i = 0; i < series.x.size(); ++i) {
    const std::vector<double>& seeds = values.at(i);
    const auto [least, most] = std::minmax_element(seeds.begin(), seeds.end());
    series.y.push_back(std::accumulate(seeds.begin(), seeds.end(), 0.0) / static_cast<double>(seeds.size()));
    series.low.push_back(*least);
    series.high.push_back(*most);
  }
  return series;
}

std::string chart_script(const std::vector<LineChart>& charts) {
  std::string script = kStyle;
  if (charts.size() > 1) script += fmt::format("set multiplot layout {},1\n", charts.size());
  for (size_t i = 0; i < charts.size(); ++i) script += one_chart(charts[i], i);
  if (charts.size() > 1) script += "unset multiplot\n";
  return script;
}

void write_charts(const std::vector<LineChart>& charts, const std::string& path) {
  if (charts.empty()) throw std::logic_error("plot: no chart was given");
  for (const LineChart& chart : charts)
    if (count_points(chart) == 0)
      fail("{}: there is nothing to draw in '{}': no point is finite{}; name another metric", path, chart.title,
           chart.y_scale == Scale::kLinear && chart.x_scale == Scale::kLinear ? "" : " and above 0");
  draw_with_gnuplot(path, kWidth, kChartHeight * static_cast<int>(charts.size()), chart_script(charts));
}

void write_chart(const LineChart& chart, const std::string& path) { write_charts({chart}, path); }

void write_heat_map(const HeatMap& map, const std::string& path) {
  if (map.values.empty() || map.values[0].empty())
    fail("{}: there is nothing to draw in '{}': it has no cells", path, map.title);
  const size_t columns = map.values[0].size();
  std::string data = "$map << EOD\n";
  for (size_t row = 0; row < map.values.size(); ++row) {
    if (map.values[row].size() != columns) throw std::logic_error("plot: rows of the heat map differ in length");
    for (size_t column = 0; column < columns; ++column)
      if (std::isfinite(map.values[row][column]))
        data += fmt::format("{} {} {:.9g}\n", column, row, map.values[row][column]);
  }
  data += "EOD\n";
  const auto tics = [](char axis, const std::vector<std::string>& names) {
    std::string script;
    for (size_t i = 0; i < names.size(); ++i)
      script += fmt::format("{}{} {}", i ? ", " : "", gnuplot_quote(names[i]), i);
    return names.empty() ? std::string() : fmt::format("set {}tics ({})\n", axis, script);
  };
  // Boxes and not an image: gnuplot draws no image of a single row or column.
  const std::string script =
      kStyle + labels(map.title, map.x_label, map.y_label) +
      "set rmargin at screen 0.85\nunset key\nunset grid\nset style fill solid noborder\nset cblabel " +
      gnuplot_quote(map.value_label) + "\n" + tics('x', map.x_names) + tics('y', map.y_names) +
      "set palette defined (0 '#f7fbff', 0.5 '#6baed6', 1 '#08306b')\n" +
      (map.low < map.high ? fmt::format("set cbrange [{}:{}]\n", map.low, map.high) : "") +
      fmt::format("set xrange [-0.5:{}]\nset yrange [{}:-0.5]\n", columns - 0.5, map.values.size() - 0.5) +
      marker_lines(map.markers, Scale::kLinear, "#b5202b", "front") + data +
      "plot $map using 1:2:($1-0.5):($1+0.5):($2-0.5):($2+0.5):3 with boxxyerror linecolor palette\n";
  draw_with_gnuplot(path, kWidth, kChartHeight, script);
}

}  // namespace pmnet
