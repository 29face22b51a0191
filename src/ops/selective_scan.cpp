#include "kernels/selective_scan.h"

#include "ops/channel_slabs.h"

namespace pmnet::ops {
namespace {

std::tuple<Tensor, Tensor> reference(const Tensor& u, const Tensor& delta, const Tensor& a, const Tensor& b,
                                     const Tensor& c, const Tensor& d, const Tensor& z, const OptTensor& initial) {
  const int64_t B = u.size(0), T = u.size(1);
  Tensor h = initial ? *initial : at::zeros({B, a.size(0), a.size(1)}, u.options());
  std::vector<Tensor> outputs;
  for (int64_t t = 0; t < T; ++t) {
    const Tensor dt = delta.select(1, t).unsqueeze(-1);                                        // [B,E,1]
    h = (dt * a).exp() * h + dt * b.select(1, t).unsqueeze(1) * u.select(1, t).unsqueeze(-1);  // [B,E,S]
    outputs.push_back((h * c.select(1, t).unsqueeze(1)).sum(-1) + d * u.select(1, t));         // [B,E]
  }
  const Tensor y = outputs.empty() ? at::zeros_like(u) : at::stack(outputs, 1);
  return {y * at::silu(z), h};
}

kernels::ScanInputs inputs_of_row(int64_t row, const Tensor& u, const Tensor& delta, const Tensor& a, const Tensor& b,
                                  const Tensor& c, const Tensor& d, const Tensor& z) {
  const int64_t T = u.size(1), E = u.size(2), S = a.size(1);
  return {.u = data_at(u, row * T * E),
          .delta = data_at(delta, row * T * E),
          .a = data_at(a),
          .b = data_at(b, row * T * S),
          .c = data_at(c, row * T * S),
          .d = data_at(d),
          .z = data_at(z, row * row_stride(z))};
}

struct SelectiveScan : KernelFunction<SelectiveScan> {
  static constexpr const char* kName = "selective_scan";

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
                              mutable_data_at(state, row * E * S),
                              keep_states ? mutable_data_at(kept, row * blocks * S * E) : nullptr,
                              mutable_data_at(y, row * T * E));
    });
    ctx->saved_data["has_initial"] = initial.has_value();
    if (keep_states) ctx->save_for_backward({u, delta, a, b, c, d, z, kept});
    return {y, state};
  }

  static variable_list gradients(AutogradContext* ctx, const variable_list& saved, variable_list grads) {
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
                                       data_at(kept, row * blocks * S * E), data_at(grad_y, steps),
                                       mutable_data_at(grad_state, row * E * S),
                                       {.u = mutable_data_at(grad_u, steps),
                                        .delta = mutable_data_at(grad_delta, steps),
                                        .a = mutable_data_at(grad_a, row * E * S),
                                        .b = mutable_data_at(grad_b, shared),
                                        .c = mutable_data_at(grad_c, shared),
                                        .d = mutable_data_at(grad_d, row * E),
                                        .z = mutable_data_at(grad_z, steps)});
    });
    if (!ctx->saved_data["has_initial"].toBool()) grad_state.reset();
    return {grad_u, grad_delta, grad_a.sum(0), grad_b.sum(0), grad_c.sum(0), grad_d.sum(0), grad_z, grad_state, {}};
  }
};

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
  if (!use_kernels(u, delta, a, b, c, d, z, initial)) {
    const auto [output, final_state] = reference(u, delta, a, b, c, d, z, initial);
    return {output, final_state};
  }
  const auto out =
      SelectiveScan::apply(u, delta, a, b, c, d, z, initial, needs_gradient(u, delta, a, b, c, d, z, initial));
  return {out[0], out[1]};
}

TORCH_LIBRARY_FRAGMENT(pmnet, m) {
  m.def(
      "selective_scan(Tensor u, Tensor delta, Tensor a, Tensor b, Tensor c, Tensor d, Tensor z, Tensor? initial) "
      "-> (Tensor, Tensor)",
      [](const Tensor& u, const Tensor& delta, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d,
         const Tensor& z, const OptTensor& initial) {
        const SelectiveScanResult out = selective_scan(u, delta, a, b, c, d, z, initial);
        return std::tuple(out.output, out.final_state);
      });
}

}  // namespace pmnet::ops
