// The KV cache of one attention layer and one sequence: keys (after norm and rotation) and values of the latest tokens.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace pmnet {

using at::Tensor;

// A pass appends tokens, attends to them, and keeps the end of the window. Nothing of that counts before commit(): a
// pass that fails leaves the window as it was. A copy has its own memory.
class KvWindow {
 public:
  // Of an attention that sees `window` tokens (0: all). The options say device and dtype.
  KvWindow(int64_t num_heads, int64_t head_dim, int64_t window, const at::TensorOptions& options);
  KvWindow(const KvWindow& other);
  KvWindow& operator=(const KvWindow& other) { return *this = KvWindow(other); }
  KvWindow(KvWindow&&) = default;
  KvWindow& operator=(KvWindow&&) = default;

  int64_t size() const { return committed_.size; }
  // [1,S,A_kv,Dh], oldest token first; views, valid until the next pass.
  Tensor keys() const { return view(committed_, committed_.keys); }
  Tensor values() const { return view(committed_, committed_.values); }
  // Replaces the tokens by the latest of the given ones, [1,S,A_kv,Dh].
  void assign(const Tensor& keys, const Tensor& values);

  // Of float32 windows on the CPU: the tokens seen in this pass, [num_keys, A_kv*Dh], the new ones (to be written by
  // the caller) at the end.
  struct Tokens {
    float *keys, *values;
    int64_t num_keys;
  };
  Tokens append(int64_t count);
  // After attention: all but what the next token sees may go.
  void trim();
  void commit() noexcept { committed_ = std::move(next_); }

 private:
  struct Storage {
    Tensor keys, values;  // [capacity, A_kv, Dh]
    int64_t begin = 0, size = 0;
  };
  static Tensor view(const Storage& storage, const Tensor& tokens);
  Storage moved(const Storage& from, int64_t count, int64_t capacity) const;  // its latest `count` tokens
  int64_t spare(int64_t size) const;                                          // room for tokens to come
  bool is_temporary(const Storage& storage) const;

  int64_t window_;
  Storage committed_, next_;  // they share their tensors unless tokens had to move
};

}  // namespace pmnet
