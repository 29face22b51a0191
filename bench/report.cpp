#include "bench/report.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/machine.h"
#include "base/version.h"
#include "report/plot.h"
#include "report/table.h"

namespace pmnet {

std::string bench_table(const BenchReport& report) {
  Table table({"what", "model", "context", "batch", "bytes/s", "spread", "of limit", "peak memory"});
  std::string reasons;  // below the table: they are long
  for (const BenchRow& row : report.rows) {
    if (!row.error.empty()) {
      table.add_row(
          {row.what, row.label, fmt::format("{}", row.context), fmt::format("{}", row.batch), "failed", "", "", ""});
      reasons += fmt::format("\n{} failed: {}\n", row.label, row.error);
      continue;
    }
    table.add_row({row.what, row.label, fmt::format("{}", row.context), fmt::format("{}", row.batch),
                   fmt::format("{:.1f}", row.rate.median), fmt::format("{:.1f} - {:.1f}", row.rate.low, row.rate.high),
                   row.share > 0 ? fmt::format("{:.0f}%", 100 * row.share) : "",
                   fmt::format("{:.2f} GB", static_cast<double>(row.peak_bytes) / 1e9)});
  }
  const BenchResult& machine = report.machine;
  return fmt::format(
             "{} threads; GEMM {:.1f} GFLOP/s (2,048 cubed {:.1f}, the model's shapes {:.1f}); reading {:.1f} "
             "GB/s\n\n",
             report.threads, machine.gemm_flops / 1e9, machine.cube_flops / 1e9, machine.shape_flops / 1e9,
             machine.read_bytes_per_second / 1e9) +
         table.text() + reasons;
}

std::string bench_json(const BenchReport& report) {
  const Machine info = query_machine();
  nlohmann::json out{{"pmnet", version()},
                     {"revision", source_revision()},
                     {"processor", info.processor},
                     {"threads", report.threads},
                     {"gemm_flops", report.machine.gemm_flops},
                     {"cube_flops", report.machine.cube_flops},
                     {"shape_flops", report.machine.shape_flops},
                     {"read_bytes_per_second", report.machine.read_bytes_per_second},
                     {"rows", nlohmann::json::array()}};
  for (const BenchRow& row : report.rows)
    out["rows"].push_back({{"what", row.what},
                           {"label", row.label},
                           {"context", row.context},
                           {"batch", row.batch},
                           {"bytes_per_second", row.rate.median},
                           {"low", row.rate.low},
                           {"high", row.rate.high},
                           {"limit", row.share > 0 ? row.rate.median / row.share : 0},
                           {"share_of_limit", row.share},
                           {"peak_bytes", row.peak_bytes},
                           {"error", row.error}});
  return out.dump(1);
}

void plot_bench(const BenchReport& report, const std::string& file) {
  std::map<std::string, Series> by_label;
  for (const BenchRow& row : report.rows) {
    if (!row.error.empty()) continue;
    const std::string name =
        fmt::format("{}, {}{}", row.what, row.label, row.batch > 1 ? fmt::format(", batch {}", row.batch) : "");
    Series& series = by_label[name];
    series.name = name;
    series.x.push_back(static_cast<double>(row.context));
    series.y.push_back(row.rate.median);
    series.low.push_back(row.rate.low);
    series.high.push_back(row.rate.high);
  }
  LineChart chart{.title = "Speed by context length",
                  .x_label = "context, bytes",
                  .y_label = "bytes per second",
                  .x_scale = Scale::kLog2,
                  .y_scale = Scale::kLog10,
                  .series = {},
                  .markers = {}};
  for (auto& [label, series] : by_label) chart.series.push_back(series);
  write_chart(chart, file);
}

}  // namespace pmnet
