// Memory for what one step needs and the next may overwrite.
#pragma once
#include <cstddef>
#include <new>
#include <vector>

namespace pmnet::kernels {

// Starts a cache line, since a load that crosses two takes twice as long, and is not cleared when it grows.
template <typename T>
struct ScratchAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* data, size_t) { ::operator delete(data, kLine); }
  template <typename U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
  bool operator==(const ScratchAllocator&) const = default;
};

template <typename T>
using Scratch = std::vector<T, ScratchAllocator<T>>;

}  // namespace pmnet::kernels
