// Weights in bf16 and int8: what is stored, and that the product for few vectors and for many is the product with the
// weights as stored.
#include "ops/packed_linear.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace pmnet::ops {
namespace {

using kernels::WeightType;

struct LinearCase {
  WeightType type;
  int64_t vectors, inputs, outputs;
};

class PackedLinear : public testing::TestWithParam<LinearCase> {};

TEST_P(PackedLinear, IsTheProductWithTheStoredWeights) {
  const auto [type, vectors, inputs, outputs] = GetParam();
  at::manual_seed(5);
  const Tensor x = at::randn({vectors, inputs}), bias = at::randn({outputs});
  const PackedWeight packed = pack_weight(quantize_weight(at::randn({outputs, inputs}), type));
  const Tensor got = packed_linear(x, packed, bias);
  const Tensor want =
      at::linear(x.to(at::kDouble), unpack_weight(packed).to(at::kDouble), bias.to(at::kDouble)).to(at::kFloat);
  ASSERT_EQ(got.sizes(), want.sizes());
  if (got.numel() == 0) return;
  // Few vectors are rounded to 16 bits before they meet integers: beside those of bf16, to some bits less.
  const double steps = type == WeightType::kInt8 ? 32767 : 65536 / std::sqrt(256.0);
  const double half_step = type == WeightType::kF32 ? 0 : x.abs().max().item<double>() / steps / 2;
  const double rounding = half_step * unpack_weight(packed).abs().sum(1).max().item<double>();
  EXPECT_LE((got - want).abs().max().item<double>(), 1e-4 + rounding);
  const ImplementationGuard reference(Implementation::kReference);
  EXPECT_LE((packed_linear(x, packed, bias) - want).abs().max().item<double>(), 1e-4);
}

std::vector<LinearCase> all_cases() {
  std::vector<LinearCase> cases;
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kInt8})
    for (const int64_t vectors : {0, 1, 3, 4, 5, 16, 32, 33})
      for (const auto& [inputs, outputs] : {std::pair{1, 1}, std::pair{7, 5}, std::pair{64, 33}, std::pair{130, 66}})
        cases.push_back({type, vectors, inputs, outputs});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Shapes, PackedLinear, testing::ValuesIn(all_cases()));

TEST(RoundWeight, IsWithinHalfAStep) {
  at::manual_seed(6);
  const Tensor w = at::randn({9, 50});
  EXPECT_TRUE(at::equal(quantize_weight(w, WeightType::kF32).values, w));
  EXPECT_TRUE(at::equal(quantize_weight(w, WeightType::kBF16).values, w.to(at::kBFloat16)));
  const auto [values, scales] = quantize_weight(w, WeightType::kInt8);
  const Tensor error = (values.to(at::kFloat) * scales->unsqueeze(1) - w).abs();
  EXPECT_TRUE((error <= scales->unsqueeze(1) * 0.5005).all().item<bool>());
}

TEST(PackWeight, KeepsWhatIsStored) {
  at::manual_seed(6);
  const Tensor w = at::randn({9, 50});
  EXPECT_TRUE(at::equal(unpack_weight(pack_weight({w})), w));
  const StoredWeight int8 = quantize_weight(w, WeightType::kInt8);
  EXPECT_TRUE(at::equal(unpack_weight(pack_weight(int8)), int8.values.to(at::kFloat) * int8.scales->unsqueeze(1)));
  // A hundredth of what rounding to bf16 does to the largest.
  const Tensor bf16 = w.to(at::kBFloat16);
  EXPECT_LE((unpack_weight(pack_weight({bf16})) - bf16).abs().max().item<double>(),
            w.abs().max().item<double>() / 25600);
}

TEST(PackWeight, ABf16RowThatIsNotFiniteStaysSo) {
  Tensor w = at::ones({3, 8});
  w[1][5] = std::numeric_limits<float>::quiet_NaN();
  const Tensor y = packed_linear(at::ones({1, 8}), pack_weight(quantize_weight(w, WeightType::kBF16)), std::nullopt);
  EXPECT_EQ(y[0].isfinite().sum().item<int64_t>(), 2);
  EXPECT_TRUE(y[0][1].isnan().item<bool>());
}

TEST(PackWeight, RowsAreThoseOfTheWholeMatrix) {
  at::manual_seed(6);
  const Tensor w = at::randn({9, 50}), x = at::randn({4, 50});
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kInt8}) {
    const PackedWeight packed = pack_weight(quantize_weight(w, type));
    for (const auto& [begin, count] : {std::pair{0, 9}, std::pair{2, 3}, std::pair{3, 4}, std::pair{8, 1}}) {
      const PackedWeight rows = packed.rows(begin, count);
      EXPECT_TRUE(at::equal(unpack_weight(rows), unpack_weight(packed).narrow(0, begin, count))) << begin;
      const Tensor want = packed_linear(x, packed, std::nullopt).narrow(1, begin, count);
      EXPECT_LE((packed_linear(x, rows, std::nullopt) - want).abs().max().item<double>(), 1e-5) << begin;
    }
  }
}

TEST(PackWeight, ARowOfZerosStaysZero) {
  for (const WeightType type : {WeightType::kBF16, WeightType::kInt8})
    EXPECT_EQ(unpack_weight(pack_weight(quantize_weight(at::zeros({2, 8}), type))).abs().max().item<double>(), 0);
}

TEST(PhaseScores, AreThoseOfPhaseAttention) {
  at::manual_seed(7);
  const Tensor query = at::randn({2, 3, 4 * 10}), features = at::randn({2, 3, 5, 20});
  const Tensor w = at::randn({40, 20}) * 0.3, b = at::randn({40});
  const Tensor want = phase_attention(query, features, w, b, 4);
  for (const Implementation implementation : {Implementation::kFast, Implementation::kReference}) {
    const ImplementationGuard guard(implementation);
    EXPECT_LE((phase_scores(query, at::linear(features, w, b), 4) - want).abs().max().item<double>(), 1e-5);
  }
}

// Threads take rows as they come to them, so that no two runs cut the products alike.
TEST(PackedLinear, GivesTheSameBitsEveryTime) {
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kInt8})
    for (const int64_t vectors : {1, 3, 4, 8}) {
      const PackedWeight weight = pack_weight(quantize_weight(at::randn({1003, 301}), type)).rows(5, 990);
      const Tensor x = at::randn({vectors, 301}), first = packed_linear(x, weight, std::nullopt);
      for (int run = 0; run < 100; ++run) ASSERT_TRUE(packed_linear(x, weight, std::nullopt).equal(first)) << vectors;
    }
}

}  // namespace
}  // namespace pmnet::ops
