#include "ops/ops.h"

namespace pmnet::ops {

namespace {
thread_local Path path_of_thread = Path::kFast;
}

Path current_path() { return path_of_thread; }

PathGuard::PathGuard(Path path) : previous_(path_of_thread) { path_of_thread = path; }
PathGuard::~PathGuard() { path_of_thread = previous_; }

}  // namespace pmnet::ops
