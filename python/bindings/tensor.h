// Tensors cross between Python and C++ as references to the same memory, through torch's own conversion.
#pragma once
#include <nanobind/nanobind.h>
#include <torch/csrc/autograd/python_variable.h>

namespace nanobind::detail {

template <>
struct type_caster<at::Tensor> {
  NB_TYPE_CASTER(at::Tensor, const_name("torch.Tensor"))

  bool from_python(handle source, uint8_t /*flags*/, cleanup_list* /*cleanup*/) noexcept {
    if (!THPVariable_Check(source.ptr())) return false;
    value = THPVariable_Unpack(source.ptr());
    return true;
  }
  static handle from_cpp(const at::Tensor& tensor, rv_policy /*policy*/, cleanup_list* /*cleanup*/) noexcept {
    return THPVariable_Wrap(tensor);
  }
};

}  // namespace nanobind::detail

namespace pmnet::python {

namespace nb = nanobind;

// Runs work that does not touch Python while other threads of Python run.
template <typename Work>
auto without_gil(const Work& work) {
  const nb::gil_scoped_release release;
  return work();
}

}  // namespace pmnet::python
