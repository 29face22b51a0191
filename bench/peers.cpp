#include "bench/peers.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "config/config_json.h"

namespace pmnet {

namespace {

constexpr const char* kRequirements = "torch==2.13.0 transformers==4.57.6";

std::filesystem::path home() {
  const char* folder = std::getenv("PMNET_HOME");
  if (folder == nullptr) fail("--peers needs the source folder; start it there as ./pmnet bench --peers");
  return folder;
}

void make_environment(const std::filesystem::path& venv) {
  if (std::filesystem::exists(venv / "ready")) return;
  fmt::print(stderr, "setting up {} with {}\n", venv.string(), kRequirements);
  const std::string command =
      fmt::format("python3 -m venv '{0}' >&2 && '{0}/bin/pip' install -q {1} >&2 && touch '{0}/ready'", venv.string(),
                  kRequirements);
  if (std::system(command.c_str()) != 0)
    fail("could not set up {} with {}; see the messages above", venv.string(), kRequirements);
}

}  // namespace

std::vector<Contestant> peer_contestants(const BenchCase& base, const std::vector<int64_t>& contexts, int threads) {
  const std::filesystem::path venv = home() / ".cache" / "peers", script = home() / "bench" / "peers.py";
  make_environment(venv);
  std::vector<Contestant> peers;
  for (const char* arch : {"transformer", "mamba"}) {
    BenchCase c = base;
    c.arch = arch;
    // The very configuration our own baseline runs with.
    const std::filesystem::path config = venv / fmt::format("{}-{}.json", arch, c.preset);
    write_file_atomically(config, to_json(config_of(c)));
    for (const int64_t context : contexts)
      peers.push_back({fmt::format("Hugging Face {}, train, {} bytes", arch, context),
                       fmt::format("'{}/bin/python' '{}' --config '{}' --context {} --batch {} --threads {} "
                                   "--seconds {} --iterations {}",
                                   venv.string(), script.string(), config.string(), context, c.batch, threads,
                                   c.seconds, c.iterations)});
  }
  return peers;
}

}  // namespace pmnet
