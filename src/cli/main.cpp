// The command table, and how errors become one line and an exit code: 2 for invalid input, 1 for our own faults.
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "base/amx_guard.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/standard_streams.h"
#include "base/suggest.h"
#include "base/version.h"
#include "cli/commands.h"
#include "ops/tensor_memory.h"

namespace pmnet {

namespace {

using AddCommand = void (*)(CLI::App& app);
constexpr AddCommand kCommands[] = {
    add_bench_command,    add_data_command,     add_demo_command,     add_eval_command,      add_experiment_command,
    add_export_command,   add_generate_command, add_info_command,     add_inspect_command,   add_new_command,
    add_parity_command,   add_plot_command,     add_quantize_command, add_reference_command, add_score_command,
    add_selftest_command, add_train_command};

constexpr int kMaxThreads = 1024;

std::string version_text() {
  const std::string revision = source_revision();
  return fmt::format("pmnet {}{}\ntorch {}\nbuilt with {}", version(), revision.empty() ? "" : " (" + revision + ")",
                     TORCH_VERSION, build_description());
}

// OMP_NUM_THREADS is a choice of the user too; ATen reads it itself.
void use_threads(const CLI::Option& option) {
  int threads = usable_cores();
  if (option.count() > 0) {
    threads = option.as<int>();
    if (threads < 1 || threads > kMaxThreads)
      fail("--threads is {}; expected a number from 1 to {}", threads, kMaxThreads);
  } else if (std::getenv("OMP_NUM_THREADS") != nullptr) {
    return;
  }
  at::set_num_threads(limit_threads(threads));
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string hint(const std::string& word, const std::vector<std::string>& known, const std::string& program) {
  constexpr size_t kMinPrefix = 4;  // "--te"
  for (const std::string& name : known)
    if (word.size() >= kMinPrefix && name.starts_with(word)) return fmt::format("; did you mean '{}'?", name);
  const std::string suggestion = did_you_mean(word, known);
  return suggestion.empty() ? fmt::format("; see '{} --help'", program) : suggestion;
}

// One sentence for what CLI11 could not parse, with the nearest thing that it could have.
std::string parse_problem(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> left_over = app.remaining(/*recurse=*/true);
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const std::string program = chosen.empty() ? "pmnet" : "pmnet " + chosen.front()->get_name();
  if (left_over.empty()) return fmt::format("{}; see '{} --help'", error.what(), program);

  const std::string word = left_over.front().substr(0, left_over.front().find('='));
  if (word.starts_with("-")) {
    std::vector<std::string> known = option_names(app);
    if (!chosen.empty())
      for (const std::string& name : option_names(*chosen.front())) known.push_back(name);
    return fmt::format("unknown option '{}'{}", word, hint(word, known, program));
  }
  if (chosen.empty()) return fmt::format("unknown command '{}'{}", word, hint(word, command_names(app), program));
  return fmt::format("unexpected argument '{}' to '{}'; see '{} --help'", left_over.front(), program, program);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

int report(int exit_code, const std::string& sentence) {
  print_error("pmnet: {}", sentence);
  return exit_code;
}

// Output that could not be written is an error, though it is buffered and may fail only here.
void finish_output() {
  const int error = std::fflush(stdout) != 0 ? errno : std::ferror(stdout) != 0 ? EIO : 0;
  if (error != 0) fail("cannot write to standard output: {}", std::strerror(error));
}

// fmt::print throws this too.
int report(const std::system_error& error) {
  if (std::ferror(stdout) != 0)
    return report(2, fmt::format("cannot write to standard output: {}", error.code().message()));
  return report(1, first_line(error.what()));
}

void add_help_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("help", "Describe the program or one of its commands");
  const auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("command", *words, "Command to describe")->type_name("COMMAND");
  command->callback([&app, words] {
    CLI::App* described = &app;
    std::string name = "pmnet";
    for (const std::string& word : *words) {
      const std::vector<CLI::App*> known =
          described->get_subcommands([&](CLI::App* sub) { return sub->check_name(word); });
      if (known.empty()) fail("unknown command '{}'{}", word, hint(word, command_names(*described), name));
      described = known.front();
      name += " " + word;
    }
    fmt::print("{}", described->get_formatter()->make_help(described, name, CLI::AppFormatMode::Normal));
  });
}

void add_version_command(CLI::App& app) {
  app.add_subcommand("version", "Print versions of pmnet, torch and the compiler")->callback([] {
    fmt::print("{}\n", version_text());
  });
}

int run(int argc, char** argv) {
  CLI::App app("Phasor Memory Network: a byte-level language model with a fixed-size memory of phases.", "pmnet");
  app.footer("In a source folder, './pmnet test' builds and runs all tests and './pmnet format' formats the code.");
  app.require_subcommand(0, 1);
  app.fallthrough();  // so that --threads may follow the command
  app.set_version_flag("--version", version_text(), "Print versions of pmnet, torch and the compiler");
  const CLI::Option* threads =
      app.add_option("--threads", "Threads to compute with [all cores, or OMP_NUM_THREADS]")->type_name("N");
  for (const AddCommand add_command : kCommands) add_command(app);
  add_help_command(app);
  add_version_command(app);
  app.parse_complete_callback([&] { use_threads(*threads); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    const int exit_code = app.exit(help_or_version);
    finish_output();
    return exit_code;
  } catch (const CLI::ParseError& error) {
    return report(2, parse_problem(app, error));
  }
  if (app.get_subcommands().empty()) {
    print_error(app.help());
    return 2;
  }
  finish_output();
  return 0;
}

}  // namespace

}  // namespace pmnet

int main(int argc, char** argv) {
  pmnet::open_standard_streams();
  pmnet::guard_against_broken_amx();
  pmnet::ops::reuse_tensor_memory();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit of the shell is then an error of the write
  try {
    return pmnet::run(argc, argv);
  } catch (const pmnet::CommandFailed& failed) {
    return failed.exit_code;
  } catch (const pmnet::UserError& error) {
    return pmnet::report(2, error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    return pmnet::report(
        2, fmt::format("{}: {}; check the name and its permissions", error.path1().string(), error.code().message()));
  } catch (const std::system_error& error) {
    return pmnet::report(error);
  } catch (const c10::Error& error) {
    return pmnet::report(1, pmnet::first_line(error.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return pmnet::report(1, "out of memory; use a smaller model, batch or chunk, or free memory");
  } catch (const std::exception& error) {
    return pmnet::report(1, pmnet::first_line(error.what()));
  }
}
