#include "report/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

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
  chart.x_scale = Scale::Log2;
  chart.y_scale = Scale::Log10;
  Series line{"first", {1, 2, 4, 8}, {3, 2, NAN, 1}, {2.5, 1.5, NAN, 0.5}, {3.5, 2.5, NAN, 1.5}};
  Series point{"single", {0, 4}, {1, 2}, {}, {}};
  chart.series = {line, point};
  chart.markers = {{4, "trained length"}};
  return chart;
}

bool have_gnuplot() { return std::system("gnuplot --version >/dev/null 2>&1") == 0; }

TEST(Plot, ScriptHoldsAxesBandsMarkersAndQuotedNames) {
  const std::string script = chart_script({example(), example()}, "out.svg");
  for (const char* part : {"set logscale x 2", "set logscale y 10", "with filledcurves", "'trained length'",
                           "set multiplot layout 2,1", "'it''s `date` $HOME \"loss\"'", "terminal svg"})
    EXPECT_NE(script.find(part), std::string::npos) << part << "\n" << script;
  EXPECT_NE(script.find("4 NaN NaN NaN"), std::string::npos);
  EXPECT_NE(script.find("NaN 1\n"), std::string::npos);  // x = 0 has no place on a logarithmic axis
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
  empty.series = {{"x", {1}, {NAN}, {}, {}}};
  EXPECT_NE(user_error_of([&] { write_chart(empty, folder / "a.svg"); }).find("nothing to draw"), std::string::npos);
  EXPECT_NE(user_error_of([&] { write_chart(example(), folder / "absent/a.svg"); }).find("absent"), std::string::npos);
}

TEST(Plot, MissingGnuplotIsNamed) {
  const TemporaryFolder folder;
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", folder.path().c_str(), 1);
  const std::string sentence = user_error_of([&] { write_chart(example(), folder / "a.svg"); });
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_NE(sentence.find("gnuplot is not installed"), std::string::npos) << sentence;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace pmnet
