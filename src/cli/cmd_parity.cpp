#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "train/parity.h"

namespace pmnet {

namespace {

// Prints one row per item; gives how many do not hold.
int print_parity(const std::string& folder, ops::Implementation implementation, const char* name) {
  const std::vector<ParityRow> rows = check_parity(folder, implementation);
  int failed = 0;
  fmt::print("{}  [{}]\n", folder, name);
  for (const ParityRow& row : rows) {
    failed += row.holds() ? 0 : 1;
    fmt::print("  {:<4} {:<60} {:>10.2e}  limit {:>7.1e}  {}\n", row.holds() ? "ok" : "FAIL", row.item, row.error,
               row.limit, row.detail);
  }
  fmt::print("  {} of {} items hold\n", rows.size() - failed, rows.size());
  return failed;
}

}  // namespace

void add_parity_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("parity", "Compare a model with recorded outputs of another implementation");
  const auto folders = std::make_shared<std::vector<std::string>>();
  command->add_option("folder", *folders, "Folders with config.json, model.safetensors and expected.safetensors")
      ->type_name("DIR")
      ->required();
  command->callback([folders] {
    int failed = 0;
    for (const std::string& folder : *folders) {
      failed += print_parity(folder, ops::Implementation::kFast, "fast");
      failed += print_parity(folder, ops::Implementation::kReference, "reference");
    }
    if (failed > 0) throw CommandFailed{1};
  });
}

}  // namespace pmnet
