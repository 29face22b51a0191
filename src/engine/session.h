// A stream: bytes in, in chunks of any size; logits out; only the state of the past is held. A session is a batch of
// independent sequences, usually one.
#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "engine/engine.h"

namespace pmnet {

// One thread at a time; different sessions of one engine may run on different threads.
class Session {
 public:
  explicit Session(std::shared_ptr<const Engine> engine, int64_t batch = 1);

  // ids int64 [B,T]; gives logits [B,T,V]. Long inputs go through in chunks, so memory stays bounded but for the
  // result. If a chunk fails, the session stands at its beginning.
  Tensor feed(const Tensor& ids);
  // The same, keeping only the logits after the last token: [B,V].
  Tensor read(const Tensor& ids);
  // One sequence: ids as a vector.
  Tensor feed(const std::vector<int64_t>& ids);
  // One pass, whatever its length, whose inside goes to `trace`; gives the hidden states after the final norm, [B,T,d].
  Tensor feed(const Tensor& ids, Trace& trace);

  // [B,V]; undefined before the first token; zero in a row that has read nothing.
  const Tensor& last_logits() const { return last_logits_; }
  const EngineState& state() const { return state_; }
  const Engine& engine() const { return *engine_; }
  int64_t position(int64_t row = 0) const { return state_.at(row).position; }
  int64_t batch() const { return static_cast<int64_t>(state_.size()); }

  // Tokens per forward pass, at least 1; fewer give the same logits and need less memory.
  int64_t chunk() const { return chunk_; }
  void set_chunk(int64_t tokens);

  // A copy that continues on its own. Nothing is shared but the weights.
  Session fork() const { return *this; }
  // Starts row `row` anew, or continues it from another session's row.
  void reset(int64_t row);
  void replace(int64_t row, const Session& other, int64_t other_row);

  // A state cannot be run backwards, so points to return to are kept. keep_point() gives the number of the point.
  size_t keep_point();
  void rewind(size_t point);
  size_t num_points() const { return points_.size(); }

  // One safetensors file: model hash, position, memory turns, keys and values, last logits, kept points.
  void save(const std::filesystem::path& file) const;
  static Session load(const std::filesystem::path& file, std::shared_ptr<const Engine> engine);

 private:
  struct Point {
    EngineState state;
    Tensor last_logits;
  };
  Tensor run(const Tensor& ids, bool all_logits);
  void replace(int64_t row, const SequenceState& sequence, const Tensor& logits);

  std::shared_ptr<const Engine> engine_;
  EngineState state_;
  Tensor last_logits_;  // replaced, never written into
  std::vector<Point> points_;
  int64_t chunk_ = 1024;
};

}  // namespace pmnet
