#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "base/amx_guard.h"
#include "base/machine.h"
#include "cli/commands.h"
#include "cli/model_info.h"
#include "engine/bf16_check.h"

namespace pmnet {

namespace {

std::string amx_description(const AmxReport& amx) {
  if (!amx.claimed) return "none";
  if (!amx.broken()) return "usable";
  return fmt::format("claimed without a tile palette, not usable; ONEDNN_MAX_CPU_ISA={}",
                     std::getenv("ONEDNN_MAX_CPU_ISA"));
}

std::string bf16_description(const Machine& machine) {
  return describe(check_bf16()) +
         (machine.has_bf16_products() ? ", in hardware" : ", but not in hardware: slower than fp32");
}

void print_machine_info() {
  constexpr double kGigabyte = 1e9;
  const Machine machine = query_machine();
  fmt::print("processor          {}\n", machine.processor.empty() ? "unknown" : machine.processor);
  fmt::print("cores              {}\n", machine.cores);
  fmt::print("threads            {}\n", at::get_num_threads());
  fmt::print("memory             {:.1f} GB, {:.1f} GB available\n", machine.memory_bytes / kGigabyte,
             machine.available_bytes / kGigabyte);
  fmt::print("instruction sets   {}\n", fmt::join(machine.instruction_sets, " "));
  fmt::print("AMX                {}\n", amx_description(query_amx()));
  fmt::print("bf16               {}\n", bf16_description(machine));
}

struct InfoOptions {
  std::string model;
  bool machine = false;
};

}  // namespace

void add_info_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("info", "List the presets, describe a model or this machine");
  const auto options = std::make_shared<InfoOptions>();
  command
      ->add_option("model", options->model,
                   "Preset, model folder or folder of a training run; without it the presets are listed")
      ->type_name("PRESET|DIR");
  command->add_flag("--machine", options->machine, "Describe this machine: cores, memory, instruction sets, bf16");
  command->callback([options] {
    if (options->model.empty() && !options->machine) print_presets();
    if (options->machine) print_machine_info();
    if (!options->model.empty()) print_model_info(options->model);
  });
}

}  // namespace pmnet
