#include "kernels/selective_scan.h"

#include <algorithm>
#include <numbers>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/selective_scan.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "kernels/activations-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace pmnet::kernels::HWY_NAMESPACE {

// Decays are powers of two: exp(delta A) = 2^(delta A log2 e), with A scaled once.
constexpr float kLog2E = std::numbers::log2e_v<float>, kLn2 = std::numbers::ln2_v<float>;

// A slab's [S,width] arrays have the channels side by side, so that a vector holds one state of several channels and
// the sum over states needs no shuffles. `width` is padded to whole vectors; the padding stays zero.
struct Slab {
  int64_t S, E, begin, channels, width;

  explicit Slab(const ScanShape& shape)
      : S(shape.state_size), E(shape.num_channels), begin(shape.begin), channels(shape.end - shape.begin) {
    const int64_t lanes = hn::Lanes(Floats());
    width = (channels + lanes - 1) / lanes * lanes;
  }
  void load(const float* from, float* slab, float scale = 1.0f) const {  // [E,S] -> [S,width]
    for (int64_t i = 0; i < channels; ++i)
      for (int64_t s = 0; s < S; ++s) slab[s * width + i] = scale * from[(begin + i) * S + s];
  }
  void store(const float* slab, float* to) const {
    for (int64_t i = 0; i < channels; ++i)
      for (int64_t s = 0; s < S; ++s) to[(begin + i) * S + s] = slab[s * width + i];
  }
};

// 2^x for x in [-100, 127], clamped beyond: a state scaled by 2^-100 is gone. Adding 1.5 * 2^23 rounds x to an integer
// that sits in the low bits of the sum; the rest, at most 1/2, goes through a polynomial (relative error 2e-9).
HWY_INLINE FloatVec power_of_two(FloatVec x) {
  const Floats f;
  const hn::RebindToSigned<Floats> i;
  const auto k = [&](float value) HWY_ATTR { return hn::Set(f, value); };
  x = clamp(x, -100.0f, 127.0f);
  const auto shifted = hn::Add(x, k(0x1.8p23f));
  const auto r = hn::Sub(x, hn::Sub(shifted, k(0x1.8p23f)));
  auto p = hn::MulAdd(r, k(0.00015353361959569156f), k(0.0013398875016719103f));
  p = hn::MulAdd(r, p, k(0.00961843691766262f));
  p = hn::MulAdd(r, p, k(0.055503323674201965f));
  p = hn::MulAdd(r, p, k(0.24022647738456726f));
  p = hn::MulAdd(r, p, k(0.6931471824645996f));
  p = hn::MulAdd(r, p, k(1.0f));
  return hn::BitCast(f, hn::Add(hn::BitCast(i, p), hn::ShiftLeft<23>(hn::BitCast(i, shifted))));
}

HWY_INLINE FloatVec broadcast(float x) { return hn::Set(Floats(), x); }

// Steps are the outer loop, channels a vector, states the inner loop: h stays in the L1 cache ([S,64] floats).
void SelectiveScan(const ScanShape& shape, const ScanInputs& in, float* state, float* kept, float* y) {
  const Floats f;
  const Slab slab(shape);
  const int64_t S = slab.S, E = slab.E, width = slab.width;
  std::vector<float> scratch(2 * S * width);
  float *a = scratch.data(), *h = a + S * width;
  slab.load(in.a, a, kLog2E);
  slab.load(state, h);
  for (int64_t t = 0; t < shape.num_steps; ++t) {
    if (kept != nullptr && t % kScanBlock == 0)
      for (int64_t s = 0; s < S; ++s)
        std::copy_n(h + s * width, slab.channels, kept + (t / kScanBlock * S + s) * E + slab.begin);
    const float *b = in.b + t * S, *c = in.c + t * S;
    for_each_vector(slab.channels, [&](size_t i, auto io) HWY_ATTR {
      const int64_t channel = slab.begin + i, here = t * E + channel;
      const auto u = io.load(in.u + here), delta = io.load(in.delta + here), input = hn::Mul(delta, u);
      auto sum = hn::Mul(io.load(in.d + channel), u);
      for (int64_t s = 0; s < S; ++s) {
        const auto decay = power_of_two(hn::Mul(delta, hn::LoadU(f, a + s * width + i)));
        const auto next = hn::MulAdd(decay, hn::LoadU(f, h + s * width + i), hn::Mul(input, broadcast(b[s])));
        hn::StoreU(next, f, h + s * width + i);
        sum = hn::MulAdd(next, broadcast(c[s]), sum);
      }
      io.store(hn::Mul(sum, silu_and_slope(io.load(in.z + t * shape.gate_stride + channel)).value), y + here);
    });
  }
  slab.store(h, state);
}

// Buffers of the backward pass for one block and one vector of channels, each [steps,S,lanes]. The gradients of b and c
// are sums over channels: each lane accumulates its channels over the whole slab, and lanes are added once per block.
struct BackwardBlock {
  int64_t size, lanes;
  std::vector<float> h, decay, grad_b, grad_c;

  explicit BackwardBlock(int64_t S)
      : size(S * hn::Lanes(Floats())),
        lanes(hn::Lanes(Floats())),
        h((kScanBlock + 1) * size),
        decay(kScanBlock * size),
        grad_b(kScanBlock * size),
        grad_c(kScanBlock * size) {}
};

// Blocks from last to first. Within a block: recompute h and the decays forward, then go back in time. With G the
// gradient of h_t (from y_t, and carried from h_{t+1}): dA += G decay h_{t-1} delta, dB += G delta u, dC += grad_sum
// h_t.
void SelectiveScanBackward(const ScanShape& shape, const ScanInputs& in, const float* kept, const float* grad_y,
                           float* grad_state, const ScanGradients& grads) {
  const Floats f;
  const Slab slab(shape);
  const int64_t S = slab.S, E = slab.E, width = slab.width;
  std::vector<float> scratch((3 * S + 1) * width);
  float *a = scratch.data(), *grad_a = a + S * width, *grad_h = grad_a + S * width, *grad_d = grad_h + S * width;
  slab.load(in.a, a, kLog2E);
  slab.load(grad_state, grad_h);
  BackwardBlock block(S);
  const int64_t lanes = block.lanes;
  for (int64_t index = num_scan_blocks(shape.num_steps) - 1; index >= 0; --index) {
    const int64_t first = index * kScanBlock, steps = std::min(kScanBlock, shape.num_steps - first);
    std::fill(block.grad_b.begin(), block.grad_b.end(), 0.0f);
    std::fill(block.grad_c.begin(), block.grad_c.end(), 0.0f);
    for_each_vector(slab.channels, [&](size_t i, auto io) HWY_ATTR {
      const int64_t channel = slab.begin + i;
      for (int64_t s = 0; s < S; ++s)
        hn::StoreU(io.load(kept + (index * S + s) * E + channel), f, block.h.data() + s * lanes);
      for (int64_t t = 0; t < steps; ++t) {
        const int64_t here = (first + t) * E + channel;
        const auto delta = io.load(in.delta + here), input = hn::Mul(delta, io.load(in.u + here));
        const float *b = in.b + (first + t) * S, *before = block.h.data() + t * block.size;
        float *after = block.h.data() + (t + 1) * block.size, *decays = block.decay.data() + t * block.size;
        for (int64_t s = 0; s < S; ++s) {
          const auto decay = power_of_two(hn::Mul(delta, hn::LoadU(f, a + s * width + i)));
          hn::StoreU(decay, f, decays + s * lanes);
          hn::StoreU(hn::MulAdd(decay, hn::LoadU(f, before + s * lanes), hn::Mul(input, broadcast(b[s]))), f,
                     after + s * lanes);
        }
      }
      for (int64_t t = steps - 1; t >= 0; --t) {
        const int64_t step = first + t, here = step * E + channel, gate_here = step * shape.gate_stride + channel;
        const auto u = io.load(in.u + here), delta = io.load(in.delta + here), input = hn::Mul(delta, u);
        const auto d = io.load(in.d + channel), grad_out = io.load(grad_y + here);
        const Silu gate = silu_and_slope(io.load(in.z + gate_here));
        const auto grad_sum = hn::Mul(grad_out, gate.value);  // of C h + D u
        const float *b = in.b + step * S, *c = in.c + step * S;
        const float *before = block.h.data() + t * block.size, *after = before + block.size;
        const float* decays = block.decay.data() + t * block.size;
        float *grad_b = block.grad_b.data() + t * block.size, *grad_c = block.grad_c.data() + t * block.size;
        auto sum = hn::Mul(d, u), grad_input = hn::Zero(f), grad_delta = hn::Zero(f);  // grad_delta: times log2 e
        for (int64_t s = 0; s < S; ++s) {
          const auto h = hn::LoadU(f, after + s * lanes), c_s = broadcast(c[s]);
          const auto grad = hn::MulAdd(grad_sum, c_s, hn::LoadU(f, grad_h + s * width + i));  // of h_t
          const auto carried = hn::Mul(grad, hn::LoadU(f, decays + s * lanes));               // of h_{t-1}
          const auto grad_exponent = hn::Mul(carried, hn::LoadU(f, before + s * lanes));      // of delta A
          hn::StoreU(carried, f, grad_h + s * width + i);
          sum = hn::MulAdd(h, c_s, sum);
          grad_input = hn::MulAdd(grad, broadcast(b[s]), grad_input);
          grad_delta = hn::MulAdd(grad_exponent, hn::LoadU(f, a + s * width + i), grad_delta);
          const auto add_to = [&](float* to, FloatVec x, FloatVec y)
                                  HWY_ATTR { hn::StoreU(hn::MulAdd(x, y, hn::LoadU(f, to)), f, to); };
          add_to(grad_a + s * width + i, grad_exponent, delta);
          add_to(grad_b + s * lanes, grad, input);
          add_to(grad_c + s * lanes, grad_sum, h);
        }
        io.store(hn::MulAdd(grad_input, delta, hn::Mul(grad_sum, d)), grads.u + here);
        io.store(hn::MulAdd(grad_input, u, hn::Mul(grad_delta, broadcast(kLn2))), grads.delta + here);
        io.store(hn::Mul(hn::Mul(grad_out, sum), gate.slope), grads.z + here);
        hn::StoreU(hn::MulAdd(grad_sum, u, hn::LoadU(f, grad_d + i)), f, grad_d + i);
      }
    });
    for (int64_t k = 0; k < steps * S; ++k) {
      grads.b[first * S + k] = sum_lanes(hn::LoadU(f, block.grad_b.data() + k * lanes));
      grads.c[first * S + k] = sum_lanes(hn::LoadU(f, block.grad_c.data() + k * lanes));
    }
  }
  slab.store(grad_h, grad_state);
  slab.store(grad_a, grads.a);
  std::copy_n(grad_d, slab.channels, grads.d + slab.begin);
}

}  // namespace pmnet::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pmnet::kernels {

HWY_EXPORT(SelectiveScan);
HWY_EXPORT(SelectiveScanBackward);

void selective_scan(const ScanShape& shape, const ScanInputs& in, float* state, float* kept, float* y) {
  HWY_DYNAMIC_DISPATCH(SelectiveScan)(shape, in, state, kept, y);
}

void selective_scan_backward(const ScanShape& shape, const ScanInputs& in, const float* kept, const float* grad_y,
                             float* grad_state, const ScanGradients& grads) {
  HWY_DYNAMIC_DISPATCH(SelectiveScanBackward)(shape, in, kept, grad_y, grad_state, grads);
}

}  // namespace pmnet::kernels
#endif  // HWY_ONCE
