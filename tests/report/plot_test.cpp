#include "report/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "report/curves.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/temporary_folder.h"

namespace pmnet {
namespace {

LineChart example() {
  LineChart chart;
  chart.title = "it's `date` $HOME \"loss\"";
  chart.x_label = "position";
  chart.y_label = "bits per byte";
  chart.x_scale = Scale::kLog2;
  chart.y_scale = Scale::kLog10;
  Series line{"first", {1, 2, 4, 8}, {3, 2, NAN, 1}, {2.5, 1.5, NAN, 0.5}, {3.5, 2.5, NAN, 1.5}};
  Series point{"single", {0, 4}, {1, 2}};
  chart.series = {line, point};
  chart.markers = {{4, "trained length"}};
  return chart;
}

bool have_gnuplot() { return std::system("gnuplot --version >/dev/null 2>&1") == 0; }

TEST(Plot, ScriptHoldsAxesBandsMarkersAndQuotedNames) {
  const std::string script = chart_script({example(), example()});
  for (const char* part : {"set logscale x 2", "set logscale y 10", "with filledcurves", "'trained length'",
                           "set multiplot layout 2,1", "'it''s `date` $HOME \"loss\"'"})
    EXPECT_NE(script.find(part), std::string::npos) << part << "\n" << script;
  EXPECT_NE(script.find("4 NaN NaN NaN NaN"), std::string::npos);
  EXPECT_NE(script.find("NaN 1 NaN NaN NaN\n"), std::string::npos);  // x = 0 has no place on a logarithmic axis
}

TEST(Plot, DrawsSvgAndPng) {
  if (!have_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  const TemporaryFolder folder;
  write_chart(example(), folder / "a.svg");
  write_charts({example(), example()}, folder / "b.png");
  const std::string svg = whole_file(folder / "a.svg");
  for (const char* part : {"<svg", "trained length", "it's `date` $HOME", "</svg>", "first", "single"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  EXPECT_TRUE(whole_file(folder / "b.png").starts_with("\x89PNG"));
  HeatMap map{"load", "group", "level",        "share", {"a", "b"}, {"root", "leaf"}, {{0.1, 0.9}, {NAN, 0.4}},
              0,      1,       {{0.5, "here"}}};
  write_heat_map(map, folder / "c.svg");
  write_heat_map(map, folder / "c.png");
  EXPECT_NE(whole_file(folder / "c.svg").find("leaf"), std::string::npos);
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++files;
  EXPECT_EQ(files, 4u);
}

TEST(Plot, FaultsAreTold) {
  const TemporaryFolder folder;
  EXPECT_NE(user_error_of([&] { write_chart(example(), folder / "a.pdf"); }).find(".svg or .png"), std::string::npos);
  LineChart empty;
  empty.title = "nothing here";
  empty.series = {{"x", {1}, {NAN}}};
  EXPECT_NE(user_error_of([&] { write_chart(empty, folder / "a.svg"); }).find("nothing to draw"), std::string::npos);
  if (!have_gnuplot()) return;
  write_file(folder / "file", "");
  EXPECT_NE(user_error_of([&] { write_chart(example(), folder / "file/a.svg"); }).find("cannot write"),
            std::string::npos);
}

TEST(Plot, MissingGnuplotIsNamed) {
  const TemporaryFolder folder;
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", folder.path().c_str(), 1);
  const std::string sentence = user_error_of([&] { write_chart(example(), folder / "a.svg"); });
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_NE(sentence.find("cannot draw without gnuplot"), std::string::npos) << sentence;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Plot, AHeatMapOfOneRowHasCells) {
  if (!have_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  const TemporaryFolder folder;
  const auto coloured = [&](const HeatMap& map) {
    write_heat_map(map, folder / "map.svg");
    const std::string svg = whole_file(folder / "map.svg");
    size_t cells = 0;
    for (size_t at = svg.find("gnuplot_plot_1"); (at = svg.find("<polygon", at)) != svg.npos; ++at) ++cells;
    return cells;
  };
  HeatMap map{"facts", "distance", "facts", "accuracy", {"a", "b", "c"}, {"1"}, {{0.1, 0.5, 0.9}}, 0, 1, {}};
  const size_t row = coloured(map);
  EXPECT_GE(row, 3u);
  map.values = {{0.1, NAN, 0.9}};
  EXPECT_EQ(coloured(map), row - 1);
}

TEST(Plot, PanelsAreAlignedAndAConstantGetsAnAxisFromZero) {
  LineChart chart;
  chart.series = {{"rate", {1, 2, 3}, {2, 2, 2}}};
  const std::string script = chart_script({chart, example()});
  for (const char* part : {"set lmargin at screen", "set rmargin at screen", "set yrange [0:4]", "set xtics 1\n"})
    EXPECT_NE(script.find(part), std::string::npos) << part << "\n" << script;
}

// How far down the picture a text stands, in pixels.
double height_of(const std::string& svg, const std::string& text) {
  const size_t at = svg.rfind("translate(", svg.find(">" + text + "<"));
  return std::stod(svg.substr(svg.find(',', at) + 1));
}

TEST(Plot, TheLegendStandsBelowTheAxisLabel) {
  if (!have_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  const TemporaryFolder folder;
  write_charts({example(), example()}, folder / "a.svg");
  const std::string svg = whole_file(folder / "a.svg");
  EXPECT_GE(height_of(svg, "first"), height_of(svg, "position") + 20);  // a line of text
}

TEST(Plot, SeedBandIsTheMeanBetweenWorstAndBest) {
  const Series band = seed_band("pmnet", {10, 20}, {{1, 3, 5}, {2, 2, 8}});
  EXPECT_EQ(band.y, (std::vector<double>{3, 4}));
  EXPECT_EQ(band.low, (std::vector<double>{1, 2}));
  EXPECT_EQ(band.high, (std::vector<double>{5, 8}));
}

TEST(Curves, RunsOfOneNameAreToldApartAndNamedForPeople) {
  const TemporaryFolder folder;
  for (const char* run : {"demo/run", "other/run"})
    write_file(folder / run / "metrics.jsonl",
               "{\"step\":1,\"train/bpb\":3,\"val/bpb\":3.5}\n{\"step\":2,\"train/bpb\":2,\"val/bpb\":2.5}\n");
  const std::string one = folder / "demo/run", other = folder / "other/run";
  const std::vector<LineChart> both = curves_of(read_runs({one, other}));
  ASSERT_EQ(both.at(0).series.size(), 4u);
  EXPECT_EQ(both[0].series[0].name, "demo/run, training");
  EXPECT_EQ(both[0].series[3].name, "other/run, validation");
  EXPECT_EQ(both[0].series[0].colour, both[0].series[1].colour);
  EXPECT_NE(both[0].series[0].colour, both[0].series[2].colour);
  const std::vector<LineChart> alone = curves_of(read_runs({one}));
  EXPECT_EQ(alone[0].series[0].name, "training");
  EXPECT_EQ(alone[0].series[0].smooth.size(), 2u);
  EXPECT_TRUE(alone[0].series[1].smooth.empty());
  EXPECT_EQ(read_runs({one, one}).at(0).name, read_runs({one, one}).at(1).name);  // the same run twice: no way apart
}

}  // namespace
}  // namespace pmnet
