// Every hot operation of the models as a plain C++ function. ops/<name>.cpp holds all of one op: the check of its
// arguments, the CPU implementation for float32 (kernels of src/kernels, matrix products of ATen, a backward pass
// written by hand), the reference implementation (plain ATen, any device and dtype, differentiated by autograd) and the
// registration as torch.ops.pmnet.<name>. The reference is the definition; tests compare the two in values and
// gradients.
//
// The C++ function chooses the implementation. The dispatcher of torch is only the door for Python: it registers that
// same function, so Python gets the same checks. Meta tensors, tensors under torch.compile, other dtypes and other
// devices go to the reference.
//
// Letters: B batch, T time, S keys, A heads, Dh head width, N slots, M phases, R read heads, G groups, V vocabulary.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace pmnet::ops {

using at::Tensor;
using OptTensor = std::optional<Tensor>;

enum class Implementation { kFast, kReference };

// Chooses the implementation for the calling thread while alive. A backward pass follows the choice of its forward
// pass.
class ImplementationGuard {
 public:
  explicit ImplementationGuard(Implementation implementation);
  ~ImplementationGuard();
  ImplementationGuard(const ImplementationGuard&) = delete;
  ImplementationGuard& operator=(const ImplementationGuard&) = delete;

 private:
  Implementation previous_;
};
Implementation current_implementation();

// Phases on the unit circle. `turns` is exact: a wrapped fraction of a turn, int32 where the network reads it and int64
// where it accumulates. `angle` is its differentiable twin in radians: it carries gradients and, in double precision
// (gradient checks), the value itself, `turns` being absent. Inference leaves `angle` absent.
struct Phases {
  OptTensor turns;
  OptTensor angle;
  bool defined() const { return turns.has_value() || angle.has_value(); }
};

// Exact turns of an angle in radians: round(angle * 2^64 / 2 pi) mod 2^64, as int64.
Tensor to_turns(const Tensor& radians);
// The angle in [-pi, pi) of int32 or int64 turns, in the given dtype.
Tensor to_angle(const Tensor& turns, at::ScalarType dtype);

// weight * (x / sqrt(mean(x^2) + eps)) over the last dimension.
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps);

// Linear layers of one normed input: W_i rms_norm(x) + b_i, with all biases or none. The normed input is recomputed in
// the backward pass rather than kept.
std::vector<Tensor> rms_norm_linear(const Tensor& x, const Tensor& norm_weight, double eps, at::TensorList weights,
                                    at::TensorList biases);

// Rotary position embedding (half-split rotation), after an RMSNorm of each head if a weight [Dh] is given.
// x [B,T,A,Dh], cos and sin [B|1,T,Dh/2].
Tensor rotary(const Tensor& x, const OptTensor& weight, const Tensor& cos, const Tensor& sin, double eps);

// Dropout on attention probabilities without a generator: each bit is a function of the row's key and the absolute
// positions of query and key, so chunks, recomputation and ranks see the same mask.
struct AttentionDropout {
  double probability = 0.0;
  OptTensor row_keys;   // int64 [B]: hash of (seed, step, sample, layer)
  OptTensor positions;  // int64 [B]: absolute position of the first query
};

// Causal attention, window w (0: unlimited). q [B,T,A,Dh]; k, v [B,S,A_kv,Dh] end at the last query; keys before
// first_key[b] (int64 [B], at most S - T) are masked. Returns [B,T,A,Dh].
Tensor window_attention(const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& first_key, int64_t window,
                        double scale, const AttentionDropout& dropout);

// silu(gate) * up, and the linear layer that follows it in an MLP (the product is recomputed in its backward pass).
Tensor swiglu(const Tensor& gate, const Tensor& up);
Tensor swiglu_linear(const Tensor& gate, const Tensor& up, const Tensor& weight, const OptTensor& bias);

// Eq. 2, left: Phi(path + E[group]) = [sin, cos], [B,T,N,2M]. path [B,T,N,M] (absent: zero), anchors [G,N,M],
// group int64 [B,T] (negative: padding, reads anchor 0). `unconstrained` is the stability experiment's [theta, 0].
Tensor circle_features(const Phases& path, const Tensor& anchors, const Tensor& group, bool unconstrained);

// Eq. 1-3 and 7: a = softmax_n( sum_j cos(pi tanh(query) - pi tanh(W_k Phi_n + b_k)) / sqrt(M) ).
// query [B,T,R*M] before tanh; features [B,T,N,2M], or [1,1,N,2M] when they are the same for every token;
// w_k [R*M,2M]. Returns [B,T,R,N].
Tensor phase_attention(const Tensor& query, const Tensor& features, const Tensor& w_k, const Tensor& b_k,
                       int64_t num_heads);

// Eq. 8 without W_o: sum_n a_rn V_nr, computed as W_v,r (sum_n a_rn Phi_n) + b_v,r, which is the same because the
// weights of a head sum to one. weights [B,T,R,N], features [B,T,N,2M], w_v [R*M,2M]. Returns [B,T,R*M].
Tensor phase_values(const Tensor& weights, const Tensor& features, const Tensor& w_v, const Tensor& b_v);

struct SegmentedScanResult {
  Phases path;         // [B,T,N,M]: path + state, the wrapped sum from the root to this level (turns int32)
  Phases final_state;  // [B,G,N,M]: the level's memory after the last token (turns int64)
};

// The segmented scan that writes the memory (Eq. 5, 6, 9 and Algorithm 1): delta_n = a_n m, the running sum of delta
// per segment (row, group) in exact turns. In the same pass it adds the state to the path from the root, which the next
// level and the read need. weights [B,T,N], update [B,T,M] in radians, group [B,T] (negative: padding, writes nothing),
// initial [B,G,N,M]. grad_scale [B,G] multiplies the gradient of delta: 1/sqrt(s) for segment-aware normalisation
// (absent: 1). `unconstrained` sums in floating point without wrapping: the result has no turns, only angles. Turns
// cannot represent NaN or infinity: without gradients such an increment is an error; with gradients the value is
// arbitrary and the gradient is not finite.
SegmentedScanResult segmented_scan(const Tensor& weights, const Tensor& update, const Tensor& group, int64_t num_groups,
                                   const Phases& path, const Phases& initial, const OptTensor& grad_scale,
                                   bool unconstrained);

// -log p(target) of softmax(W hidden), one number per row: the language-model head and its loss. A negative target
// marks padding: loss 0, no gradient. hidden [n,d], weight [V,d], targets int64 [n].
Tensor cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& targets);

// Mamba's causal convolution of each channel: silu(bias + sum_k weight_k x_{t-K+1+k}). x [B,T,E], weight [E,K], bias
// [E], past [B,E,K-1]: the inputs before x, oldest first (absent: zero). Returns [B,T,E].
Tensor causal_conv(const Tensor& x, const Tensor& weight, const OptTensor& bias, const OptTensor& past);

// Mamba's selective state space: h_t = exp(delta_t A) h_{t-1} + delta_t B_t u_t, y_t = C_t h_t + D u_t, times silu(z).
// u, delta (after softplus), z [B,T,E]; a [E,S]; b, c [B,T,S]; d [E]; initial [B,E,S]. Returns y and the last h.
struct SelectiveScanResult {
  Tensor output;
  Tensor final_state;
};
SelectiveScanResult selective_scan(const Tensor& u, const Tensor& delta, const Tensor& a, const Tensor& b,
                                   const Tensor& c, const Tensor& d, const Tensor& z, const OptTensor& initial);

}  // namespace pmnet::ops
