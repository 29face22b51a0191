#include "engine/generator.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "engine/stop_strings.h"

namespace pmnet {

std::vector<std::string> GenerateSettings::problems() const {
  std::vector<std::string> found = sampling.problems();
  if (max_bytes < 0) found.push_back(fmt::format("--max-bytes is {}; expected a count", max_bytes));
  for (std::string& problem : StopStrings::problems(stop)) found.push_back(std::move(problem));
  return found;
}

Generator::Generator(Session& session)
    : session_(session),
      tokenizer_(session.engine().bos_token_id(), session.engine().eos_token_id(), session.engine().vocab_size()) {
  if (session.batch() != 1)
    fail("this memory holds {} streams; text is generated from a memory of one stream", session.batch());
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
  const Sampler sampler(settings.sampling, tokenizer_);
  StopStrings stop(settings.stop);
  finish_prompt();

  GenerateResult result;
  const auto give = [&](const std::string& text) {
    if (text.empty() || receive(text)) return true;
    result.reason = StopReason::kReceiver;
    return false;
  };
  while (result.bytes < settings.max_bytes) {
    const Tensor logits = session_.last_logits().to(at::kFloat).contiguous();
    const int64_t id = sampler.sample({logits.const_data_ptr<float>(), static_cast<size_t>(logits.numel())},
                                      static_cast<uint64_t>(session_.position()));
    if (id == tokenizer_.eos_id()) {
      result.reason = StopReason::kEndOfText;
      break;
    }
    session_.read(at::full({1, 1}, id, at::kLong));
    ++result.bytes;
    if (!give(stop.push(static_cast<char>(id)))) return result;
    if (stop.found()) {
      result.reason = StopReason::kStopString;
      return result;
    }
  }
  give(stop.finish());
  return result;
}

}  // namespace pmnet
