#include "bench/rivals.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/standard_streams.h"
#include "base/subprocess.h"
#include "config/config_json.h"

namespace pmnet {

namespace {

constexpr const char* kRequirements[] = {"torch==2.13.0", "transformers==4.57.6"};

std::filesystem::path home() {
  const char* folder = std::getenv("PMNET_HOME");
  if (folder == nullptr) fail("PMNET_HOME is not set; run --peers from the source folder as ./pmnet bench --peers");
  return folder;
}

void make_environment(const std::filesystem::path& venv) {
  if (std::filesystem::exists(venv / "ready")) return;
  print_error("setting up {} with {}", venv.string(), fmt::join(kRequirements, " "));
  std::vector<std::string> install{venv / "bin/pip", "install", "-q"};
  install.insert(install.end(), std::begin(kRequirements), std::end(kRequirements));
  const ChildOptions to_stderr{.out = ChildStream::kJoin};
  if (!run_child({"python3", "-m", "venv", venv}, to_stderr).succeeded() || !run_child(install, to_stderr).succeeded())
    fail("{}: cannot set it up with {}; see the messages above", venv.string(), fmt::join(kRequirements, " "));
  write_file_atomically(venv / "ready", "");
}

}  // namespace

BenchCandidate parse_rival(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    fail("--against '{}' has no label; write it as 'label=command'", text);
  return {text.substr(0, equals), {"sh", "-c", text.substr(equals + 1)}, std::nullopt};
}

std::vector<BenchCandidate> hugging_face_rivals(const BenchPlan& plan) {
  const std::filesystem::path venv = home() / ".cache" / "peers", script = home() / "bench" / "peers.py";
  make_environment(venv);
  std::vector<BenchCandidate> rivals;
  for (const Architecture architecture : {Architecture::kTransformer, Architecture::kMamba}) {
    const std::string arch = enum_name(architecture);
    BenchCase c = plan.base;
    c.arch = architecture;
    const std::filesystem::path config = venv / fmt::format("{}-{}.json", arch, c.preset);
    write_file_atomically(config, to_json(config_of(c)));  // the configuration of our baseline
    for (const int64_t context : plan.contexts)
      rivals.push_back({fmt::format("Hugging Face {}, train, {} bytes", arch, context),
                        {venv / "bin/python", script, "--config", config, "--context", std::to_string(context),
                         "--batch", std::to_string(plan.batches.front()), "--threads", std::to_string(plan.threads),
                         "--seconds", std::to_string(c.seconds), "--iterations", std::to_string(c.iterations)},
                        std::nullopt});
  }
  return rivals;
}

}  // namespace pmnet
