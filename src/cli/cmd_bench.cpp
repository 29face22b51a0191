#include <ATen/Parallel.h>

#include <fstream>
#include <memory>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/file.h"
#include "bench/peers.h"
#include "bench/table.h"
#include "cli/commands.h"
#include "report/progress.h"

namespace pmnet {

namespace {

struct BenchOptions {
  BenchCase base;
  std::vector<std::string> what{"train"};
  std::vector<int64_t> contexts{2048}, batches{1};
  std::vector<std::string> weights{"float32"};
  std::vector<std::string> against;
  std::vector<std::string> skip;
  int rounds = 3;
  bool peers = false;
  std::string json_file, plot_file;

  bool wants(const std::string& rival) const { return std::find(skip.begin(), skip.end(), rival) == skip.end(); }
};

struct Entry {
  BenchCase bench_case;
  Contestant contestant;
};

// Ours, our composite path and the baselines for every combination asked for.
std::vector<Entry> entries_of(const BenchOptions& o, int threads) {
  std::vector<Entry> entries;
  const auto add = [&](BenchCase c, const std::string& label) {
    entries.push_back({c, {label, command_for(c, threads)}});
  };
  const auto add_all = [&](BenchCase c, const std::string& suffix) {
    add(c, fmt::format("PMNet {}{}", c.preset, suffix));
    if (o.wants("composite")) {
      c.path = "reference";
      add(c, fmt::format("PMNet {}{}, composite path", c.preset, suffix));
      c.path = "fast";
    }
    for (const char* arch : {"transformer", "mamba"}) {
      if (!o.wants(arch)) continue;
      c.arch = arch;
      add(c, fmt::format("{} of {}{}", arch, c.preset, suffix));
    }
  };
  for (const std::string& what : o.what)
    for (const int64_t context : o.contexts)
      for (const int64_t batch : o.batches) {
        BenchCase c = o.base;
        c.what = what;
        c.context = context;
        c.batch = batch;
        if (what != "decode") {
          add_all(c, "");
          continue;
        }
        for (const std::string& weights : o.weights) {
          c.weights = weights;
          add_all(c, " " + weights);
        }
      }
  return entries;
}

void run_bench(const BenchOptions& o) {
  const int threads = at::get_num_threads();
  config_of(o.base);  // an unknown preset is told before anything is measured
  std::vector<Entry> entries = entries_of(o, threads);
  std::vector<Contestant> contestants;
  // The machine itself takes part in every round: its rates belong to the same minutes as the rest. Decoding also
  // measures how fast memory is read, in its own process and in turns.
  BenchCase machine_case = o.base;
  machine_case.what = "limits";
  machine_case.context = o.contexts.front();
  machine_case.weights = o.weights.front();
  contestants.push_back({"the machine", command_for(machine_case, threads)});
  for (const Entry& entry : entries) contestants.push_back(entry.contestant);
  for (const std::string& text : o.against) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      fail("--against '{}' has no label; write it as 'label=command'", text);
    contestants.push_back({text.substr(0, equals), {"sh", "-c", text.substr(equals + 1)}});
  }
  if (o.peers)
    for (const Contestant& peer : peer_contestants(o.base, o.contexts, threads)) contestants.push_back(peer);

  ProgressLine progress;
  const auto measured = run_interleaved(contestants, o.rounds, [&](int round, const Contestant& c) {
    progress.update([&] { return fmt::format("round {} of {}: {}", round + 1, o.rounds, c.label); });
  });
  progress.finish();

  if (!measured[0].error.empty()) fail("measuring the machine failed: {}", measured[0].error);
  BenchResult machine;
  machine.cube_flops = measured[0].median(&BenchResult::cube_flops);
  machine.shape_flops = measured[0].median(&BenchResult::shape_flops);
  machine.gemm_flops = std::max(machine.cube_flops, machine.shape_flops);
  machine.read_bytes_per_second = measured[0].median(&BenchResult::read_bytes_per_second);

  std::vector<BenchRow> rows;
  for (size_t i = 1; i < measured.size(); ++i) {
    const Measured& m = measured[i];
    const size_t entry = i - 1;
    BenchRow row{.label = m.label, .what = "", .rate = m.rate(), .peak_bytes = m.peak_bytes(), .error = m.error};
    if (entry < entries.size()) {
      const BenchCase& c = entries[entry].bench_case;
      row.what = c.what;
      row.context = c.context;
      row.batch = c.batch;
      row.share = m.share([&](const BenchResult& round) { return limit_of(c, c.what == "decode" ? round : machine); });
    } else {
      row.what = "rival";
      row.context = o.contexts.front();
      row.batch = o.base.batch;
    }
    rows.push_back(row);
  }
  fmt::print(
      "{} threads; products {:.1f} GFLOP/s (2,048 cubed {:.1f}, the model's shapes {:.1f}); reading {:.1f} GB/s\n\n",
      threads, machine.gemm_flops / 1e9, machine.cube_flops / 1e9, machine.shape_flops / 1e9,
      machine.read_bytes_per_second / 1e9);
  fmt::print("{}", bench_table(rows));
  if (!o.json_file.empty()) write_file_atomically(o.json_file, bench_json(rows, machine, threads) + "\n");
  if (!o.plot_file.empty()) plot_bench(rows, o.plot_file);
}

void add_case_options(CLI::App* command, BenchCase& c) {
  command->add_option("--preset", c.preset, "Model size")->capture_default_str();
  command->add_option("--chunk", c.chunk, "Bytes per chunk in training, 0: one pass")->capture_default_str();
  command->add_option("--seconds", c.seconds, "Measure each at least this long per round")->capture_default_str();
  command->add_option("--iterations", c.iterations, "Measure each at least this often per round")
      ->capture_default_str();
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("bench", "Measure speed and memory against the machine's own limit and rivals");
  const auto o = std::make_shared<BenchOptions>();
  add_case_options(command, o->base);
  command->add_option("--what", o->what, "train, forward, prefill, decode")
      ->delimiter(',')
      ->check(CLI::IsMember({"train", "forward", "prefill", "decode"}))
      ->capture_default_str();
  command->add_option("--context", o->contexts, "Bytes per sequence")->delimiter(',')->capture_default_str();
  command->add_option("--batch", o->batches, "Sequences at once")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("--weights", o->weights, "Weights to decode with: float32, bf16, int8")
      ->delimiter(',')
      ->check(CLI::IsMember({"float32", "bf16", "int8"}))
      ->capture_default_str();
  command->add_option("--rounds", o->rounds, "Rounds; each runs everything once")->check(CLI::Range(1, 1000));
  command->add_option("--skip", o->skip, "Leave out: composite, transformer, mamba")
      ->delimiter(',')
      ->check(CLI::IsMember({"composite", "transformer", "mamba"}));
  command->add_flag("--peers", o->peers, "Also time Hugging Face's Llama and Mamba, in an environment of their own");
  command->add_option("--against", o->against,
                      "label=command: a rival that prints bytes_per_second and peak_bytes as JSON");
  command->add_option("--json", o->json_file, "Write the results to this file");
  command->add_option("--plot", o->plot_file, "Draw speed against context to this .svg or .png file");
  command->callback([o] {
    o->base.batch = o->batches.front();
    run_bench(*o);
  });

  // One measurement in this process; what `bench` starts.
  CLI::App* one = app.add_subcommand("bench-case", "One measurement, printed as JSON")->group("");
  const auto c = std::make_shared<BenchCase>();
  add_case_options(one, *c);
  one->add_option("--what", c->what);
  one->add_option("--arch", c->arch);
  one->add_option("--path", c->path);
  one->add_option("--weights", c->weights);
  one->add_option("--context", c->context);
  one->add_option("--batch", c->batch);
  one->callback([c] { fmt::print("{}\n", to_json(run_case(*c))); });
}

}  // namespace pmnet
