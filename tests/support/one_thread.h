#pragma once
#include <ATen/Parallel.h>

namespace pmnet {

// For loops over tiny passes, where threads would only wait for each other.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace pmnet
