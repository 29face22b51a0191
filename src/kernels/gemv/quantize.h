// Quantization of float32 to int16 with one scale.
//
// Integer products are summed in int32, twice as many per instruction as float32 ones. The sum over a block of
// kNormBlock columns cannot overflow: by the Cauchy-Schwarz inequality it is at most the L2 norm of the block of
// weights times the L2 norm of the block of the operand, and the limits below keep that product under 2^31. After each
// block the int32 sums are added to float32 totals.
#pragma once
#include <cstdint>

namespace pmnet::kernels {

constexpr int64_t kNormBlock = 256;  // columns

// Upper limits of the L2 norm of any quantized block.
constexpr float kMaxWeightNormInt16 = 1 << 15;   // int16 weights
constexpr float kMaxOperandNormInt16 = 1 << 16;  // operands of int16 weights: 2^15 2^16 = 2^31
constexpr float kMaxOperandNormInt8 = 1 << 20;   // operands of int8 weights, whose norm is at most 128 sqrt(256) = 2^11

// A power of two divides bf16 values without rounding (unless the quotient is below 128 and has fraction bits).
enum class ScaleKind { kAny, kPowerOfTwo };

// out = round(x / scale) with the smallest scale for which every value fits into int16 and every block of x keeps its
// norm below max_norm. Returns the scale: 0 if all of x is below 1e-30, NaN if any value is not finite (out is then 0,
// and the NaN reaches every product).
float quantize_int16(int64_t count, const float* x, float max_norm, ScaleKind kind, int16_t* out);

}  // namespace pmnet::kernels
