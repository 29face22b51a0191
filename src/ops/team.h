// Threads that stand by for work. Decoding a byte shares out some 90 stretches of work, many of 20 microseconds; to
// open and close a parallel region for each costs 3 of them, to call a thread that waits already and to wait for it 1.
#pragma once
#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace pmnet::ops {

// body() on this thread. Meanwhile all threads of the library stand by for run_on_threads.
void with_team(c10::function_ref<void()> body);

// work(i) for i in [0, count), each on a thread of its own as far as there are threads: of this thread's team if it has
// one, else of a new parallel region.
void run_on_threads(int64_t count, c10::function_ref<void(int64_t)> work);

}  // namespace pmnet::ops
