#include "ops/tensor_memory.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace pmnet::ops {
namespace {

constexpr int64_t kMiB = 1 << 20;

// The allocator is the program's own for good, so one test tells the whole story.
TEST(TensorMemory, IsUsedAgainAndNeverExceedsWhatWasNeededAtOnce) {
  const at::Tensor before = at::ones({kMiB});
  reuse_tensor_memory();
  const void* first;
  {
    const at::Tensor a = at::empty({4 * kMiB}, at::kByte);
    first = a.data_ptr();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % (2 * kMiB), 0u);
  }
  EXPECT_EQ(tensor_memory().waiting, 4 * kMiB);
  {
    const at::Tensor again = at::empty({4 * kMiB}, at::kByte);
    EXPECT_EQ(again.data_ptr(), first);
    EXPECT_EQ(tensor_memory().in_use, 4 * kMiB);
    EXPECT_EQ(tensor_memory().waiting, 0);
  }
  // Another size: the block that waits makes room for it.
  {
    const at::Tensor other = at::empty({3 * kMiB}, at::kByte).fill_(7);
  }
  EXPECT_EQ(tensor_memory().most_in_use, 4 * kMiB);
  EXPECT_LE(tensor_memory().waiting, 4 * kMiB + 4 * kMiB / 32);

  // Freed on another thread, small ones, one made before, and one too large for any machine.
  at::Tensor shared = at::full({2 * kMiB}, 3, at::kByte);
  std::thread([moved = std::move(shared)]() mutable { moved = at::Tensor(); }).join();
  EXPECT_EQ(tensor_memory().in_use, 0);
  EXPECT_EQ(at::ones({10}).sum().item<float>(), 10);
  EXPECT_EQ(tensor_memory().in_use, 0);
  EXPECT_EQ(before.sum().item<float>(), static_cast<float>(kMiB));

  // Tensors below a huge page lie next to each other, and a size that rounds to the same gets the same place.
  const at::Tensor one = at::empty({300 << 10}, at::kByte);
  const void* second;
  {
    const at::Tensor two = at::empty({300 << 10}, at::kByte).fill_(1);
    second = two.data_ptr();
    EXPECT_EQ(static_cast<const char*>(second) - static_cast<const char*>(one.data_ptr()), 320 << 10);
  }
  EXPECT_EQ(at::empty({310 << 10}, at::kByte).data_ptr(), second);
  const int64_t slab = tensor_memory().in_use;  // slabs are never given back
  {
    const at::Tensor large = at::empty({100 * kMiB}, at::kByte);
  }
  EXPECT_EQ(tensor_memory().waiting, 100 * kMiB);
  std::vector<at::Tensor> many;  // more than one slab, for which the block that waits makes room
  for (int64_t i = 0; i < 100; ++i) many.push_back(at::full({kMiB}, i, at::kByte));
  for (int64_t i = 0; i < 100; ++i) EXPECT_TRUE(many[i].eq(i).all().item<bool>()) << i;
  EXPECT_EQ(tensor_memory().in_use, 4 * slab);
  EXPECT_EQ(tensor_memory().waiting, 0);

  // A refused request leaves the limit of the cache as it was.
  const int64_t most = tensor_memory().most_in_use;
  EXPECT_THROW(at::empty({int64_t{1} << 60}, at::kByte), std::exception);
  EXPECT_EQ(tensor_memory().in_use, 4 * slab);
  EXPECT_EQ(tensor_memory().most_in_use, most);
}

// ATen asks for scratch memory by bare pointers, for example in bf16 products.
TEST(TensorMemory, CanBeTakenByBarePointers) {
  reuse_tensor_memory();
  c10::Allocator* allocator = c10::GetCPUAllocator();
  allocator->raw_deallocate(allocator->raw_allocate(size_t{100} << 10));  // there is a slab
  const int64_t before = tensor_memory().in_use;
  for (const size_t bytes : {size_t{0}, size_t{100}, size_t{100} << 10, size_t{2} << 20, size_t{5} << 20}) {
    void* memory = allocator->raw_allocate(bytes);
    if (bytes > 0) std::memset(memory, 1, bytes);
    EXPECT_EQ(tensor_memory().in_use - before, bytes >= size_t{2} << 20 ? static_cast<int64_t>(bytes) : 0) << bytes;
    allocator->raw_deallocate(memory);
    EXPECT_EQ(tensor_memory().in_use, before) << bytes;
  }
}

}  // namespace
}  // namespace pmnet::ops
