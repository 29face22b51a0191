#include "ops/tensor_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

namespace pmnet::ops {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLarge = kHugePage;          // gets its own block
constexpr size_t kMedium = size_t{64} << 10;  // a piece of a slab; smaller tensors stay with malloc
constexpr size_t kRounding = size_t{64} << 10;
constexpr size_t kSlab = size_t{32} << 20;

size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Maps a block aligned to a huge page: maps one huge page more than needed and unmaps what lies before and behind.
char* map_block(size_t bytes) {
  const size_t mapped = bytes + kHugePage;
  void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(raw);
  const auto address = reinterpret_cast<uintptr_t>(begin);
  char* block = begin + (rounded(address, kHugePage) - address);
  if (block > begin) munmap(begin, block - begin);
  char *end = begin + mapped, *used = block + bytes;
  if (end > used) munmap(used, end - used);
  madvise(block, bytes, MADV_HUGEPAGE);  // advice only: on failure the block has small pages
  return block;
}

// Tensors smaller than a huge page, side by side in slabs of huge pages: the weights of a small model and the KV cache
// of a window would otherwise lie on thousands of small pages, and reading them would miss the TLB. Pieces are reused
// for requests that round to the same size and are never unmapped.
class Slabs {
 public:
  // At most an eighth more than was asked for.
  static size_t rounded_size(size_t bytes) {
    const size_t step = std::bit_floor(bytes) / 8;
    return rounded(bytes, step);
  }

  // The caller holds the lock of the allocator. new_slab() gives kSlab bytes.
  template <typename NewSlab>
  char* take(size_t size, const NewSlab& new_slab) {
    std::vector<char*>& free = free_[size];
    if (!free.empty()) {
      char* piece = free.back();
      free.pop_back();
      return piece;
    }
    if (slab_ == nullptr || used_ + size > kSlab) {
      slab_ = new_slab();
      used_ = 0;
    }
    used_ += size;
    return slab_ + used_ - size;
  }

  void give_back(char* piece, size_t size) { free_[size].push_back(piece); }

 private:
  std::map<size_t, std::vector<char*>> free_;
  char* slab_ = nullptr;
  size_t used_ = 0;
};

class BlockAllocator final : public c10::Allocator {
 public:
  explicit BlockAllocator(c10::Allocator* small) : small_(small) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (bytes < kMedium) return small_->allocate(bytes);
    const bool is_piece = bytes < kLarge;
    const size_t size = is_piece ? Slabs::rounded_size(bytes) : rounded(bytes, kRounding);
    const std::lock_guard lock(mutex_);
    char* memory = is_piece ? slabs_.take(size, [&] { return take_block(kSlab); }) : take_block(size);
    used_[memory] = {size, is_piece};
    return {memory, memory, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  // ATen's products in bf16 take scratch memory by bare pointers: raw_allocate and raw_deallocate.
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  TensorMemory counts() {
    const std::lock_guard lock(mutex_);
    return {static_cast<int64_t>(in_use_), static_cast<int64_t>(waiting_bytes_), static_cast<int64_t>(most_in_use_)};
  }

 private:
  struct Used {
    size_t size;
    bool is_piece;  // of a slab
  };
  struct Waiting {
    char* block;
    size_t size;
  };

  char* take_block(size_t size) {
    char* block = take_waiting(size);
    if (block == nullptr) block = map_new(size);
    if (block == nullptr) throw std::bad_alloc();
    in_use_ += size;  // counted only now: a refused request must not raise the limit of the cache
    most_in_use_ = std::max(most_in_use_, in_use_);
    return block;
  }

  char* take_waiting(size_t size) {
    const auto same = [&](const Waiting& w) { return w.size == size; };
    const auto found = std::find_if(waiting_.begin(), waiting_.end(), same);
    if (found == waiting_.end()) return nullptr;
    char* block = found->block;
    waiting_bytes_ -= size;
    waiting_.erase(found);
    return block;
  }

  // Sizes change, for example with the length of a text: the blocks that have waited longest are unmapped to make room.
  char* map_new(size_t size) {
    const size_t most = std::max(most_in_use_, in_use_ + size);
    while (!waiting_.empty() && in_use_ + size + waiting_bytes_ > most + most / 32) drop_oldest();
    char* block = map_block(size);
    while (block == nullptr && !waiting_.empty()) {
      drop_oldest();
      block = map_block(size);
    }
    return block;
  }

  void drop_oldest() {
    const Waiting& oldest = waiting_.back();
    munmap(oldest.block, oldest.size);
    waiting_bytes_ -= oldest.size;
    waiting_.pop_back();
  }

  static void give_back(void* memory);

  void release(char* memory) {
    const std::unique_lock lock(mutex_);
    const auto found = used_.find(memory);
    if (found == used_.end()) return small_->raw_deallocate(memory);
    const auto [size, is_piece] = found->second;
    used_.erase(found);
    if (is_piece) return slabs_.give_back(memory, size);
    waiting_.push_front({memory, size});
    waiting_bytes_ += size;
    in_use_ -= size;
  }

  c10::Allocator* small_;
  Slabs slabs_;
  std::mutex mutex_;
  std::unordered_map<char*, Used> used_;
  std::list<Waiting> waiting_;  // latest first: its pages are most likely still in the caches
  size_t in_use_ = 0, waiting_bytes_ = 0, most_in_use_ = 0;
};

BlockAllocator* installed = nullptr;  // never freed: tensors may outlive everything else

void BlockAllocator::give_back(void* memory) { installed->release(static_cast<char*>(memory)); }

}  // namespace

void reuse_tensor_memory() {
  if (installed != nullptr) return;
  installed = new BlockAllocator(c10::GetCPUAllocator());
  c10::SetCPUAllocator(installed, /*priority=*/1);
}

TensorMemory tensor_memory() { return installed != nullptr ? installed->counts() : TensorMemory{}; }

}  // namespace pmnet::ops
