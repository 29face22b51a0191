#include "cli/demo.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/format.h"
#include "base/utf8.h"
#include "cli/demo_streaming.h"
#include "cli/demo_text.h"
#include "cli/model_argument.h"
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

struct DemoFolder {
  fs::path root;
  fs::path run() const { return root / "run"; }
  fs::path train_text() const { return root / "text" / "train.txt"; }
  fs::path held_out_text() const { return root / "text" / "held_out.txt"; }
  fs::path memory() const { return root / "memory.safetensors"; }
};

// runs/demo, or the first of runs/demo-2, runs/demo-3, ... that does not exist.
DemoFolder make_folder(const std::string& wanted) {
  fs::path folder = wanted.empty() ? "runs/demo" : wanted;
  if (!wanted.empty() && fs::exists(folder)) fail("{}: already exists; choose another folder with --out", wanted);
  for (int number = 2; fs::exists(folder); ++number) folder = fmt::format("runs/demo-{}", number);
  std::error_code error;
  fs::create_directories(folder / "text", error);
  if (error) fail("{}: {}; choose another folder with --out", (folder / "text").string(), error.message());
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
  constexpr int64_t kMinSteps = 12, kValidations = 6;
  TrainConfig config = train_config(options, folder, text);
  ProcessGroup group;
  const RunEstimate estimate = estimate_run(config, /*force=*/false, group);
  const auto affordable = static_cast<int64_t>(options.seconds / estimate.seconds_per_step);
  config.eval_every = std::max(kMinSteps, affordable) / kValidations;
  config.steps = kValidations * config.eval_every;  // the last validation falls on the last step
  config.warmup = std::min(config.warmup, config.steps / 4);
  fmt::print(
      "\nTraining a PMNet of {} parameters for {} steps: about {} at the speed just measured, longer if other programs "
      "use the machine; after it, about a minute of measuring\n",
      format_count(estimate.parameters), format_count(config.steps),
      format_duration(config.steps * estimate.seconds_per_step));
  std::fflush(stdout);
  return run_training(config, {.out = folder.run(), .resume = false, .force = false}, group);
}

void show_curve(const DemoFolder& folder) {
  fmt::print("\n{}", text_chart(curves_of({read_run(folder.run().string())}).front()));
}

// `shipped` is empty where it is not installed.
void show_compression(const OpenedModel& model, const std::optional<OpenedModel>& shipped, std::string_view train,
                      std::string_view held_out) {
  const double with_memory = bits_per_byte(model.engine, held_out);
  const double without_memory = bits_per_byte(make_engine(model.weights, {.recurrence = false}), held_out);
  const auto number = [](double bits) { return fmt::format("{:.3f}", bits); };
  Table table({"bits per byte of the held-out part", "alone", "after the training part"});
  table.add_row({"PMNet", "", number(with_memory)});
  table.add_row({"PMNet with memory recurrence off", "", number(without_memory)});
  if (shipped) table.add_row({"the model that ships with pmnet", number(bits_per_byte(shipped->engine, held_out)), ""});
  const std::string both = std::string(train).append(held_out);
  for (const std::vector<std::string>& command : {std::vector<std::string>{"gzip", "-9"}, {"xz", "-9e"}}) {
    const auto alone = compressed_bytes(command, held_out), before = compressed_bytes(command, train),
               all = compressed_bytes(command, both);
    const std::string name = fmt::format("{}", fmt::join(command, " "));
    const auto rate = [&](uint64_t bytes) { return number(8.0 * static_cast<double>(bytes) / held_out.size()); };
    if (alone && before && all)
      table.add_row({name, rate(*alone), rate(*all - std::min(*all, *before))});
    else
      fmt::print("{} is not installed and is left out\n", name);
  }
  fmt::print("\n{}The memory saves {:.3f} bits per byte: beyond the attention window, only it carries what was read.\n",
             table.text(), without_memory - with_memory);
}

// The prompt, "[...]", and the continuation by the model.
std::string continued(const OpenedModel& model, std::string_view prompt) {
  Session session(model.engine);
  Generator generator(session);
  generator.read(prompt);
  Utf8Stream utf8;
  std::string text = utf8.push(prompt) + "[...]";
  generator.generate({.sampling = {.temperature = 0.8, .seed = 1}, .max_bytes = kParagraphBytes, .stop = {}},
                     [&](std::string_view bytes) {
                       text += utf8.push(bytes);
                       return true;
                     });
  return text + utf8.finish();
}

void show_paragraphs(const OpenedModel& model, const std::optional<OpenedModel>& shipped, std::string_view held_out) {
  const std::string_view prompt = held_out.substr(0, kPromptBytes);
  fmt::print("\nThe held-out part begins like this; the model continues after [...]:\n\n{}\n",
             continued(model, prompt));
  if (shipped)
    fmt::print(
        "\nThe model that ships with pmnet continues like this (the Jargon File is part of its training text):\n\n{}\n",
        continued(*shipped, prompt));
}

// How to start this program again: through the launcher where it was used.
std::string program() {
  return std::getenv("PMNET_HOME") != nullptr ? "./pmnet" : fs::read_symlink("/proc/self/exe").string();
}

// The first words of a text that need no quoting.
std::string prompt_from(std::string_view text) {
  constexpr size_t kMinBytes = 12, kMaxBytes = 60;
  std::string prompt;
  for (const char c : text) {
    if (!std::isalpha(static_cast<unsigned char>(c)) && c != ' ' && c != ',') {
      if (prompt.size() >= kMinBytes) break;
      prompt.clear();
    } else if (!prompt.empty() || std::isalpha(static_cast<unsigned char>(c))) {
      prompt += c;
      if (c == ' ' && prompt.size() >= kMaxBytes / 2) break;
    }
  }
  while (!prompt.empty() && prompt.back() == ' ') prompt.pop_back();
  return prompt.substr(0, kMaxBytes);
}

void show_places(const DemoFolder& folder, const fs::path& checkpoint, std::string_view held_out) {
  fmt::print("\nFiles:\n");
  const auto row = [](const char* what, const fs::path& path) { fmt::print("  {:<10} {}\n", what, path.string()); };
  row("model", folder.run() / "ckpt" / checkpoint.filename());
  row("curves", folder.run() / "curves.png");
  row("logs", folder.run() / "metrics.jsonl");
  row("settings", folder.run() / "run.toml");
  row("texts", folder.root / "text");
  row("memory", folder.memory());
  const std::string start = fmt::format("{} generate {}", program(), folder.run().string());
  fmt::print("\nTry:\n  {} \"{}\" --temperature 0.7\n", start, prompt_from(held_out));
  fmt::print("  {} \"\" --memory {}\n", start, folder.memory().string());
}

}  // namespace

bool run_demo(const DemoOptions& options) {
  constexpr double kLongest = 1e6;
  if (!(options.seconds > 0 && options.seconds <= kLongest))
    fail("--seconds is {}; expected a number above 0, at most {}", options.seconds, kLongest);
  const DemoText text = find_demo_text(options.text, kMaxTextBytes);
  if (text.bytes.size() < kMinTextBytes)
    fail("{}: has {} bytes and the demo needs at least {}; name a longer text", text.origin, text.bytes.size(),
         kMinTextBytes);
  const Parts parts = divide(text.bytes);
  const DemoFolder folder = make_folder(options.out);
  write_file_atomically(folder.train_text(), parts.train);
  write_file_atomically(folder.held_out_text(), parts.held_out);
  fmt::print("Text: {}, {} bytes to learn from, the last {} held out\n", text.origin, format_count(parts.train.size()),
             format_count(parts.held_out.size()));

  const RunSummary summary = train(options, folder, text.bytes);
  if (summary.end != RunSummary::End::kFinished) {
    fmt::print("stopped at step {}; resume with: {} train --out {} --resume\n", summary.step, program(),
               folder.run().string());
    return true;
  }
  show_curve(folder);
  const OpenedModel model = open_model(folder.run().string());
  std::optional<OpenedModel> shipped;
  if (const auto installed = find_shipped_model()) shipped = open_model(installed->string());
  show_compression(model, shipped, parts.train, parts.held_out);
  show_paragraphs(model, shipped, parts.held_out);
  fmt::print("\n");
  const bool agrees = show_streaming(model, parts.held_out.substr(0, kStreamedBytes), folder.memory());
  show_places(folder, summary.checkpoint, parts.held_out);
  return agrees;
}

}  // namespace pmnet
