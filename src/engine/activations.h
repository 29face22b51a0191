// The named buffers of one pass over n tokens. They grow to what the largest pass needed and are used again, so that
// decoding a byte allocates nothing.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "engine/engine_state.h"
#include "engine/project.h"

namespace pmnet {

// Uninitialised memory from ATen's allocator, which places large blocks on huge pages.
template <typename T>
class Buffer {
 public:
  // Contents are lost when it grows.
  T* resize(int64_t size) {
    if (!memory_.defined() || memory_.numel() < size) memory_ = at::empty({size}, c10::CppTypeToScalarType<T>::value);
    return data();
  }
  T* data() const { return memory_.mutable_data_ptr<T>(); }

 private:
  at::Tensor memory_;
};

struct Activations {
  // The tokens: sequence b has tokens [first[b], first[b + 1]) of n.
  std::vector<int64_t> first;
  Buffer<float> cos, sin;  // [n,Dh/2]: rotary tables

  Buffer<float> x;         // [n,d]: the residual stream
  Buffer<float> normed;    // [n,d]: its norm
  Buffer<float> residual;  // [n,d]: what a module adds to it
  Buffer<float> unused;    // inverse norms, which kernels return for a backward pass

  // Attention: heads [n,A,Dh] and their softmax denominators; for split keys one set per part.
  Buffer<float> q, k, v, heads, log_sums, parts;
  std::vector<KvWindow::Tokens> windows;  // per sequence
  struct Query {
    const float *keys, *values;  // that it sees, [num_keys, A_kv*Dh]
    int64_t num_keys;
  };
  std::vector<Query> queries;
  // SwiGLU, [n,f]; Mamba's channels, [n,2E] and [n,E].
  Buffer<float> gate, up;

  // PMNet's memory. A token's group, what it collected root to here, and the features of that.
  std::vector<int64_t> group, next_group;  // [n]: of this level and of the next
  Buffer<int32_t> path;                    // [n,N,M] turns
  Buffer<float> features;                  // [n,N,2M]
  Buffer<float> bare;                      // [n,N,2M]: those without the embeddings, for MemoryValues::kBare
  Buffer<float> keys;                      // [block,N,R*M]
  Buffer<float> weights;                   // [n,R,N]
  Buffer<float> mixed;                     // [block,R,2M]
  Buffer<float> update;                    // [n,M] radians
  MemoryBackup backup;

  // Mamba: [n,rank+2S], then B and C [n,S] and the step width [n,E].
  Buffer<float> selected, b, c, delta;
  std::vector<std::vector<SsmState>> next_ssm;  // per sequence and layer, for the commit

  GemvBatch gemv;
};

}  // namespace pmnet
