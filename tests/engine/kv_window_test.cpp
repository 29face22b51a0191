#include "engine/kv_window.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace pmnet {
namespace {

// Appends `count` tokens whose numbers are their positions.
void push(KvWindow& window, int64_t& position, int64_t count, bool commit = true) {
  const KvWindow::Tokens tokens = window.append(count);
  for (int64_t i = 0; i < count; ++i) {
    tokens.keys[tokens.num_keys - count + i] = static_cast<float>(position + i);
    tokens.values[tokens.num_keys - count + i] = static_cast<float>(-position - i);
  }
  window.trim();
  if (!commit) return;
  window.commit();
  position += count;
}

void expect_latest(const KvWindow& window, int64_t position, int64_t kept) {
  ASSERT_EQ(window.size(), std::min(position, kept));
  for (int64_t i = 0; i < window.size(); ++i) {
    EXPECT_EQ(window.keys()[0][i].item<float>(), position - window.size() + i);
    EXPECT_EQ(window.values()[0][i].item<float>(), -(position - window.size() + i));
  }
}

TEST(KvWindow, HoldsTheLatestTokensInOrder) {
  for (const int64_t size : {1, 2, 9, 0}) {
    KvWindow window(1, 1, size, at::kFloat);
    int64_t position = 0;
    for (const int64_t count : {1, 1, 3, 1, 20, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 8, 2, 200, 1}) {
      push(window, position, count);
      expect_latest(window, position, size > 0 ? size - 1 : position);
    }
  }
}

TEST(KvWindow, IsUnchangedWithoutACommit) {
  for (const int64_t size : {9, 0}) {
    KvWindow window(1, 1, size, at::kFloat);
    int64_t position = 0;
    push(window, position, 6);
    for (const int64_t count : {1, 5, 100}) push(window, position, count, /*commit=*/false);
    expect_latest(window, position, size > 0 ? size - 1 : position);
    push(window, position, 2);
    expect_latest(window, position, size > 0 ? size - 1 : position);
  }
}

TEST(KvWindow, CopiesHaveTheirOwnMemory) {
  KvWindow window(1, 1, 9, at::kFloat);
  int64_t position = 0;
  push(window, position, 6);
  const KvWindow copy = window;
  for (int i = 0; i < 30; ++i) push(window, position, 1);
  expect_latest(copy, 6, 8);
}

// A window of two billion tokens must not ask for their memory before they are read.
TEST(KvWindow, OfAnySizeStartsSmall) {
  KvWindow window(4, 64, (int64_t{1} << 31) - 1, at::kFloat);
  const KvWindow::Tokens tokens = window.append(1);
  std::fill_n(tokens.keys, 256, 1.0f);
  std::fill_n(tokens.values, 256, 1.0f);
  window.trim();
  window.commit();
  EXPECT_EQ(window.size(), 1);
  EXPECT_LT(window.keys().storage().nbytes(), 1u << 20);
}

}  // namespace
}  // namespace pmnet
