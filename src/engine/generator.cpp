#include "engine/generator.h"

#include <ATen/ATen.h>

#include "base/error.h"

namespace pmnet {

std::vector<std::string> GenerateSettings::problems() const {
  std::vector<std::string> found = sampling.problems();
  if (max_bytes < 0) found.push_back(fmt::format("--max-bytes is {}; expected a count", max_bytes));
  for (std::string& problem : StopStrings::problems(stop)) found.push_back(std::move(problem));
  return found;
}

namespace {

ByteTokenizer tokenizer_of(const Engine& engine) {
  return {engine.bos_token_id(), engine.eos_token_id(), engine.vocab_size()};
}

}  // namespace

Continuation::Continuation(Session& session, const GenerateSettings& settings)
    : session_(session),
      tokenizer_(tokenizer_of(session.engine())),
      sampler_(settings.sampling, tokenizer_),
      stop_(settings.stop),
      max_bytes_(settings.max_bytes) {}

std::optional<std::string> Continuation::next() {
  if (ended_) return std::nullopt;
  int64_t id = tokenizer_.eos_id();
  if (result_.bytes < max_bytes_) {
    const Tensor logits = session_.last_logits().to(at::kFloat).contiguous();
    id = sampler_.sample({logits.const_data_ptr<float>(), static_cast<size_t>(logits.numel())},
                         static_cast<uint64_t>(session_.position()));
    if (id == tokenizer_.eos_id()) result_.reason = StopReason::kEndOfText;
  }
  if (id == tokenizer_.eos_id()) {
    ended_ = true;
    return stop_.finish();
  }
  session_.read(at::full({1, 1}, id, at::kLong));
  ++result_.bytes;
  std::string text = stop_.push(static_cast<char>(id));
  if (stop_.found()) {
    result_.reason = StopReason::kStopString;
    ended_ = true;
  }
  return text;
}

Generator::Generator(Session& session) : session_(session), tokenizer_(tokenizer_of(session.engine())) {
  if (session.batch() != 1)
    fail("this memory holds {} sequences; text is generated from a memory of one", session.batch());
  if (!session.last_logits().defined()) waiting_.push_back(tokenizer_.bos_id());
}

void Generator::read(std::string_view bytes) {
  prompt_bytes_ += static_cast<int64_t>(bytes.size());
  for (const char byte : bytes) {
    waiting_.push_back(static_cast<unsigned char>(byte));
    if (static_cast<int64_t>(waiting_.size()) == session_.chunk()) finish_prompt();
  }
}

void Generator::finish_prompt() {
  if (waiting_.empty()) return;
  session_.read(at::tensor(waiting_, at::kLong).unsqueeze(0));
  waiting_.clear();
}

GenerateResult Generator::generate(const GenerateSettings& settings, const Receiver& receive) {
  Continuation text(session_, settings);
  finish_prompt();
  while (const std::optional<std::string> bytes = text.next())
    if (!bytes->empty() && !receive(*bytes)) return {StopReason::kReceiver, text.result().bytes};
  return text.result();
}

}  // namespace pmnet
