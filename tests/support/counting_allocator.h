// How much tensor memory an action has alive at once, beyond what was alive before it.
#pragma once
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdint>

namespace pmnet {

class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr data = inner_->allocate(bytes);
    void* pointer = data.get();
    const c10::Device device = data.device();
    const int64_t alive = (alive_ += static_cast<int64_t>(bytes));
    int64_t peak = peak_.load();
    while (alive > peak && !peak_.compare_exchange_weak(peak, alive)) {
    }
    return {pointer, new Block{std::move(data), this, bytes}, &release, device};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  int64_t peak() const { return peak_; }

 private:
  struct Block {
    c10::DataPtr data;
    CountingAllocator* owner;
    size_t bytes;
  };
  static void release(void* context) {
    auto* block = static_cast<Block*>(context);
    block->owner->alive_ -= static_cast<int64_t>(block->bytes);
    delete block;
  }

  c10::Allocator* inner_;
  std::atomic<int64_t> alive_ = 0, peak_ = 0;
};

template <typename Action>
int64_t peak_bytes(const Action& action) {
  c10::Allocator* usual = c10::GetCPUAllocator();
  // Never freed: a tensor made inside may outlive the action.
  auto* counting = new CountingAllocator(usual);
  c10::SetCPUAllocator(counting, /*priority=*/1);
  action();
  c10::SetCPUAllocator(usual, /*priority=*/1);
  return counting->peak();
}

}  // namespace pmnet
