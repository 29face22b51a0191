#include "engine/kv_window.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

namespace pmnet {

KvWindow::KvWindow(int64_t num_heads, int64_t head_dim, int64_t window, const at::TensorOptions& options)
    : window_(window) {
  committed_.keys = committed_.values = at::empty({0, num_heads, head_dim}, options);
}

KvWindow::KvWindow(const KvWindow& other)
    : window_(other.window_), committed_(moved(other.committed_, other.size(), other.size())) {}

Tensor KvWindow::view(const Storage& storage, const Tensor& tokens) {
  return tokens.narrow(0, storage.begin, storage.size).unsqueeze(0);
}

KvWindow::Storage KvWindow::moved(const Storage& from, int64_t count, int64_t capacity) const {
  const auto move = [&](const Tensor& tokens) {
    Tensor to = at::empty({capacity, tokens.size(1), tokens.size(2)}, tokens.options());
    const Tensor latest = tokens.narrow(0, from.begin + from.size - count, count);
    if (latest.is_cpu() &&
        latest.is_contiguous())  // copy_ would wake OpenMP's threads, which then spin beside the pool
      std::memcpy(to.mutable_data_ptr(), latest.const_data_ptr(), latest.nbytes());
    else
      to.narrow(0, 0, count).copy_(latest);
    return to;
  };
  return {move(from.keys), move(from.values), 0, count};
}

void KvWindow::assign(const Tensor& keys, const Tensor& values) {
  const Storage all{keys[0], values[0], 0, keys.size(1)};
  const int64_t kept = window_ > 0 ? std::min(all.size, window_ - 1) : all.size;
  committed_ = moved(all, kept, kept);
}

// A window is never as large as `window_` before that many tokens were read.
int64_t KvWindow::spare(int64_t size) const {
  const int64_t growth = size / 2 + 64;
  return window_ > 0 ? std::min((window_ + 3) / 4, growth) : growth;
}

// A chunk much longer than the window gets memory for one pass, of which trim() copies the end.
bool KvWindow::is_temporary(const Storage& storage) const { return window_ > 0 && storage.keys.size(0) > 2 * window_; }

KvWindow::Tokens KvWindow::append(int64_t count) {
  next_ = committed_;
  const int64_t needed = next_.size + count;
  if (next_.begin + needed > next_.keys.size(0)) {
    next_ = moved(committed_, committed_.size, needed + spare(committed_.size));
    if (!is_temporary(next_)) committed_ = next_;
  }
  next_.size = needed;
  const int64_t at = next_.begin * next_.keys.stride(0);
  return {next_.keys.mutable_data_ptr<float>() + at, next_.values.mutable_data_ptr<float>() + at, needed};
}

void KvWindow::trim() {
  if (window_ == 0 || next_.size < window_) return;
  const int64_t kept = window_ - 1;
  if (is_temporary(next_)) {
    next_ = moved(next_, kept, window_ + spare(kept));  // as the next append() would
  } else {
    next_.begin += next_.size - kept;
    next_.size = kept;
  }
}

}  // namespace pmnet
