#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/standard_streams.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/model_argument.h"
#include "cli/outputs.h"
#include "cli/seed_option.h"
#include "cli/size_option.h"
#include "engine/generator.h"
#include "report/progress.h"
#include "train/open_model.h"

namespace pmnet {

namespace {

struct GenerateOptions {
  std::string model;
  std::optional<std::string> prompt;
  std::string prompt_file;
  std::string memory, save_memory;
  std::optional<uint64_t> seed;
  bool raw = false, force = false;
  GenerateSettings settings;
};

// Files, pipes and terminals; the text is never held as a whole.
void read_stream(int fd, const std::string& name, const std::function<void(std::string_view)>& take) {
  std::vector<char> buffer(size_t{1} << 13);
  while (true) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot read the prompt from {}: {}", name, std::strerror(errno));
    if (got == 0) return;
    take({buffer.data(), static_cast<size_t>(got)});
  }
}

void read_prompt(const GenerateOptions& options, const std::function<void(std::string_view)>& take) {
  if (options.prompt && *options.prompt != "-") return take(*options.prompt);
  if (options.prompt_file.empty()) {
    if (::isatty(STDIN_FILENO)) print_error("type the prompt, then Ctrl-D at the start of a line");
    return read_stream(STDIN_FILENO, "standard input", take);
  }
  const FileDescriptor file(::open(options.prompt_file.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail("{}: {}; name a prompt file that can be read", options.prompt_file, std::strerror(errno));
  read_stream(file.get(), options.prompt_file, take);
}

void write_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    fail("cannot write to standard output: {}", std::strerror(errno));
}

// Bytes to standard output, as text unless asked otherwise.
class Output {
 public:
  explicit Output(bool raw) : raw_(raw) {}
  void write(std::string_view bytes) { raw_ ? write_out(bytes) : write_out(utf8_.push(bytes)); }
  void finish() {
    if (!raw_) write_out(utf8_.finish());
    if (::isatty(STDOUT_FILENO)) write_out("\n");
  }

 private:
  bool raw_;
  Utf8Stream utf8_;
};

// Counts the seconds of the calls only: a prompt may be typed slowly.
class Stopwatch {
 public:
  void run(const std::function<void()>& work) {
    const double begin = steady_seconds();
    work();
    seconds_ += steady_seconds() - begin;
  }
  std::string of(int64_t bytes) const {
    return fmt::format("{} bytes in {}, {}", format_count(bytes), format_duration(seconds_),
                       format_byte_rate(seconds_ > 0 ? bytes / seconds_ : 0));
  }

 private:
  double seconds_ = 0;
};

const char* describe(StopReason reason) {
  switch (reason) {
    case StopReason::kMaxBytes:
      return "--max-bytes";
    case StopReason::kEndOfText:
      return "end of text";
    case StopReason::kStopString:
      return "a stop string";
    case StopReason::kReceiver:
      return "the reader";
  }
  return "";
}

void check(const GenerateOptions& options) {
  std::vector<std::string> problems = options.settings.problems();
  if (options.prompt && !options.prompt_file.empty())
    problems.emplace_back("the prompt is given twice, as an argument and as --prompt-file; give one of them");
  if (!problems.empty()) fail("{}", fmt::join(problems, "; "));
  require_free_file(options.save_memory, {.force = options.force, .inputs = {options.prompt_file}});
}

void generate(const GenerateOptions& options) {
  check(options);
  GenerateSettings settings = options.settings;
  settings.sampling.seed = options.seed ? *options.seed : std::random_device{}();

  const OpenedModel opened = open_model(options.model);
  Session session = options.memory.empty() ? Session(opened.engine) : Session::load(options.memory, opened.engine);
  Generator generator(session);
  const ByteTokenizer tokenizer(opened.config);

  Stopwatch prefill;
  std::optional<size_t> special;
  {
    ProgressLine progress;
    read_prompt(options, [&](std::string_view bytes) {
      if (const auto at = tokenizer.find_special_byte(bytes); at && !special) special = generator.prompt_bytes() + *at;
      prefill.run([&] { generator.read(bytes); });
      progress.update([&] { return "prompt  " + prefill.of(generator.prompt_bytes()); });
    });
    prefill.run([&] { generator.finish_prompt(); });
  }
  if (special) print_error("note: byte {} of the prompt is BOS or EOS to this model", *special);

  Stopwatch decode;
  Output output(options.raw);
  GenerateResult result;
  decode.run([&] {
    result = generator.generate(settings, [&](std::string_view bytes) {
      output.write(bytes);
      return true;
    });
  });
  output.finish();
  if (!options.save_memory.empty()) session.save(options.save_memory);

  print_error("prompt  {}", prefill.of(generator.prompt_bytes()));
  print_error("text    {}, ended by {}", decode.of(result.bytes), describe(result.reason));
  print_error("seed    {}", settings.sampling.seed);
}

}  // namespace

void add_generate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text");
  const auto options = std::make_shared<GenerateOptions>();
  GenerateSettings& settings = options->settings;
  command->add_option("model", options->model, kModelHelp)->type_name("DIR");
  command->add_option("prompt", options->prompt, "Text to continue, may be empty [standard input]")->type_name("TEXT");
  command->add_option("--prompt-file", options->prompt_file, "Read the prompt from this file")->type_name("FILE");
  as_size(command->add_option("--max-bytes", settings.max_bytes, "Stop after this many bytes")->capture_default_str());
  command->add_option("--temperature", settings.sampling.temperature, "Sampling temperature; 0 is greedy")
      ->capture_default_str()
      ->type_name("X");
  as_size(command->add_option("--top-k", settings.sampling.top_k, "Sample among the N likeliest bytes; 0: all")
              ->capture_default_str());
  command
      ->add_option("--top-p", settings.sampling.top_p,
                   "Sample among the likeliest bytes that have this probability together")
      ->capture_default_str()
      ->type_name("X");
  require_seed(command->add_option("--seed", options->seed, "Random seed [random, printed at the end]"));
  command->add_option("--stop", settings.stop, "Stop before this text; may be repeated")
      ->type_name("TEXT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--raw", options->raw, "Write the bytes unchanged, valid UTF-8 or not");
  command->add_option("--memory", options->memory, "Start from the memory in this file")->type_name("FILE");
  command->add_option("--save-memory", options->save_memory, "Save the memory after the last byte")->type_name("FILE");
  add_force_option(*command, options->force);
  command->callback([options] {
    if (options->prompt_file.empty() || options->model.empty()) default_model(options->model, options->prompt);
    generate(*options);
  });
}

}  // namespace pmnet
