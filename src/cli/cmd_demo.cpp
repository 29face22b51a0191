#include <memory>

#include "cli/commands.h"
#include "cli/demo.h"

namespace pmnet {

void add_demo_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("demo", "Train a small model on a text and show what it can do, in minutes");
  const auto options = std::make_shared<DemoOptions>();
  command->add_option("text", options->text, "Text to learn [the Jargon File if installed, else synthetic stories]")
      ->type_name("FILE");
  command->add_option("--out", options->out, "Folder to create [runs/demo, or the next free number]")->type_name("DIR");
  command->add_option("--preset", options->preset, "Model size")->capture_default_str()->type_name("NAME");
  command->add_option("--seconds", options->seconds, "Time to train")->capture_default_str()->type_name("X");
  command->callback([options] {
    if (!run_demo(*options)) throw CommandFailed{1};
  });
}

}  // namespace pmnet
