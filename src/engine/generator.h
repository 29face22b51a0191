// PROMPT -> TEXT: reads a prompt of any length into a session, then writes byte after byte.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_tokenizer.h"
#include "engine/sampler.h"
#include "engine/session.h"
#include "engine/stop_strings.h"

namespace pmnet {

struct GenerateSettings {
  SamplingSettings sampling;
  int64_t max_bytes = 256;
  std::vector<std::string> stop;  // ends at the first of these, which is not given out

  // One sentence per problem, by the names of the program's options; empty when usable.
  std::vector<std::string> problems() const;
};

enum class StopReason { kMaxBytes, kEndOfText, kStopString, kReceiver };

struct GenerateResult {
  StopReason reason = StopReason::kMaxBytes;
  int64_t bytes = 0;  // written by the model, a stop string included
};

// The text that a sequence continues with, one step at a time. The session must outlive it and have read at least BOS.
class Continuation {
 public:
  Continuation(Session& session, const GenerateSettings& settings);

  // Bytes that have become final with the next step (none while they may begin a stop string); nothing at the end.
  std::optional<std::string> next();
  const GenerateResult& result() const { return result_; }

 private:
  Session& session_;
  ByteTokenizer tokenizer_;
  Sampler sampler_;
  StopStrings stop_;
  int64_t max_bytes_;
  GenerateResult result_;
  bool ended_ = false;
};

// Of one sequence. The session must outlive the generator and have one row.
class Generator {
 public:
  explicit Generator(Session& session);

  // More of the prompt. A stream that has read nothing yet begins with BOS. The model sees chunks of the same size
  // however the prompt is cut into pieces, so the cut never shows in the result.
  void read(std::string_view bytes);

  // Takes bytes as they become final; false stops, as when the caller has closed the stream.
  using Receiver = std::function<bool(std::string_view bytes)>;

  // The session has then read every byte that was written; EOS is not read, so that the text can be continued.
  GenerateResult generate(const GenerateSettings& settings, const Receiver& receive);

  // Reads what is left of the prompt; generate() does so by itself.
  void finish_prompt();
  int64_t prompt_bytes() const { return prompt_bytes_; }

 private:
  Session& session_;
  ByteTokenizer tokenizer_;
  std::vector<int64_t> waiting_;  // for a full chunk
  int64_t prompt_bytes_ = 0;
};

}  // namespace pmnet
