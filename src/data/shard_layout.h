// What the writer and the reader of shards share.
#pragma once
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace pmnet {

inline constexpr char kShardMagic[9] = "PMSHARD1";

// 64-bit XXH3 over a stream of bytes.
class HashState {
 public:
  HashState() : state_(XXH3_createState()) {
    if (!state_) throw std::bad_alloc();
    reset();
  }
  ~HashState() { XXH3_freeState(state_); }
  HashState(const HashState&) = delete;
  HashState& operator=(const HashState&) = delete;

  void reset() { XXH3_64bits_reset(state_); }
  void update(const void* bytes, size_t size) { XXH3_64bits_update(state_, bytes, size); }
  uint64_t digest() const { return XXH3_64bits_digest(state_); }

 private:
  XXH3_state_t* state_;
};

}  // namespace pmnet
