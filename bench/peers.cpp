#include "bench/peers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/subprocess.h"
#include "config/config_json.h"

namespace pmnet {

namespace {

constexpr const char* kRequirements[] = {"torch==2.13.0", "transformers==4.57.6"};

std::filesystem::path home() {
  const char* folder = std::getenv("PMNET_HOME");
  if (folder == nullptr) fail("--peers needs the source folder; start it there as ./pmnet bench --peers");
  return folder;
}

void make_environment(const std::filesystem::path& venv) {
  if (std::filesystem::exists(venv / "ready")) return;
  fmt::print(stderr, "setting up {} with {}\n", venv.string(), fmt::join(kRequirements, " "));
  std::vector<std::string> install{venv / "bin/pip", "install", "-q"};
  install.insert(install.end(), std::begin(kRequirements), std::end(kRequirements));
  const ChildOptions to_stderr{.out = ChildStream::kJoin};
  if (!run_child({"python3", "-m", "venv", venv}, to_stderr).succeeded() || !run_child(install, to_stderr).succeeded())
    fail("{}: cannot set it up with {}; see the messages above", venv.string(), fmt::join(kRequirements, " "));
  write_file_atomically(venv / "ready", "");
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
                       {venv / "bin/python", script, "--config", config, "--context", std::to_string(context),
                        "--batch", std::to_string(c.batch), "--threads", std::to_string(threads), "--seconds",
                        std::to_string(c.seconds), "--iterations", std::to_string(c.iterations)}});
  }
  return peers;
}

}  // namespace pmnet
