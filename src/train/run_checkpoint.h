// Checkpoints of a run: OUT/ckpt/step-00001000/ is a model folder under the published names, plus
//   optimizer.safetensors   AdamW's moments
//   carry.safetensors       memory carried to the next step, if any
//   trainer.json            step, counters, settings, and the checksum of every file and of itself
// A folder appears complete or not at all; a damaged one is recognised before anything of it is used.
#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/model_folder.h"
#include "train/optimizer.h"
#include "train/trainer.h"

namespace pmnet {

// What a run remembers besides tensors and TrainerProgress.
struct RunRecord {
  std::string settings;  // TOML, see config/train_options.h
  std::string data_fingerprint;
  int64_t world = 1, threads = 1;
  std::optional<double> validation_bpb;  // the latest
  std::optional<double> best_bpb;        // of the checkpoints saved so far, this one included
  int64_t best_step = -1;
  bool evaluation_pending = false;  // the evaluation of this step was interrupted
  nlohmann::json extra;             // LoopHooks::extra_state(); null: nothing
};

struct RunCheckpoint {
  std::filesystem::path folder;
  int64_t step = 0;
  TrainerProgress progress;
  RunRecord record;
};

std::filesystem::path checkpoint_folder(const std::filesystem::path& checkpoints, int64_t step);

void save_run_checkpoint(const std::filesystem::path& folder, LanguageModel& model, const ModelConfig& config,
                         AdamW& optimizer, const std::optional<ModelState>& carried, const TrainerProgress& progress,
                         const RunRecord& record);

// Checks every byte; a UserError names what is damaged.
RunCheckpoint open_run_checkpoint(const std::filesystem::path& folder);

// Steps of the checkpoint folders by name, newest first; their contents are not looked at.
std::vector<int64_t> checkpoint_steps(const std::filesystem::path& checkpoints);

// The newest complete one. `warn` receives what is wrong with each newer one, and how many steps are lost. Empty when
// there are none; UserError when all are damaged.
std::optional<RunCheckpoint> newest_checkpoint(const std::filesystem::path& checkpoints,
                                               const std::function<void(const std::string&)>& warn);

void load_optimizer(const std::filesystem::path& folder, AdamW& optimizer);
std::optional<ModelState> load_carried(const std::filesystem::path& folder, const LanguageModel& model);

// Removes all but the newest `keep` and the steps in `protect`.
void prune_checkpoints(const std::filesystem::path& checkpoints, int64_t keep, const std::vector<int64_t>& protect);
// Moves checkpoints newer than `step` aside, as .damaged-step-N: newest_checkpoint() refused them, and the steps that
// are trained again must not compete with them for being the newest.
void set_aside_newer(const std::filesystem::path& checkpoints, int64_t step);
// Removes what crashes have left.
void clean_checkpoints(const std::filesystem::path& checkpoints);

}  // namespace pmnet
