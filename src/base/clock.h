#pragma once

namespace pmnet {

// Seconds of a clock that never jumps; only differences mean something.
double steady_seconds();

}  // namespace pmnet
