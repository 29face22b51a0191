// References for docs/, printed from the program itself, so that they cannot be out of date.
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "config/reference.h"

namespace pmnet {

namespace {

// A Markdown table cell on one line.
std::string cell(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

// "--preset NAME", "-h, --help", or "FILE" for a positional argument.
std::string signature(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  if (names.empty()) names.push_back(option.get_name());
  std::string type = option.get_type_name();
  type.resize(std::min(type.size(), type.find(':')));  // what follows describes checks
  return fmt::format("`{}{}{}`{}", fmt::join(names, ", "), type.empty() ? "" : " ", type,
                     option.get_positional() && !option.get_lnames().empty() ? " or last argument" : "");
}

std::string option_rows(const CLI::App& command) {
  std::string rows;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty() || option->check_lname("help")) continue;
    const std::string preset = option->get_default_str();
    rows += fmt::format("| {} | {} | {} |\n", cell(signature(*option)), cell(option->get_description()),
                        option->get_required() ? "required"
                        : preset.empty()       ? ""
                                               : "`" + cell(preset) + "`");
  }
  return rows.empty() ? "" : "| Option | Meaning | Default |\n|---|---|---|\n" + rows + "\n";
}

void add_command(std::string& page, const CLI::App& command, const std::string& name) {
  page += fmt::format("## {}\n\n{}.\n\n", name, command.get_description());
  page += option_rows(command);
  // CLI11 passes the footer of the program on to commands without their own.
  if (command.get_footer() != command.get_parent()->get_footer()) page += command.get_footer() + "\n\n";
  for (const CLI::App* sub : command.get_subcommands({}))
    if (!sub->get_group().empty()) add_command(page, *sub, name + " " + sub->get_name());
}

std::string cli_reference(const CLI::App& app) {
  std::string page =
      fmt::format("# Command line\n\nPrinted by `pmnet reference cli`.\n\n{}\n\n", app.get_description());
  page += "These options go with every command.\n\n" + option_rows(app);
  for (const CLI::App* command : app.get_subcommands({}))
    if (!command->get_group().empty()) add_command(page, *command, "pmnet " + command->get_name());
  page.pop_back();
  return page;
}

}  // namespace

void add_reference_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("reference", "Print a page of the reference in Markdown");
  command->require_subcommand(1);
  command->add_subcommand("cli", "Every command and every option")->callback([&app] {
    fmt::print("{}", cli_reference(app));
  });
  const auto add_page = [&](ReferencePage page, const char* help) {
    command->add_subcommand(enum_name(page), help)->callback([page] { fmt::print("{}", reference_page(page)); });
  };
  add_page(ReferencePage::kConfig, "Every key of a model configuration");
  add_page(ReferencePage::kPresets, "Every preset");
  add_page(ReferencePage::kTrainingKeys, "Every key of a training run");
}

}  // namespace pmnet
