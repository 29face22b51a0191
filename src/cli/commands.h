#pragma once
#include <CLI/CLI.hpp>

// Every command lives in cmd_<name>.cpp: its options and one call. main.cpp holds the table.
namespace pmnet {

// Thrown by a command that finished its work with a negative result and has already printed why.
struct CommandFailed {
  int exit_code;
};

void add_bench_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_demo_command(CLI::App& app);
void add_eval_command(CLI::App& app);
void add_experiment_command(CLI::App& app);
void add_export_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_info_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_new_command(CLI::App& app);
void add_parity_command(CLI::App& app);
void add_plot_command(CLI::App& app);
void add_quantize_command(CLI::App& app);
void add_reference_command(CLI::App& app);
void add_score_command(CLI::App& app);
void add_selftest_command(CLI::App& app);
void add_train_command(CLI::App& app);

}  // namespace pmnet
