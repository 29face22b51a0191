#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace pmnet {

// The element types of safetensors, in the order the format's own writer sorts by, so that our files come out byte for
// byte the same.
enum class DType {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

std::string_view name_of(DType dtype);  // as in the file: "F32"
int64_t bits_of(DType dtype);
std::optional<DType> find_dtype(std::string_view name);

}  // namespace pmnet
