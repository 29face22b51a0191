#include <ATen/ATen.h>
#include <torch/version.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/atomic_folder.h"
#include "base/format.h"
#include "base/machine.h"
#include "base/shared_data.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/enum_option.h"
#include "cli/outputs.h"
#include "config/train_config.h"
#include "report/progress.h"
#include "train/selftest.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;

struct SelftestOptions {
  Device device = Device::kCpu;
  std::string json;
  bool force = false;
};

std::vector<fs::path> fixture_folders() {
  std::vector<fs::path> folders;
  const std::optional<fs::path> root = find_shared(fs::path("tests") / "fixtures");
  if (!root) return folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(*root))
    if (fs::exists(entry.path() / "expected.safetensors")) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::string to_json(const SelftestReport& report) {
  nlohmann::ordered_json json{
      {"version", version()},         {"revision", source_revision()},          {"torch", TORCH_VERSION},
      {"build", build_description()}, {"processor", query_machine().processor}, {"device", report.device},
      {"holds", report.holds()},      {"checks", nlohmann::json::array()},      {"speeds", nlohmann::json::array()}};
  for (const ParityRow& row : report.rows)
    json["checks"].push_back({{"item", row.item},
                              {"error", row.error},
                              {"limit", row.limit},
                              {"measure", row.detail},
                              {"holds", row.holds()}});
  for (const SelftestSpeed& speed : report.speeds)
    json["speeds"].push_back({{"item", speed.item}, {"bytes_per_second", speed.bytes_per_second}});
  return json.dump(2) + "\n";
}

void print(const SelftestReport& report) {
  const auto held = std::count_if(report.rows.begin(), report.rows.end(), [](const ParityRow& r) { return r.holds(); });
  for (const ParityRow& row : report.rows)
    if (!row.holds() || row.item.find(": ") == std::string::npos)  // recorded outputs are many: only those that fail
      fmt::print("{:<4} {:<60} {:>10.2e}  limit {:>7.1e}  {}\n", row.holds() ? "ok" : "FAIL", row.item, row.error,
                 row.limit, row.detail);
  fmt::print("{}: {} of {} checks hold, those against recorded outputs included\n", report.device, held,
             report.rows.size());
  for (const SelftestSpeed& speed : report.speeds)
    fmt::print("{:<44} {}\n", speed.item, format_byte_rate(speed.bytes_per_second));
}

void selftest(const SelftestOptions& options) {
  require_free_file(options.json, {.force = options.force});
  ProgressLine progress;
  const at::Device device(options.device == Device::kCuda ? at::kCUDA : at::kCPU);
  const SelftestReport report = run_selftest(
      device, fixture_folders(), [&](const std::string& part) { progress.update([&] { return "checking " + part; }); });
  progress.finish();
  print(report);
  if (!options.json.empty()) write_file_atomically(options.json, to_json(report));
  if (!report.holds()) throw CommandFailed{1};
}

}  // namespace

void add_selftest_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("selftest", "Check that a device computes exactly, and how fast");
  const auto options = std::make_shared<SelftestOptions>();
  add_enum_option(*command, "--device", options->device, "Device to check");
  command->add_option("--json", options->json, "Write all results to this file")->type_name("FILE");
  add_force_option(*command, options->force);
  command->footer("Exit codes: 0 every check holds, 1 one does not, 2 there is no such device.");
  command->callback([options] { selftest(*options); });
}

}  // namespace pmnet
