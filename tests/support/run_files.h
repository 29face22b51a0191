// A small text, a model of the size of the fixtures, and settings for both.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "base/hash.h"
#include "config/train_config.h"
#include "data/permutation.h"
#include "support/files.h"
#include "support/temporary_folder.h"

namespace pmnet {

// Lines of words that repeat, so that a model learns something in a few steps.
inline std::string some_text(size_t lines) {
  constexpr const char* kWords[] = {"the", "river", "runs", "under", "a", "bridge", "and", "nobody", "knows", "why"};
  std::string text;
  for (size_t line = 0; line < lines; ++line) {
    for (uint64_t word = 0; word < 4 + line % 7; ++word) text += kWords[splitmix64(line, word) % 10] + std::string(" ");
    text += line % 9 == 8 ? "\n\n" : "\n";
  }
  return text;
}

struct RunFiles {
  TemporaryFolder folder;
  TrainConfig config;

  explicit RunFiles(const std::string& fixture = "base") {
    std::ofstream(folder / "text.txt") << some_text(600);
    config.init = (std::filesystem::path(PMNET_FIXTURES) / fixture).string();
    config.dropout = fixture == "mamba" ? -1 : 0.1;
    config.inputs = {(folder / "text.txt").string()};
    config.read.split_on = "\n\n";
    config.cache = (folder / "cache").string();
    config.batch = 4;
    config.context = 48;
    config.steps = 20;
    config.warmup = 3;
    config.log_every = 1;
    config.log_limit = false;
    config.eval_every = config.sample_every = config.checkpoint_every = 0;
    config.checkpoint_minutes = 0;
    config.eval_bytes = 400;
    config.sample_bytes = 8;
    config.threads = 1;
  }
};

}  // namespace pmnet
