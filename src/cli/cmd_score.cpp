#include <memory>
#include <optional>
#include <string>

#include "cli/commands.h"
#include "cli/model_argument.h"
#include "cli/outputs.h"
#include "eval/score_stream.h"
#include "eval/scorer.h"
#include "train/open_model.h"

namespace pmnet {

namespace {

struct ScoreCommand {
  std::string model, memory, save_memory;
  std::optional<std::string> file;
  bool force = false;
  ScoreStreamOptions stream;
};

void score(const ScoreCommand& options) {
  check(options.stream);
  require_free_file(options.save_memory, {.force = options.force, .inputs = {options.stream.file}});
  const OpenedModel opened = open_model(options.model);
  require_byte_vocabulary(*opened.engine, options.model);
  const Session start = options.memory.empty() ? Session(opened.engine) : Session::load(options.memory, opened.engine);
  const Session end = score_stream(start, options.stream);
  if (!options.save_memory.empty()) end.save(options.save_memory);
}

}  // namespace

void add_score_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("score", "Score each line in bits and print JSON lines");
  const auto o = std::make_shared<ScoreCommand>();
  ScoreStreamOptions& stream = o->stream;
  command->add_option("model", o->model, kModelHelp)->type_name("DIR");
  command->add_option("file", o->file, "Text, .gz, .zst or a pipe [standard input]")->type_name("FILE");
  command->add_option("--field", stream.field, "The input is JSON records; score this field of each")
      ->type_name("NAME");
  command->add_flag("--skip-bad", stream.skip_bad, "Score malformed records as empty lines instead of stopping");
  command->add_option("--threshold", stream.threshold, "Print only lines that cost at least this many bits")
      ->type_name("BITS");
  command->add_flag("--mark", stream.mark, "Print all lines, with \"anomaly\" true from the threshold on");
  command->add_flag("--text", stream.text, "Print the text of each line too");
  command->add_option("--text-bytes", stream.text_bytes, "Longest text to print")
      ->capture_default_str()
      ->type_name("N");
  command->add_flag("--independent", stream.lines.independent,
                    "Start each line from the same memory: empty, or that of --memory");
  command->add_option("--memory", o->memory, "Start from the memory in this file, such as one of normal lines")
      ->type_name("FILE");
  command->add_option("--save-memory", o->save_memory, "Save the memory after the last line")->type_name("FILE");
  add_force_option(*command, o->force);
  command->footer(
      "A line end counts as a byte of its line. Without --independent the memory of all earlier lines is carried, in "
      "constant space, for as long as the input lasts.");
  command->callback([o] {
    default_model(o->model, o->file);
    o->stream.file = o->file.value_or("-");
    score(*o);
  });
}

}  // namespace pmnet
