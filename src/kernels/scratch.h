// Buffers that a step fills and the next step may overwrite.
#pragma once
#include <cstddef>
#include <new>
#include <vector>

namespace pmnet::kernels {

// Aligned to a cache line, since a load across two lines takes twice as long. Growing does not clear the new elements.
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
