// NumPy's .npz: an uncompressed zip archive of .npy files, which numpy.load opens.
#pragma once
#include <filesystem>
#include <span>

#include "io/safetensors.h"

namespace pmnet {

// Atomic: an older file is replaced once the new one is complete. Types that NumPy does not have are a mistake of the
// caller; arrays beyond the 4 GB of a plain zip archive are a UserError.
void write_npz(const std::filesystem::path& file, std::span<const TensorView> arrays);

}  // namespace pmnet
