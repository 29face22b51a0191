/// \file
/// Models: loading, creating and saving weights.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pmnet {
inline namespace v0 {

class Session;
class Trainer;

/// Sets how many threads one forward pass uses; 0 means all cores. Applies to the whole process. Call it before the
/// first model is loaded.
void set_num_threads(int threads);

/// The weights of a byte-level language model: a PMNet, or a Transformer or Mamba baseline.
///
/// A Model is a handle: copies share the weights. Any number of sessions may read one model, also from several threads.
class Model {
 public:
  /// Loads a model folder (`config.json` and `model.safetensors`), or the newest intact checkpoint of a training run.
  /// Folders written by `pmnet quantize` keep their bf16 or int8 weights and can be read but not trained.
  /// \throws UserError if the folder does not hold a usable model.
  static Model load(const std::filesystem::path& folder);

  /// Creates a model of a preset, such as "tiny" or "30m", with random weights. Equal seeds give equal weights.
  /// \throws UserError if there is no such preset; the message names the closest one.
  static Model create(const std::string& preset, std::uint64_t seed = 0);

  /// Writes a model folder. The folder appears complete or not at all, and replaces an older model folder.
  void save(const std::filesystem::path& folder) const;

  /// Number of weights.
  std::int64_t num_parameters() const;
  /// Number of ids, which is the number of logits per position: ids 0 to 255 are the bytes.
  std::int64_t vocab_size() const;
  /// Id that begins a text.
  std::int64_t bos_id() const;
  /// Id that ends a text.
  std::int64_t eos_id() const;
  /// Hash of the weights. Memory files carry it, so that a memory cannot be loaded into another model.
  std::string hash() const;
  /// What load() noticed and accepted: unknown configuration keys, unused tensors, weights that are not finite.
  const std::vector<std::string>& warnings() const;

 private:
  friend class Session;
  friend class Trainer;
  struct Impl;
  explicit Model(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace v0
}  // namespace pmnet
