/// \file
/// Streaming inference: feed bytes, read logits, score, generate, fork, rewind, save and load.
#pragma once
#include <pmnet/model.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace pmnet {
inline namespace v0 {

/// How Session::generate chooses bytes and when it stops.
struct GenerateOptions {
  double temperature = 1.0;            ///< Sampling temperature; 0 is greedy.
  std::int64_t top_k = 0;              ///< Sample among the k likeliest bytes; 0 means all.
  double top_p = 1.0;                  ///< Sample among the likeliest bytes that together have this probability.
  std::uint64_t seed = 0;              ///< Equal seeds give equal texts.
  std::int64_t max_bytes = 256;        ///< Stop after this many bytes.
  std::vector<std::string> stop = {};  ///< Stop at the first of these strings, which is not part of the result.
};

/// Why Session::generate stopped.
enum class GenerateStop {
  kMaxBytes,    ///< GenerateOptions::max_bytes were written.
  kEndOfText,   ///< The model ended the text.
  kStopString,  ///< One of GenerateOptions::stop appeared.
  kReceiver,    ///< The receiver returned false.
};

/// One stream of bytes through a model, in chunks of any size.
///
/// A session holds the state of everything it has read, in constant space for models with a sliding window: the keys
/// and values of the window and the phases of the memory tree. A new session stands at the start of a text. Use one
/// session from one thread at a time; different sessions are independent.
class Session {
 public:
  /// Starts a text. Create sessions after training: what a session reads after Trainer::step is unspecified.
  explicit Session(const Model& model);
  /// Sessions move; fork() copies.
  Session(Session&&) noexcept;
  /// Sessions move; fork() copies.
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// Reads bytes. How a text is cut into calls does not change the result beyond rounding.
  void feed(std::string_view bytes);

  /// Reads bytes and returns the cost of each in bits, given everything before it.
  std::vector<double> score(std::string_view bytes);

  /// Logits of the next id, one per id of the vocabulary.
  std::vector<float> logits() const;

  /// Writes text from here on and returns it. The session has then read what it wrote, so that a second call continues.
  std::string generate(const GenerateOptions& options = {});

  /// Receives text as it is written. Returning false stops the generation.
  using Receiver = std::function<bool(std::string_view bytes)>;
  /// As generate(), handing out text as soon as it is final.
  GenerateStop generate(const GenerateOptions& options, const Receiver& receive);

  /// An independent copy of this session. It shares the weights; the state is copied when one of the two writes to it.
  Session fork() const;

  /// Keeps the present state and returns its number, for rewind().
  std::size_t keep_point();
  /// Returns to a kept state. The point stays; points kept after it are dropped.
  void rewind(std::size_t point);

  /// Writes the state to a memory file, the format of `pmnet generate --save-memory`. Kept points are included.
  void save(const std::filesystem::path& file) const;
  /// Restores a session from a memory file.
  /// \throws UserError if the file is damaged or belongs to a model with other weights.
  static Session load(const std::filesystem::path& file, const Model& model);

  /// Number of bytes read, written ones included.
  std::int64_t bytes_read() const;
  /// Size of the state in bytes.
  std::int64_t state_bytes() const;
  /// The model that this session reads.
  const Model& model() const;

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace v0
}  // namespace pmnet
