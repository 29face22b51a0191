// pmnet inside another program: streams a text through a model and says how well each byte was foreseen.
//
//   embed [MODEL_FOLDER] < text      without a folder: a tiny model with random weights
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <pmnet/base/amx_guard.h>
#include <pmnet/base/error.h>
#include <pmnet/base/version.h>
#include <pmnet/model/model_folder.h>
#include <pmnet/engine/session.h>

#include <cmath>
#include <iostream>
#include <string>

namespace {

void stream(const std::string& preset_or_folder) {
  pmnet::LoadedModel loaded = pmnet::load_or_make_model(preset_or_folder, /*seed=*/1);
  const std::string hash = pmnet::model_hash(*loaded.model);
  pmnet::Session session(std::move(loaded.model), hash);
  session.feed({session.model().bos_token_id()});

  double bits = 0;
  int64_t bytes = 0;
  std::string chunk(4096, '\0');
  while (std::cin.read(chunk.data(), chunk.size()), std::cin.gcount() > 0) {
    const std::vector<int64_t> ids(reinterpret_cast<unsigned char*>(chunk.data()),
                                   reinterpret_cast<unsigned char*>(chunk.data()) + std::cin.gcount());
    // The logits before each byte: those that the last chunk ended with, then all of this one but its last.
    const at::Tensor before = session.last_logits().unsqueeze(1);
    const at::Tensor after = session.feed(ids);
    const at::Tensor foreseen = at::cat({before, after}, 1)[0].narrow(0, 0, ids.size()).log_softmax(-1);
    bits -= foreseen.gather(1, at::tensor(ids, at::kLong).unsqueeze(1)).sum().item<double>() / std::log(2.0);
    bytes += static_cast<int64_t>(ids.size());
  }
  if (bytes > 0)
    fmt::print("{} bytes, {:.3f} bits per byte, memory {} bytes\n", bytes, bits / bytes, session.state().bytes());

  const auto [likelihood, likeliest] = session.last_logits()[0].narrow(0, 0, 254).softmax(-1).topk(5);
  for (int64_t i = 0; i < 5; ++i)
    fmt::print("next byte {:3d} with probability {:.3f}\n", likeliest[i].item<int64_t>(), likelihood[i].item<double>());
}

}  // namespace

int main(int argc, char** argv) {
  pmnet::guard_against_broken_amx();  // first of all: see amx_guard.h
  fmt::print("pmnet {}\n", pmnet::version());
  try {
    stream(argc > 1 ? argv[1] : "tiny");
  } catch (const pmnet::UserError& mistake) {
    fmt::print(stderr, "embed: {}\n", mistake.what());
    return 2;
  }
}
