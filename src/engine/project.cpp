#include "engine/project.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/parallel_steal.h"

namespace pmnet {

using kernels::WeightType;

namespace {

// Widened weights and ATen, for many rows.
void gemm(const Product& p) {
  const Projection& projection = *p.projection;
  const auto matrix = [](const float* data, int64_t rows, int64_t columns, int64_t stride) {
    return at::from_blob(const_cast<float*>(data), {rows, columns}, {stride, 1}, at::kFloat);
  };
  const Tensor x = matrix(p.x, p.rows, projection.num_inputs(), p.x_stride);
  const Tensor w = unpack_weight(projection.weight, p.first_output, p.outputs);
  Tensor y = matrix(p.y, p.rows, p.outputs, p.y_stride);
  if (p.add_bias && projection.bias.defined())
    at::addmm_out(y, projection.bias.narrow(0, p.first_output, p.outputs), x, w.t());
  else
    at::mm_out(y, x, w.t());
}

bool share_operands(const Product& a, const Product& b) {
  return a.x == b.x && a.x_stride == b.x_stride && a.rows == b.rows &&
         a.projection->num_inputs() == b.projection->num_inputs() &&
         a.projection->weight.type == b.projection->weight.type;
}

}  // namespace

Product product(const Projection& projection, int64_t rows, const float* x, float* y) {
  const int64_t outputs = projection.num_outputs();
  return {&projection, 0, outputs, /*add_bias=*/true, rows, x, projection.num_inputs(), y, outputs};
}

Product product_without_bias(const Projection& projection, int64_t rows, const float* x, float* y) {
  Product p = product(projection, rows, x, y);
  p.add_bias = false;
  return p;
}

void GemvBatch::add(const Workers& workers, const Product& p, size_t index) {
  if (tasks_.size() <= index) tasks_.resize(index + 1);
  Task& task = tasks_[index];
  task.product = &p;
  task.weight = p.projection->weight.rows_from(p.first_output);
  task.owner = index;
  if (index > 0 && share_operands(p, *tasks_[index - 1].product)) {
    task.owner = tasks_[index - 1].owner;
  } else {
    kernels::bind_operands(task.weight, p.rows, p.x, p.x_stride, task.operands);
    constexpr int64_t kTogether = 4;  // quantizing one vector takes less time than waking another thread
    if (task.weight.type != WeightType::kF32)
      parallel_steal(workers, (p.rows + kTogether - 1) / kTogether, [&](int64_t piece) {
        const int64_t end = std::min((piece + 1) * kTogether, p.rows);
        for (int64_t v = piece * kTogether; v < end; ++v) kernels::quantize_operand(task.weight, v, task.operands);
      });
  }
  task.partition = kernels::partition_rows(task.weight, p.outputs, p.rows, workers.count());
  task.first_range = index > 0 ? tasks_[index - 1].first_range + tasks_[index - 1].partition.size() : 0;
}

void GemvBatch::run(const Workers& workers, const Product* products, size_t count) {
  size_t few = 0;
  for (const Product* p = products; p < products + count; ++p) {
    if (p->rows <= kMaxGemvRows && p->projection->num_inputs() > 0)
      add(workers, *p, few++);
    else
      gemm(*p);
  }
  if (few == 0) return;
  const Task& last = tasks_[few - 1];
  parallel_steal(workers, last.first_range + last.partition.size(), [&](int64_t range) {
    size_t i = few - 1;
    while (range < tasks_[i].first_range) --i;
    const Task& task = tasks_[i];
    const Product& p = *task.product;
    kernels::gemv(task.weight, task.partition.range(range - task.first_range),
                  p.add_bias ? p.projection->bias_from(p.first_output) : nullptr, tasks_[task.owner].operands, p.y,
                  p.y_stride);
  });
}

}  // namespace pmnet
