#include "kernels/selective_scan.h"

#include "ops/channel_slabs.h"
#include "ops/reference.h"

namespace pmnet::ops {
namespace {

kernels::ScanInputs inputs_of_row(int64_t row, const Tensor& u, const Tensor& delta, const Tensor& a, const Tensor& b,
                                  const Tensor& c, const Tensor& d, const Tensor& z) {
  const int64_t T = u.size(1), E = u.size(2), S = a.size(1);
  return {.u = u.const_data_ptr<float>() + row * T * E,
          .delta = delta.const_data_ptr<float>() + row * T * E,
          .a = a.const_data_ptr<float>(),
          .b = b.const_data_ptr<float>() + row * T * S,
          .c = c.const_data_ptr<float>() + row * T * S,
          .d = d.const_data_ptr<float>(),
          .z = z.const_data_ptr<float>() + row * row_stride(z)};
}

struct SelectiveScanFunction : torch::autograd::Function<SelectiveScanFunction> {
  static variable_list forward(AutogradContext* ctx, const Tensor& u_in, const Tensor& delta_in, const Tensor& a_in,
                               const Tensor& b_in, const Tensor& c_in, const Tensor& d_in, const Tensor& z_in,
                               const OptTensor& initial, bool keep_states) {
    const Tensor u = u_in.contiguous(), delta = delta_in.contiguous(), a = a_in.contiguous(), b = b_in.contiguous(),
                 c = c_in.contiguous(), d = d_in.contiguous(), z = evenly_spaced(z_in);
    const int64_t B = u.size(0), T = u.size(1), E = u.size(2), S = a.size(1), blocks = kernels::num_scan_blocks(T);
    Tensor y = at::empty_like(u), kept = at::empty({keep_states ? B : 0, blocks, S, E}, u.options());
    Tensor state = initial ? initial->clone(at::MemoryFormat::Contiguous) : at::zeros({B, E, S}, u.options());
    for_each_slab(B, E, T * S * kSlabChannels, [&](int64_t row, int64_t, int64_t begin, int64_t end) {
      kernels::selective_scan({T, E, S, z.stride(1), begin, end}, inputs_of_row(row, u, delta, a, b, c, d, z),
                              state.mutable_data_ptr<float>() + row * E * S,
                              keep_states ? kept.mutable_data_ptr<float>() + row * blocks * S * E : nullptr,
                              y.mutable_data_ptr<float>() + row * T * E);
    });
    ctx->saved_data["has_initial"] = initial.has_value();
    if (keep_states) ctx->save_for_backward({u, delta, a, b, c, d, z, kept});
    return {y, state};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &u = saved[0], &delta = saved[1], &a = saved[2], &b = saved[3], &c = saved[4], &d = saved[5],
                 &z = saved[6], &kept = saved[7];
    const int64_t B = u.size(0), T = u.size(1), E = u.size(2), S = a.size(1), blocks = kernels::num_scan_blocks(T);
    const Tensor grad_y = grads[0].contiguous();
    Tensor grad_state = grads[1].clone(at::MemoryFormat::Contiguous);
    Tensor grad_u = at::empty_like(u), grad_delta = at::empty_like(u), grad_z = at::empty_like(u);
    // Sums over rows (a, d) and over slabs (b, c) are kept apart here and added in a fixed order.
    Tensor grad_a = at::empty({B, E, S}, u.options()), grad_d = at::empty({B, E}, u.options());
    Tensor grad_b = at::empty({num_slabs(E), B, T, S}, u.options()), grad_c = at::empty_like(grad_b);
    for_each_slab(B, E, T * S * kSlabChannels, [&](int64_t row, int64_t slab, int64_t begin, int64_t end) {
      const int64_t steps = row * T * E, shared = (slab * B + row) * T * S;
      kernels::selective_scan_backward({T, E, S, z.stride(1), begin, end}, inputs_of_row(row, u, delta, a, b, c, d, z),
                                       kept.const_data_ptr<float>() + row * blocks * S * E,
                                       grad_y.const_data_ptr<float>() + steps,
                                       grad_state.mutable_data_ptr<float>() + row * E * S,
                                       {.u = grad_u.mutable_data_ptr<float>() + steps,
                                        .delta = grad_delta.mutable_data_ptr<float>() + steps,
                                        .a = grad_a.mutable_data_ptr<float>() + row * E * S,
                                        .b = grad_b.mutable_data_ptr<float>() + shared,
                                        .c = grad_c.mutable_data_ptr<float>() + shared,
                                        .d = grad_d.mutable_data_ptr<float>() + row * E,
                                        .z = grad_z.mutable_data_ptr<float>() + steps});
    });
    if (!ctx->saved_data["has_initial"].toBool()) grad_state.reset();
    return {grad_u, grad_delta, grad_a.sum(0), grad_b.sum(0), grad_c.sum(0), grad_d.sum(0), grad_z, grad_state, {}};
  }
};

std::tuple<Tensor, Tensor> selective_scan_cpu(const Tensor& u, const Tensor& delta, const Tensor& a, const Tensor& b,
                                              const Tensor& c, const Tensor& d, const Tensor& z,
                                              const OptTensor& initial) {
  if (!fast_path(u)) return reference::selective_scan(u, delta, a, b, c, d, z, initial);
  const bool keep_states = torch::autograd::compute_requires_grad(u, delta, a, b, c, d, z, initial);
  const auto out = SelectiveScanFunction::apply(u, delta, a, b, c, d, z, initial, keep_states);
  return {out[0], out[1]};
}

}  // namespace

SelectiveScanResult selective_scan(const Tensor& u, const Tensor& delta, const Tensor& a, const Tensor& b,
                                   const Tensor& c, const Tensor& d, const Tensor& z, const OptTensor& initial) {
  TORCH_CHECK(u.dim() == 3 && u.sizes() == delta.sizes() && u.sizes() == z.sizes() && a.dim() == 2 &&
                  a.size(0) == u.size(2) && d.dim() == 1 && d.size(0) == u.size(2),
              "selective_scan: u ", u.sizes(), ", delta ", delta.sizes(), ", z ", z.sizes(), ", a ", a.sizes(), ", d ",
              d.sizes(), " do not fit; expected [B,T,E] three times, [E,S] and [E]");
  const std::vector<int64_t> shared{u.size(0), u.size(1), a.size(1)}, state{u.size(0), u.size(2), a.size(1)};
  TORCH_CHECK(b.sizes() == shared && c.sizes() == shared && (!initial || initial->sizes() == state),
              "selective_scan: b ", b.sizes(), ", c ", c.sizes(), ", initial ",
              initial ? initial->sizes() : at::IntArrayRef(), " do not fit; expected ", shared, " twice and ", state);
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("pmnet::selective_scan", "")
                             .typed<decltype(reference::selective_scan)>();
  const auto [output, final_state] = op.call(u, delta, a, b, c, d, z, initial);
  return {output, final_state};
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def(
      "selective_scan(Tensor u, Tensor delta, Tensor a, Tensor b, Tensor c, Tensor d, Tensor z, Tensor? initial) "
      "-> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(pmnet, CompositeImplicitAutograd, m) { m.impl("selective_scan", reference::selective_scan); }
TORCH_LIBRARY_IMPL(pmnet, CPU, m) { m.impl("selective_scan", selective_scan_cpu); }
TORCH_LIBRARY_IMPL(pmnet, AutogradCPU, m) { m.impl("selective_scan", selective_scan_cpu); }

}  // namespace pmnet::ops
