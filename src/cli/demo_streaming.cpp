#include "cli/demo_streaming.h"

#include <ATen/ATen.h>

#include "base/format.h"
#include "data/byte_tokenizer.h"
#include "engine/session.h"
#include "report/table.h"

namespace pmnet {

namespace {

constexpr int64_t kChunks[] = {1, 7, 64, 1000};
constexpr double kRounding = 1e-2;  // float32 sums in another order; the differences add up over the text

Tensor ids_of(const OpenedModel& model, std::string_view text) {
  return at::tensor(ByteTokenizer(model.config).encode(text, {.bos = true, .eos = false}), at::kLong).unsqueeze(0);
}

double largest_difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

Session session_of(const OpenedModel& model, int64_t chunk) {
  Session session(model.engine);
  session.set_chunk(chunk);
  return session;
}

}  // namespace

bool show_streaming(const OpenedModel& model, std::string_view text, const std::filesystem::path& memory_file) {
  const Tensor ids = ids_of(model, text);
  const int64_t T = ids.size(1), half = T / 2;
  bool agrees = true;

  const Tensor one_pass = session_of(model, T).feed(ids);
  Table table({"chunk", "passes", "largest difference of a logit", "memory"});
  for (const int64_t chunk : kChunks) {
    Session session = session_of(model, chunk);
    const double difference = largest_difference(session.feed(ids), one_pass);
    agrees = agrees && difference <= kRounding;
    table.add_row({std::to_string(chunk), std::to_string((T + chunk - 1) / chunk), fmt::format("{:.1e}", difference),
                   format_count(state_bytes(session.state())) + " bytes"});
  }
  fmt::print(
      "{} bytes read in chunks, compared with one pass over all of them:\n{}The chunk size changes only the order of "
      "float32 sums, so logits differ in their last digits; the size of the memory stays the same.\n",
      format_count(text.size()), table.text());

  Session stream = session_of(model, /*chunk=*/64);
  stream.read(ids.narrow(1, 0, half));
  stream.save(memory_file);
  Session restored = Session::load(memory_file, model.engine);
  restored.set_chunk(stream.chunk());
  const Tensor rest = ids.narrow(1, half, T - half);
  const double difference = largest_difference(stream.feed(rest), restored.feed(rest));
  agrees = agrees && difference == 0;
  fmt::print("The memory after {} bytes, saved, restored and continued: {}\n", format_count(half),
             difference == 0 ? "the same logits, bit for bit" : fmt::format("off by {:.1e}", difference));
  return agrees;
}

}  // namespace pmnet
