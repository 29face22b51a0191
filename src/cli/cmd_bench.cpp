#include <ATen/Parallel.h>

#include <memory>

#include "base/atomic_folder.h"
#include "bench/report.h"
#include "cli/commands.h"
#include "cli/enum_option.h"
#include "cli/outputs.h"
#include "report/progress.h"

namespace pmnet {

namespace {

struct BenchOptions {
  BenchPlan plan;
  std::string json_file, plot_file;
  bool force = false;
};

void bench(BenchOptions& options) {
  options.plan.threads = at::get_num_threads();
  for (const std::string& file : {options.json_file, options.plot_file})
    require_free_file(file, {.force = options.force, .inputs = {}});
  BenchReport report;
  {
    ProgressLine progress;
    report = run_bench(options.plan, [&](int round, const BenchCandidate& candidate) {
      progress.update(
          [&] { return fmt::format("round {} of {}: {}", round + 1, options.plan.rounds, candidate.label); });
    });
  }
  fmt::print("{}", bench_table(report));
  if (!options.json_file.empty()) write_file_atomically(options.json_file, bench_json(report) + "\n");
  if (!options.plot_file.empty()) plot_bench(report, options.plot_file);
}

void add_case_options(CLI::App* command, BenchCase& c) {
  command->add_option("--preset", c.preset, "Model size")->capture_default_str()->type_name("NAME");
  command->add_option("--chunk", c.chunk, "Bytes per chunk in training; 0: one pass")
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--seconds", c.seconds, "Measure each candidate at least this long per round")
      ->capture_default_str()
      ->type_name("X");
  command->add_option("--iterations", c.iterations, "Measure each candidate at least this often per round")
      ->capture_default_str()
      ->type_name("N");
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "bench", "Benchmark throughput and memory against the machine's roofline, the baselines or other programs");
  const auto o = std::make_shared<BenchOptions>();
  BenchPlan& plan = o->plan;
  add_case_options(command, plan.base);
  command->add_option("--what", plan.what, "train, forward, prefill, decode")
      ->delimiter(',')
      ->check(CLI::IsMember({"train", "forward", "prefill", "decode"}))
      ->capture_default_str()
      ->type_name("LIST");
  command->add_option("--context", plan.contexts, "Bytes per sequence")
      ->delimiter(',')
      ->capture_default_str()
      ->type_name("LIST");
  command->add_option("--batch", plan.batches, "Sequences at once")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str()
      ->type_name("LIST");
  command->add_option("--format", plan.weights, "Weight formats to decode with: float32, bf16, int8")
      ->delimiter(',')
      ->check(CLI::IsMember({"float32", "bf16", "int8"}))
      ->capture_default_str()
      ->type_name("LIST");
  command->add_option("--rounds", plan.rounds, "Rounds; each measures every candidate once")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--skip", plan.skip, "Leave out composite, transformer or mamba")
      ->delimiter(',')
      ->check(CLI::IsMember({"composite", "transformer", "mamba"}))
      ->type_name("LIST");
  command->add_flag("--peers", plan.peers,
                    "Also measure Hugging Face's Llama and Mamba, installed for it on first use");
  command
      ->add_option("--against", plan.against,
                   "Also measure another program: a command that prints bytes_per_second and peak_bytes as JSON")
      ->type_name("LABEL=COMMAND");
  command->add_option("--json", o->json_file, "Write the results to this file")->type_name("FILE");
  command->add_option("--plot", o->plot_file, "Plot throughput against context to this .svg or .png file")
      ->type_name("FILE");
  add_force_option(*command, o->force);
  command->callback([o] { bench(*o); });

  // One measurement in this process: what `bench` starts.
  CLI::App* one = app.add_subcommand("bench-case", "Make one measurement and print it as JSON")->group("");
  const auto c = std::make_shared<BenchCase>();
  add_case_options(one, *c);
  one->add_option("--what", c->what);
  add_enum_option(*one, "--arch", c->arch, "Architecture");
  one->add_option("--path", c->path);
  one->add_option("--format", c->weights);
  one->add_option("--context", c->context);
  one->add_option("--batch", c->batch);
  one->callback([c] { fmt::print("{}\n", to_json(run_case(*c))); });
}

}  // namespace pmnet
