#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "engine/packed_model.h"
#include "eval/scorer.h"
#include "model/model_folder.h"

namespace pmnet {

namespace {

struct QuantizeOptions {
  std::string model, to = "int8", out, text;
  int64_t max_bytes = 65536, chunk = 1024;
};

void run_quantize(const QuantizeOptions& o) {
  const kernels::WeightType type = parse_weight_type(o.to);
  LoadedModel loaded = load_model(o.model);
  const std::shared_ptr<LanguageModel> model = std::move(loaded.model);
  std::string text;
  if (!o.text.empty()) {
    text = read_file(o.text, /*max_bytes=*/uint64_t{1} << 32).substr(0, o.max_bytes);
    if (text.empty()) fail("{} is empty; give --text a file with something to score", o.text);
  }
  const double before = text.empty() ? NAN : bits_per_byte(*model, text, o.chunk);
  round_weights(*model, type);
  save_model(o.out, *model, loaded.config);
  fmt::print("wrote {} with {} weights\n", o.out, o.to);
  if (text.empty()) return;
  pack_weights(*model);
  const double after = bits_per_byte(*model, text, o.chunk);
  fmt::print("bits per byte on the first {} bytes of {} (one stream, BOS fed and not scored):\n", text.size(), o.text);
  fmt::print("  float32  {:.5f}\n  {:<7}  {:.5f}  ({:+.5f})\n", before, o.to, after, after - before);
}

}  // namespace

void add_quantize_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("quantize", "Write a model with smaller weights, for decoding");
  const auto o = std::make_shared<QuantizeOptions>();
  command->add_option("model", o->model, "Model folder")->type_name("DIR")->required();
  command->add_option("--to", o->to, "int8 (one scale per row) or bf16")->check(CLI::IsMember({"int8", "bf16"}));
  command->add_option("--out", o->out, "Folder to write")->type_name("DIR")->required();
  command->add_option("--text", o->text, "Also report bits per byte before and after on this text")->type_name("FILE");
  command->add_option("--max-bytes", o->max_bytes, "How much of the text to score")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--chunk", o->chunk, "Bytes of it read at once; 1 multiplies as decoding does, and is slower")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([o] { run_quantize(*o); });
}

}  // namespace pmnet
