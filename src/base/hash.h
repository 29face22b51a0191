// One of each hash: XXH3 for content, splitmix64 for random numbers that are pure functions, FNV-1a for names.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace pmnet {

inline constexpr uint64_t kGoldenRatio64 = 0x9E3779B97F4A7C15;  // 2^64 divided by the golden ratio

// The finalizer of splitmix64, a bijection: every bit of the input reaches every bit of the output.
inline uint64_t mix64(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// One step of the generator splitmix64 from state x, and a hash of two numbers made of it.
inline uint64_t splitmix64(uint64_t x) { return mix64(x + kGoldenRatio64); }
inline uint64_t splitmix64(uint64_t a, uint64_t b) { return splitmix64(splitmix64(a) ^ b); }

// FNV-1a over the text, starting from `basis`.
inline uint64_t fnv1a(std::string_view text, uint64_t basis) {
  for (const unsigned char c : text) basis = (basis ^ c) * 0x100000001B3;
  return basis;
}

// XXH3 over a stream of bytes, in 64 or 128 bits. Finds damage, not malice.
class Xxh3 {
 public:
  Xxh3();
  void reset();
  void update(const void* bytes, size_t size);
  void update_text(std::string_view text);  // its length first, so that no two sequences of texts hash alike
  uint64_t digest64() const;
  std::string hex128() const;  // 32 hex digits

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

uint64_t hash64(const void* bytes, size_t size);
// 32 hex digits of a whole text or file.
std::string text_hash(std::string_view text);
std::string file_hash(const std::filesystem::path& file);

}  // namespace pmnet
