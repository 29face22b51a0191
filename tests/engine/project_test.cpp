// Weights in bf16 and int8: what is stored, and that the product for few vectors and for many is the product with the
// weights as stored.
#include "engine/project.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/quantize.h"

namespace pmnet {
namespace {

// What the engine does with a linear layer: x [vectors, inputs].
Tensor multiply(const Tensor& x, const PackedWeight& weight, const Tensor& bias = {}, int64_t first = 0,
                int64_t count = -1) {
  const Projection projection{weight, bias};
  Product p = product(projection, x.size(0), x.const_data_ptr<float>(), nullptr);
  p.first_output = first;
  p.outputs = p.y_stride = count < 0 ? weight.num_outputs : count;
  Tensor y = at::empty({x.size(0), p.outputs});
  p.y = y.mutable_data_ptr<float>();
  GemvBatch batch;
  batch.run(Workers::from_pool(), {p});
  return y;
}

Tensor unpack(const PackedWeight& weight) { return unpack_weight(weight, 0, weight.num_outputs); }

struct ProductCase {
  WeightType type;
  int64_t vectors, inputs, outputs;
};

class Projections : public testing::TestWithParam<ProductCase> {};

TEST_P(Projections, IsTheProductWithTheStoredWeights) {
  const auto [type, vectors, inputs, outputs] = GetParam();
  at::manual_seed(5);
  const Tensor x = at::randn({vectors, inputs}), bias = at::randn({outputs});
  const PackedWeight packed = pack_weight(quantize(at::randn({outputs, inputs}), type));
  const Tensor got = multiply(x, packed, bias);
  const Tensor want =
      at::linear(x.to(at::kDouble), unpack(packed).to(at::kDouble), bias.to(at::kDouble)).to(at::kFloat);
  ASSERT_EQ(got.sizes(), want.sizes());
  // Few vectors are rounded to 16 bits before they meet integers: beside those of bf16, to some bits less.
  const double steps = type == WeightType::kInt8 ? 32767 : 65536 / std::sqrt(256.0);
  const double half_step = type == WeightType::kF32 ? 0 : x.abs().max().item<double>() / steps / 2;
  const double rounding = half_step * unpack(packed).abs().sum(1).max().item<double>();
  EXPECT_LE((got - want).abs().max().item<double>(), 1e-4 + rounding);
}

std::vector<ProductCase> all_cases() {
  std::vector<ProductCase> cases;
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kInt8})
    for (const int64_t vectors : {1, 3, 4, 5, 16, 32, 33})
      for (const auto& [inputs, outputs] : {std::pair{1, 1}, std::pair{7, 5}, std::pair{64, 33}, std::pair{130, 66}})
        cases.push_back({type, vectors, inputs, outputs});
  return cases;
}
INSTANTIATE_TEST_SUITE_P(Shapes, Projections, testing::ValuesIn(all_cases()));

TEST(Quantize, IsWithinHalfAStep) {
  at::manual_seed(6);
  const Tensor w = at::randn({9, 50});
  EXPECT_TRUE(at::equal(quantize(w, WeightType::kF32).values, w));
  EXPECT_TRUE(at::equal(quantize(w, WeightType::kBF16).values, w.to(at::kBFloat16)));
  const auto [values, scales] = quantize(w, WeightType::kInt8);
  const Tensor error = (values.to(at::kFloat) * scales->unsqueeze(1) - w).abs();
  EXPECT_TRUE((error <= scales->unsqueeze(1) * 0.5005).all().item<bool>());
}

TEST(PackWeight, KeepsWhatIsStored) {
  at::manual_seed(6);
  const Tensor w = at::randn({9, 50});
  EXPECT_TRUE(at::equal(unpack(pack_weight({w})), w));
  const StoredWeight int8 = quantize(w, WeightType::kInt8);
  EXPECT_TRUE(at::equal(unpack(pack_weight(int8)), int8.values.to(at::kFloat) * int8.scales->unsqueeze(1)));
  // A hundredth of what rounding to bf16 does to the largest.
  const Tensor bf16 = w.to(at::kBFloat16);
  EXPECT_LE((unpack(pack_weight({bf16})) - bf16).abs().max().item<double>(), w.abs().max().item<double>() / 25600);
}

TEST(PackWeight, ABf16RowThatIsNotFiniteStaysSo) {
  Tensor w = at::ones({3, 8});
  w[1][5] = std::numeric_limits<float>::quiet_NaN();
  const Tensor y = multiply(at::ones({1, 8}), pack_weight(quantize(w, WeightType::kBF16)));
  EXPECT_EQ(y[0].isfinite().sum().item<int64_t>(), 2);
  EXPECT_TRUE(y[0][1].isnan().item<bool>());
}

TEST(PackWeight, RowsAreThoseOfTheWholeMatrix) {
  at::manual_seed(6);
  const Tensor w = at::randn({9, 50}), x = at::randn({4, 50});
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kInt8}) {
    const PackedWeight packed = pack_weight(quantize(w, type));
    for (const auto& [begin, count] : {std::pair{0, 9}, std::pair{2, 3}, std::pair{3, 4}, std::pair{8, 1}}) {
      EXPECT_TRUE(at::equal(unpack_weight(packed, begin, count), unpack(packed).narrow(0, begin, count))) << begin;
      const Tensor want = multiply(x, packed).narrow(1, begin, count);
      EXPECT_LE((multiply(x, packed, {}, begin, count) - want).abs().max().item<double>(), 1e-5) << begin;
    }
  }
}

TEST(PackWeight, ARowOfZerosStaysZero) {
  for (const WeightType type : {WeightType::kBF16, WeightType::kInt8})
    EXPECT_EQ(unpack(pack_weight(quantize(at::zeros({2, 8}), type))).abs().max().item<double>(), 0);
}

// Products of many rows and of few in one call, with strides, as the values of several heads have them.
TEST(GemvBatch, RunsProductsOfAnyNumberOfRowsTogether) {
  at::manual_seed(8);
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kInt8}) {
    const Projection projection{pack_weight(quantize(at::randn({12, 20}), type)), at::randn({12})};
    const Tensor few = at::randn({3, 50}), many = at::randn({70, 50});
    Tensor few_out = at::zeros({3, 30}), many_out = at::zeros({70, 30});
    const auto strided = [&](const Tensor& x, Tensor& y, int64_t first) {
      return Product{&projection, first,
                     5,           /*add_bias=*/true,
                     x.size(0),   x.const_data_ptr<float>() + 7,
                     50,          y.mutable_data_ptr<float>() + 4,
                     30};
    };
    GemvBatch batch;
    batch.run(Workers::from_pool(), {strided(few, few_out, 2), strided(many, many_out, 2), strided(few, few_out, 2)});
    const Tensor w = unpack_weight(projection.weight, 2, 5), b = projection.bias.narrow(0, 2, 5);
    for (const auto& [x, y] : {std::pair{few, few_out}, std::pair{many, many_out}}) {
      const Tensor want = at::linear(x.narrow(1, 7, 20), w, b);
      EXPECT_LE((y.narrow(1, 4, 5) - want).abs().max().item<double>(), type == WeightType::kF32 ? 1e-5 : 2e-2);
      Tensor beside = y.clone();
      beside.narrow(1, 4, 5).zero_();
      EXPECT_EQ(beside.abs().max().item<float>(), 0);
    }
  }
}

// Threads take rows as they come to them, so that no two runs cut the products alike.
TEST(GemvBatch, GivesTheSameBitsEveryTime) {
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16, WeightType::kInt8})
    for (const int64_t vectors : {1, 3, 4, 8}) {
      const PackedWeight weight = pack_weight(quantize(at::randn({1003, 301}), type));
      const Tensor x = at::randn({vectors, 301}), first = multiply(x, weight, {}, 5, 990);
      for (int run = 0; run < 100; ++run) ASSERT_TRUE(multiply(x, weight, {}, 5, 990).equal(first)) << vectors;
    }
}

}  // namespace
}  // namespace pmnet
