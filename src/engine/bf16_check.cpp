#include "engine/bf16_check.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace pmnet {

namespace {

constexpr int64_t kSize = 128;             // large enough that oneDNN takes its matrix kernels
constexpr unsigned kSecondsToFinish = 30;  // a product takes milliseconds; a child that hangs counts as failed

bool bf16_product_is_right() {
  const at::Tensor a = at::linspace(-1, 1, kSize * kSize).reshape({kSize, kSize}).to(at::kBFloat16);
  const at::Tensor b = at::linspace(1, -0.5, kSize * kSize).reshape({kSize, kSize}).to(at::kBFloat16);
  const at::Tensor exact = at::matmul(a.to(at::kDouble), b.to(at::kDouble));
  const at::Tensor got = at::matmul(a, b).to(at::kDouble);
  const double largest = exact.abs().max().item<double>();
  return (got - exact).abs().max().item<double>() <= 0.01 * largest;  // bf16 keeps 8 bits
}

[[noreturn]] void run_child(Bf16Support support) {
  std::signal(SIGILL, SIG_DFL);
  const rlimit no_core_file{0, 0};
  setrlimit(RLIMIT_CORE, &no_core_file);
  alarm(kSecondsToFinish);
  try {
    at::set_num_threads(1);  // the parent's threads do not exist here
    const at::NoGradGuard no_grad;
    apply_bf16_support(support);
    _exit(bf16_product_is_right() ? 0 : 1);
  } catch (...) {
    _exit(1);
  }
}

bool works(Bf16Support support) {
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) run_child(support);
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

Bf16Support check_bf16() {
  for (const Bf16Support support : {Bf16Support::kAsIs, Bf16Support::kCapped, Bf16Support::kWithoutOneDnn})
    if (works(support)) return support;
  return Bf16Support::kNone;
}

void apply_bf16_support(Bf16Support support) {
  if (support == Bf16Support::kCapped) setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", /*overwrite=*/1);
  if (support == Bf16Support::kWithoutOneDnn) at::globalContext().setUserEnabledMkldnn(false);
}

std::string describe(Bf16Support support) {
  switch (support) {
    case Bf16Support::kAsIs:
      return "usable";
    case Bf16Support::kCapped:
      return "usable with ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16";
    case Bf16Support::kWithoutOneDnn:
      return "usable only without oneDNN";
    case Bf16Support::kNone:
      return "not usable";
  }
  return "";
}

}  // namespace pmnet
