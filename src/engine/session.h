// A stream: bytes in, in chunks of any size; logits out; only the state of the past is held. A session is a batch of
// independent streams, usually one.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/language_model.h"
#include "ops/packed_linear.h"

namespace pmnet {

class Session {
 public:
  Session(std::shared_ptr<const LanguageModel> model, std::string model_hash, int64_t batch = 1,
          const MemorySwitches& switches = {});

  // ids int64 [B,T]; gives logits [B,T,V]. Long inputs go through in chunks, so memory stays bounded but for the
  // result.
  Tensor feed(const Tensor& ids);
  // The same, keeping only the logits after the last token: [B,V].
  Tensor read(const Tensor& ids);
  // One stream: ids as a vector.
  Tensor feed(const std::vector<int64_t>& ids);

  const Tensor& last_logits() const {
    return last_logits_;
  }  // [B,V]; undefined before the first token; zero in a row that has read nothing
  const State& state() const { return state_; }
  const LanguageModel& model() const { return *model_; }
  int64_t position(int64_t row = 0) const;
  int64_t batch() const { return state_.batch(); }

  // A copy that goes its own way. Nothing is shared but the weights.
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
  static Session load(const std::filesystem::path& file, std::shared_ptr<const LanguageModel> model,
                      std::string model_hash, const MemorySwitches& switches = {});

  int64_t chunk = 1024;  // tokens per forward pass

 private:
  struct Point {
    State state;
    Tensor last_logits;
  };
  Tensor run(const Tensor& ids, bool all_logits);

  std::shared_ptr<const LanguageModel> model_;
  std::string model_hash_;
  MemorySwitches switches_;
  ops::PackedWeight head_;
  State state_;
  Tensor last_logits_;
  std::vector<Point> points_;
};

}  // namespace pmnet
