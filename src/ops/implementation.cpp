#include "ops/ops.h"

namespace pmnet::ops {

namespace {
thread_local Implementation implementation_of_thread = Implementation::kFast;
}

Implementation current_implementation() { return implementation_of_thread; }

ImplementationGuard::ImplementationGuard(Implementation implementation) : previous_(implementation_of_thread) {
  implementation_of_thread = implementation;
}
ImplementationGuard::~ImplementationGuard() { implementation_of_thread = previous_; }

}  // namespace pmnet::ops
