// Charts as .svg or .png files, drawn by gnuplot.
#pragma once
#include <string>
#include <vector>

namespace pmnet {

enum class Scale { kLinear, kLog2, kLog10 };

struct Series {
  std::string name;
  std::vector<double> x, y;
  std::vector<double> low = {}, high = {};  // a band around the line, such as a confidence interval; empty: none
  std::vector<double> smooth = {};          // drawn instead of y, which stays as a faint line; empty: none
  int colour = -1;                          // number in the palette, for one colour in several charts; -1: its place
  bool dashed = false;
};

// The mean over seeds with a band from the least to the greatest; values[i] holds those of the seeds at xs[i].
Series seed_band(std::string name, std::vector<double> xs, const std::vector<std::vector<double>>& values);

// A vertical line, such as the length a model was trained on.
struct Marker {
  double x = 0;
  std::string label;
};

struct LineChart {
  std::string title, x_label, y_label;
  Scale x_scale = Scale::kLinear, y_scale = Scale::kLinear;
  std::vector<Series> series;
  std::vector<Marker> markers;
};

struct HeatMap {
  std::string title, x_label, y_label, value_label;
  std::vector<std::string> x_names, y_names;  // of columns and rows; empty: numbers from 0
  std::vector<std::vector<double>> values;    // rows from top to bottom, all of one length
  double low = 0, high = 0;                   // of the colours; equal: from the values
  std::vector<Marker> markers;                // x is a column; 1.5 is between the second and the third
};

// Points that are not finite, or not positive on a logarithmic axis, are left out. A chart without a single point, a
// path that ends neither in .svg nor .png, and a missing gnuplot are UserErrors. Several charts stand one below
// another.
void write_chart(const LineChart& chart, const std::string& path);
void write_charts(const std::vector<LineChart>& charts, const std::string& path);
void write_heat_map(const HeatMap& map, const std::string& path);

// The commands alone, for tests.
std::string chart_script(const std::vector<LineChart>& charts);

}  // namespace pmnet
