// The main job in one go: a small model learns a text for some minutes, is measured on a part it never saw, writes a
// paragraph and reads in chunks.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/format.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/demo_streaming.h"
#include "cli/demo_text.h"
#include "engine/generator.h"
#include "eval/scorer.h"
#include "report/curves.h"
#include "report/table.h"
#include "report/text_chart.h"
#include "train/estimate.h"
#include "train/run.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxTextBytes = 32'000'000;
constexpr uint64_t kMinTextBytes = 20'000;
constexpr double kHeldOutShare = 0.05;
constexpr size_t kMaxHeldOutBytes = 100'000;  // scored in seconds
constexpr size_t kStreamedBytes = 4000;
constexpr size_t kPromptBytes = 160;
constexpr int64_t kParagraphBytes = 400;

struct DemoOptions {
  std::string text;
  std::string out;
  std::string preset = "tiny";
  double seconds = 180;
};

struct DemoFolder {
  fs::path root;
  fs::path run() const { return root / "run"; }
  fs::path train_text() const { return root / "text" / "train.txt"; }
  fs::path held_out_text() const { return root / "text" / "held_out.txt"; }
  fs::path memory() const { return root / "memory.safetensors"; }
};

// runs/demo, or the first of runs/demo-2, runs/demo-3, ... that is not there yet.
DemoFolder make_folder(const std::string& wanted) {
  fs::path folder = wanted.empty() ? "runs/demo" : wanted;
  if (!wanted.empty() && fs::exists(folder)) fail("{} is there already; name a new folder with --out", wanted);
  for (int number = 2; fs::exists(folder); ++number) folder = fmt::format("runs/demo-{}", number);
  std::error_code error;
  fs::create_directories(folder / "text", error);
  if (error)
    fail("cannot make the folder {}: {}; name another with --out", (folder / "text").string(), error.message());
  return {folder};
}

struct Parts {
  std::string_view train, held_out;
};

Parts divide(std::string_view text) {
  const size_t held_out = std::min(kMaxHeldOutBytes, static_cast<size_t>(kHeldOutShare * text.size()));
  return {text.substr(0, text.size() - held_out), text.substr(text.size() - held_out)};
}

TrainConfig train_config(const DemoOptions& options, const DemoFolder& folder, std::string_view text) {
  TrainConfig config;
  config.preset = options.preset;
  config.inputs = {folder.train_text().string()};
  config.validation = {folder.held_out_text().string()};
  config.cache = (folder.root / "text" / "cache").string();
  config.binary = ByteTokenizer(254, 255).find_special_byte(text).has_value();
  config.batch = 2;  // at this size many small steps teach more in three minutes than few large ones
  config.context = 256;
  config.learning_rate = 6e-3;
  config.warmup = 50;
  config.min_lr_ratio = 0.05;
  config.log_every = 20;
  config.sample_every = 0;
  config.eval_bytes = 32'768;
  config.threads = at::get_num_threads();
  return config;
}

RunSummary train(const DemoOptions& options, const DemoFolder& folder, std::string_view text) {
  constexpr int64_t kMinSteps = 10;
  TrainConfig config = train_config(options, folder, text);
  ProcessGroup group;
  const RunEstimate estimate = estimate_run(config, /*force=*/false, group);
  config.steps = std::max(kMinSteps, static_cast<int64_t>(options.seconds / estimate.seconds_per_step));
  config.warmup = std::min(config.warmup, config.steps / 4);
  config.eval_every = std::max<int64_t>(1, config.steps / 6);
  fmt::print("\nTraining a PMNet of {} parameters for {} steps, about {}\n", format_count(estimate.parameters),
             format_count(config.steps), format_duration(config.steps * estimate.seconds_per_step));
  std::fflush(stdout);
  return run_training(config, {.out = folder.run(), .resume = false, .force = false}, group);
}

void show_curve(const DemoFolder& folder) {
  fmt::print("\n{}", text_chart(curves_of({read_run(folder.run().string())}).front()));
}

void show_compression(const OpenedModel& model, const DemoFolder& folder, std::string_view held_out) {
  Table table({"bits per byte of the held-out part", "alone", "after the training part"});
  table.add_row({"PMNet", "", fmt::format("{:.3f}", bits_per_byte(*model.model, held_out))});
  const auto rate = [&](uint64_t bytes) { return fmt::format("{:.3f}", 8.0 * bytes / held_out.size()); };
  for (const char* command : {"gzip -9", "xz -9e"}) {
    const auto alone = compressed_bytes(command, {folder.held_out_text()});
    const auto before = compressed_bytes(command, {folder.train_text()});
    const auto both = compressed_bytes(command, {folder.train_text(), folder.held_out_text()});
    if (alone && before && both)
      table.add_row({command, rate(*alone), rate(*both - std::min(*both, *before))});
    else
      fmt::print("{} is not installed, so it is left out\n", command);
  }
  fmt::print("\n{}", table.text());
}

void show_paragraph(const OpenedModel& model, std::string_view held_out) {
  const std::string_view prompt = held_out.substr(0, kPromptBytes);
  Session session(model.model, model.hash);
  Generator generator(session);
  generator.read(prompt);
  Utf8Stream utf8;
  std::string text = utf8.push(prompt) + "[...]";
  generator.generate({.sampling = {.temperature = 0.8, .seed = 1}, .max_bytes = kParagraphBytes, .stop = {}},
                     [&](std::string_view bytes) {
                       text += utf8.push(bytes);
                       return true;
                     });
  fmt::print("\nThe held-out part begins like this; the model goes on after [...]:\n\n{}{}\n", text, utf8.finish());
}

void show_places(const DemoFolder& folder, const fs::path& checkpoint) {
  fmt::print("\nWhere everything lies:\n");
  const auto row = [](const char* what, const fs::path& path) { fmt::print("  {:<10} {}\n", what, path.string()); };
  row("model", folder.run() / "ckpt" / checkpoint.filename());
  row("curves", folder.run() / "curves.png");
  row("logs", folder.run() / "metrics.jsonl");
  row("settings", folder.run() / "run.toml");
  row("texts", folder.root / "text");
  row("a memory", folder.memory());
  fmt::print("Try: pmnet generate {0} \"Once upon a time\" --temperature 0.7\n", folder.run().string());
}

void run_demo(const DemoOptions& options) {
  constexpr double kLongest = 1e6;
  if (!(options.seconds > 0 && options.seconds <= kLongest))
    fail("--seconds is {}; expected a number above 0, at most {}", options.seconds, kLongest);
  const DemoText text = find_demo_text(options.text, kMaxTextBytes);
  if (text.bytes.size() < kMinTextBytes)
    fail("{} has {} bytes; to learn anything the demo needs at least {}, so name a longer text", text.origin,
         text.bytes.size(), kMinTextBytes);
  const Parts parts = divide(text.bytes);
  const DemoFolder folder = make_folder(options.out);
  write_file_atomically(folder.train_text(), parts.train);
  write_file_atomically(folder.held_out_text(), parts.held_out);
  fmt::print("Text: {}, {} bytes to learn from, the last {} held out\n", text.origin, format_count(parts.train.size()),
             format_count(parts.held_out.size()));

  const RunSummary summary = train(options, folder, text.bytes);
  if (summary.end != RunSummary::End::kFinished) {
    fmt::print("stopped at step {}; go on with: pmnet train --out {} --resume\n", summary.step, folder.run().string());
    return;
  }
  show_curve(folder);
  const OpenedModel model = open_model(folder.run().string());
  show_compression(model, folder, parts.held_out);
  show_paragraph(model, parts.held_out);
  fmt::print("\n");
  const bool agrees = show_streaming(model, parts.held_out.substr(0, kStreamedBytes), folder.memory());
  show_places(folder, summary.checkpoint);
  if (!agrees) throw CommandFailed{1};
}

}  // namespace

void add_demo_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("demo", "See it work: train a small model on a text, in three minutes");
  const auto options = std::make_shared<DemoOptions>();
  command->add_option("text", options->text, "File to learn [the Jargon File if installed, else tales of our own]")
      ->type_name("FILE");
  command->add_option("--out", options->out, "Folder to make [runs/demo, or the next free number]")->type_name("DIR");
  command->add_option("--preset", options->preset, "Shape of the model")->capture_default_str()->type_name("NAME");
  command->add_option("--seconds", options->seconds, "How long to train")->capture_default_str()->type_name("X");
  command->callback([options] { run_demo(*options); });
}

}  // namespace pmnet
