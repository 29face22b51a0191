// The module pmnet._core: the library's models, sessions, evaluation and training for Python.
#include <c10/util/Exception.h>
#include <nanobind/stl/string.h>

#include <filesystem>

#include "base/amx_guard.h"
#include "base/error.h"
#include "base/version.h"
#include "bindings.h"
#include "ops/tensor_memory.h"

namespace pmnet::python {
namespace {

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const UserError& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const c10::IndexError& error) {
    PyErr_SetString(PyExc_IndexError, error.what_without_backtrace());
  } catch (const c10::TypeError& error) {
    PyErr_SetString(PyExc_TypeError, error.what_without_backtrace());
  } catch (const c10::Error& error) {  // arguments that do not fit
    PyErr_SetString(PyExc_ValueError, error.what_without_backtrace());
  } catch (const std::filesystem::filesystem_error& error) {
    PyErr_SetString(PyExc_OSError, error.what());
  }
}

}  // namespace
}  // namespace pmnet::python

NB_MODULE(_core, m) {
  using namespace pmnet::python;
  m.doc() = "The compiled part of pmnet.";
  nb::set_leak_warnings(false);  // models and sessions may live until the interpreter ends
  nb::register_exception_translator(translate);
  const std::string cap = pmnet::guard_against_broken_amx();  // before the first product of oneDNN
  m.attr("amx_guard") = cap.c_str();
  m.attr("torch_version") = PMNET_TORCH_VERSION;
  m.def("version", &pmnet::version, "Version of the library.");
  m.def("reuse_tensor_memory", &pmnet::ops::reuse_tensor_memory);
  bind_model(m);
  bind_session(m);
  bind_jobs(m);
}
