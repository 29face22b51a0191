#pragma once
#include <string_view>

namespace pmnet {

// Python pickles, PyTorch's .pt files among them, can run any code when loaded, so nothing here ever reads one. These
// recognise them, to say so instead of calling them damaged.

// By its first bytes (a hundred are enough): a framed pickle, or the zip archive that torch.save writes.
bool looks_like_pickle(std::string_view head);
// By its name: .pt, .pth, .pkl, .pickle, .ckpt in any case.
bool has_pickle_name(std::string_view name);

}  // namespace pmnet
