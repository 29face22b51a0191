#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/outputs.h"
#include "cli/size_option.h"
#include "engine/engine.h"
#include "eval/scorer.h"
#include "model/model_folder.h"
#include "train/open_model.h"

namespace pmnet {

namespace {

struct QuantizeOptions {
  std::string model, to = "int8", out, text;
  bool force = false;
  int64_t max_bytes = 65536, chunk = 1024;
};

void run_quantize(const QuantizeOptions& o) {
  const WeightType type = parse_weight_type(o.to);
  if (o.max_bytes < 1) fail("--max-bytes is {}; expected at least 1", o.max_bytes);
  if (o.chunk < 1) fail("--chunk is {}; expected at least 1", o.chunk);
  const std::filesystem::path source = weights_folder(o.model);
  require_free_folder(o.out, {.force = o.force, .inputs = {o.model, source}});
  LoadedModel loaded = load_model(source);
  std::string text;
  if (!o.text.empty()) {
    const FileReader reader(o.text);
    text.resize(std::min(reader.size(), static_cast<uint64_t>(o.max_bytes)));
    if (text.empty()) fail("{}: is empty; name a text with something to score", o.text);
    reader.read_at(0, text.data(), text.size());
  }
  const double before = text.empty() ? NAN : bits_per_byte(make_engine(*loaded.model), text, o.chunk);
  save_model(o.out, quantize_weights(*loaded.model, type), loaded.config);
  fmt::print("wrote {} with {} weights\n", o.out, o.to);
  if (text.empty()) return;
  const EngineWeights quantized(std::move(loaded.model), type);
  const double after = bits_per_byte(make_engine(quantized), text, o.chunk);
  fmt::print("bits per byte on the first {} bytes of {} (one sequence, BOS fed and not scored):\n", text.size(),
             o.text);
  fmt::print("  float32  {:.5f}\n  {:<7}  {:.5f}  ({:+.5f})\n", before, o.to, after, after - before);
}

}  // namespace

void add_quantize_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("quantize", "Write a model with quantized weights, for inference");
  const auto o = std::make_shared<QuantizeOptions>();
  command->add_option("model", o->model, "Model folder, or folder of a training run")->type_name("DIR")->required();
  command->add_option("--to", o->to, "int8 (one scale per row) or bf16")->check(CLI::IsMember({"int8", "bf16"}));
  command->add_option("out,--out", o->out, "Folder to write")->type_name("DIR")->required();
  add_force_option(*command, o->force);
  command->add_option("--text", o->text, "Also print bits per byte of this text before and after")->type_name("FILE");
  as_size(command->add_option("--max-bytes", o->max_bytes, "Bytes of the text to score")->capture_default_str());
  as_size(command->add_option("--chunk", o->chunk, "Bytes per pass; 1 is slow and computes as decoding does")
              ->capture_default_str());
  command->callback([o] { run_quantize(*o); });
}

}  // namespace pmnet
