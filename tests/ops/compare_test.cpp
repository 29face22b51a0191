// The comparison that judges every op must itself be able to fail.
#include "compare.h"

namespace pmnet::ops {
namespace {

// silu(gate) * up with a chosen mistake on the fast path only.
enum class Mistake { kNone, kValue, kGradient, kOneEntry, kNaN };

TensorFunction swiglu_with(Mistake mistake) {
  return [mistake](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const bool judged = in[0].scalar_type() == at::kFloat && current_implementation() == Implementation::kFast;
    if (!judged || mistake == Mistake::kNone) return {swiglu(in[0], in[1])};
    if (mistake == Mistake::kGradient) return {swiglu(in[0], in[1]) + 1e-3 * (in[1] - in[1].detach())};
    Tensor error = at::zeros_like(in[0]);
    if (mistake == Mistake::kValue) error.fill_(1e-3);
    if (mistake == Mistake::kOneEntry) error.view({-1})[error.numel() - 1] = 1e-3;
    if (mistake == Mistake::kNaN) error.view({-1})[0] = std::numeric_limits<double>::quiet_NaN();
    return {swiglu(in[0], in[1]) + error};
  };
}

Difference difference_with(Mistake mistake) {
  Random random(7);
  return difference_from_reference(swiglu_with(mistake), {random.normal({3, 9}), random.normal({3, 9})});
}

TEST(Comparison, HoldsForTheRightKernel) { EXPECT_LE(difference_with(Mistake::kNone).error, kFloatLimit); }

TEST(Comparison, FailsForAWrongKernel) {
  for (const Mistake mistake : {Mistake::kValue, Mistake::kOneEntry, Mistake::kNaN}) {
    const Difference found = difference_with(mistake);
    EXPECT_GT(found.error, kFloatLimit);
    EXPECT_EQ(found.where.substr(0, 4), "fast");
    EXPECT_NE(found.where.find("output 0"), std::string::npos) << found.where;
  }
}

TEST(Comparison, FailsForAWrongGradient) {
  const Difference found = difference_with(Mistake::kGradient);
  EXPECT_GT(found.error, kFloatLimit);
  EXPECT_NE(found.where.find("gradient 1"), std::string::npos) << found.where;
}

TEST(Gradcheck, FailsForAWrongGradient) {
  Random random(8);
  const auto square = [](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {in[0].square()}; };
  const auto half = [](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {in[0] * in[0].detach()}; };
  EXPECT_EQ(gradient_mismatch(square, {random.normal({5})}), "");
  EXPECT_NE(gradient_mismatch(half, {random.normal({5})}), "");
}

}  // namespace
}  // namespace pmnet::ops
