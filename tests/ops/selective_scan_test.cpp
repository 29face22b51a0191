#include "same_bits.h"

namespace pmnet::ops {
namespace {

Tensor rounded(const Tensor& x) { return x.to(at::kFloat).to(at::kDouble); }

// u, delta, a, b, c, d, z, initial
std::vector<Tensor> scan_inputs(uint64_t seed, int64_t B, int64_t T, int64_t E, int64_t S) {
  Random random(seed);
  return {random.normal({B, T, E}),
          rounded(at::softplus(random.normal({B, T, E}) - 1)),
          rounded(-random.normal({E, S}).exp()),
          random.normal({B, T, S}),
          random.normal({B, T, S}),
          random.normal({E}),
          random.normal({B, T, E}),
          random.normal({B, E, S})};
}

std::vector<Tensor> floats(std::vector<Tensor> inputs) {
  for (Tensor& x : inputs) x = x.to(at::kFloat);
  return inputs;
}

std::vector<Tensor> scan(const std::vector<Tensor>& x) {
  const auto result = selective_scan(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]);
  return {result.output, result.final_state};
}

// Around the ends of vectors, slabs of channels and blocks of steps; odd state sizes; nothing at all.
TEST(SelectiveScan, AgreesOnAwkwardShapes) {
  struct Shape {
    int64_t B, T, E, S;
  };
  for (const auto& [B, T, E, S] : std::vector<Shape>{{1, 0, 8, 16},
                                                     {1, 1, 1, 1},
                                                     {2, 1, 64, 16},
                                                     {3, 31, 65, 16},
                                                     {1, 32, 40, 16},
                                                     {2, 33, 7, 5},
                                                     {1, 63, 130, 16},
                                                     {2, 64, 96, 16},
                                                     {3, 65, 9, 3},
                                                     {1, 200, 70, 17},
                                                     {0, 5, 8, 16}}) {
    SCOPED_TRACE(fmt::format("B{} T{} E{} S{}", B, T, E, S));
    expect_op_agrees(scan, scan_inputs(1, B, T, E, S));
  }
}

TEST(SelectiveScan, GradientIsTheDerivative) { expect_op_is_right(scan, scan_inputs(2, 2, 4, 3, 2)); }

TEST(SelectiveScan, GradientReachesInputsThroughTheFinalStateAlone) {
  expect_op_agrees([](const auto& x) { return std::vector{scan(x)[1]}; }, scan_inputs(3, 2, 40, 10, 16));
  expect_op_agrees([](const auto& x) { return std::vector{scan(x)[0]}; }, scan_inputs(4, 2, 40, 10, 16));
}

TEST(SelectiveScan, AbsentInitialStateIsZero) {
  auto x = floats(scan_inputs(5, 2, 40, 20, 16));
  x[7].zero_();
  const auto absent = selective_scan(x[0], x[1], x[2], x[3], x[4], x[5], x[6], std::nullopt);
  EXPECT_TRUE(absent.output.equal(scan(x)[0]));
  EXPECT_TRUE(absent.final_state.equal(scan(x)[1]));
}

TEST(SelectiveScan, ChunksThroughTheStateGiveTheBitsOfTheWhole) {
  const auto x = floats(scan_inputs(6, 2, 150, 67, 16));
  Tensor state = x[7];
  std::vector<Tensor> outputs;
  int64_t first = 0;
  for (const int64_t count : {1, 0, 31, 64, 3, 51}) {
    const auto part = [&](int index) { return x[index].narrow(1, first, count); };
    const auto chunk = selective_scan(part(0), part(1), x[2], part(3), part(4), x[5], part(6), state);
    outputs.push_back(chunk.output);
    state = chunk.final_state;
    first += count;
  }
  ASSERT_EQ(first, 150);
  EXPECT_TRUE(at::cat(outputs, 1).equal(scan(x)[0]));
  EXPECT_TRUE(state.equal(scan(x)[1]));
}

// In the model the gate is a view into a wider product, which is read in place.
TEST(SelectiveScan, WideGateGivesTheSame) {
  auto x = floats(scan_inputs(7, 3, 20, 24, 16));
  const auto with_gate = [&](const Tensor& z) {
    x[6] = z;
    return scan(x)[0];
  };
  const Tensor view = at::randn({3, 20, 48}).narrow(2, 24, 24), turned = at::randn({20, 3, 24}).transpose(0, 1);
  EXPECT_TRUE(with_gate(view).equal(with_gate(view.contiguous())));
  EXPECT_TRUE(with_gate(turned).equal(with_gate(turned.contiguous())));
}

// exp(delta A) far below the smallest float: forgets at once, without NaN.
TEST(SelectiveScan, HugeStepsForget) {
  auto x = scan_inputs(8, 1, 3, 8, 16);
  x[1].fill_(1e4);
  expect_op_agrees(scan, x);
}

TEST(SelectiveScan, SameBitsOnAnyNumberOfThreads) {
  expect_same_bits_on_any_threads(scan, scan_inputs(9, 3, 130, 200, 16));
}

TEST(SelectiveScan, RefusesShapesThatDoNotFit) {
  const auto x = floats(scan_inputs(10, 2, 4, 8, 16));
  const auto with = [&](int index, const Tensor& changed) {
    auto inputs = x;
    inputs[index] = changed;
    return scan(inputs);
  };
  EXPECT_THROW(with(3, x[3].narrow(2, 0, 15)), c10::Error);
  EXPECT_THROW(with(1, x[1].narrow(1, 0, 3)), c10::Error);
  EXPECT_THROW(with(5, x[5].narrow(0, 0, 7)), c10::Error);
  EXPECT_THROW(with(7, x[7].narrow(0, 0, 1)), c10::Error);
}

}  // namespace
}  // namespace pmnet::ops
