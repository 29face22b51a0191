#include "train/run_checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/version.h"
#include "model/tensors.h"

namespace pmnet {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kFormat = 1;
constexpr const char* kPrefix = "step-";
constexpr const char* kTrash = ".removed-";
constexpr const char* kDamaged = ".damaged-";

void write_tensors(const fs::path& file, const NamedTensors& tensors) {
  std::vector<Tensor> keep;
  write_safetensors(file, tensor_views(tensors, keep));
}

template <typename T>
json optional_json(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json to_json(const TrainerProgress& progress, const RunRecord& record) {
  json object = {{"format", kFormat},
                 {"pmnet", version()},
                 {"step", progress.step},
                 {"bytes", progress.bytes},
                 {"skipped", progress.skipped},
                 {"not_finite_in_a_row", progress.not_finite_in_a_row},
                 {"recent_losses", progress.spikes.losses},
                 {"recent_norms", progress.spikes.norms},
                 {"settings", record.settings},
                 {"data_fingerprint", record.data_fingerprint},
                 {"world", record.world},
                 {"threads", record.threads},
                 {"validation_bpb", optional_json(record.validation_bpb)},
                 {"best_bpb", optional_json(record.best_bpb)},
                 {"best_step", record.best_step}};
  if (record.evaluation_pending) object["evaluation_pending"] = true;
  if (!record.extra.is_null()) object["extra"] = record.extra;
  return object;
}

void from_json(const json& object, RunCheckpoint& checkpoint) {
  TrainerProgress& progress = checkpoint.progress;
  RunRecord& record = checkpoint.record;
  object.at("step").get_to(progress.step);
  object.at("bytes").get_to(progress.bytes);
  object.at("skipped").get_to(progress.skipped);
  object.at("not_finite_in_a_row").get_to(progress.not_finite_in_a_row);
  object.at("recent_losses").get_to(progress.spikes.losses);
  object.at("recent_norms").get_to(progress.spikes.norms);
  object.at("settings").get_to(record.settings);
  object.at("data_fingerprint").get_to(record.data_fingerprint);
  object.at("world").get_to(record.world);
  object.at("threads").get_to(record.threads);
  object.at("best_step").get_to(record.best_step);
  if (!object.at("validation_bpb").is_null()) record.validation_bpb = object.at("validation_bpb").get<double>();
  if (!object.at("best_bpb").is_null()) record.best_bpb = object.at("best_bpb").get<double>();
  record.evaluation_pending = object.value("evaluation_pending", false);
  record.extra = object.value("extra", json());
  checkpoint.step = progress.step;
}

std::optional<int64_t> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const size_t prefix = std::string_view(kPrefix).size();
  int64_t step = 0;
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto [end, error] = std::from_chars(name.data() + prefix, name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || name.size() < prefix + 8) return std::nullopt;
  return step;
}

void check_files(const fs::path& folder, const json& files) {
  for (const auto& [name, hash] : files.items()) {
    if (!fs::is_regular_file(folder / name)) fail("{} is damaged: its file {} is missing", folder.string(), name);
    if (file_hash(folder / name) != hash.get<std::string>())
      fail("{} is damaged: the checksum of its file {} is wrong", folder.string(), name);
  }
}

}  // namespace

fs::path checkpoint_folder(const fs::path& checkpoints, int64_t step) {
  return checkpoints / fmt::format("{}{:08}", kPrefix, step);
}

void save_run_checkpoint(const fs::path& folder, LanguageModel& model, const ModelConfig& config, AdamW& optimizer,
                         const std::optional<ModelState>& carried, const TrainerProgress& progress,
                         const RunRecord& record) {
  AtomicFolder atomic(folder);
  write_model_files(atomic.path(), model.named_parameters(), config);
  NamedTensors moments, memory;
  optimizer.visit_state([&](const std::string& name, Tensor& tensor) { moments.emplace_back(name, tensor); });
  write_tensors(atomic.path() / "optimizer.safetensors", moments);
  if (carried) {
    ModelState(*carried).visit([&](const std::string& name, Tensor& tensor) { memory.emplace_back(name, tensor); });
    write_tensors(atomic.path() / "carry.safetensors", memory);
  }
  json object = to_json(progress, record);
  for (const fs::directory_entry& entry : fs::directory_iterator(atomic.path()))
    object["files"][entry.path().filename().string()] = file_hash(entry.path());
  object["checksum"] = text_hash(object.dump());
  FileWriter writer(atomic.path() / "trainer.json");
  writer.write(object.dump(1) + "\n");
  writer.finish();
  atomic.commit(Replace::kAnything);
}

RunCheckpoint open_run_checkpoint(const fs::path& folder) {
  const fs::path file = folder / "trainer.json";
  if (!fs::is_regular_file(file)) fail("{} is not a complete checkpoint: it has no trainer.json", folder.string());
  json object = read_json(file);
  RunCheckpoint checkpoint;
  checkpoint.folder = folder;
  try {
    const std::string checksum = object.at("checksum").get<std::string>();
    object.erase("checksum");
    if (text_hash(object.dump()) != checksum) fail("{} is damaged: its checksum is wrong", file.string());
    if (const int64_t format = object.at("format").get<int64_t>(); format != kFormat)
      fail("{} has format {}, this program reads format {}; use the version of pmnet that wrote it ({})",
           folder.string(), format, kFormat, object.value("pmnet", "unknown"));
    check_files(folder, object.at("files"));
    from_json(object, checkpoint);
    if (const auto named = step_of(folder); named && *named != checkpoint.step)
      fail("{} is damaged: it holds step {}, not the step of its name", folder.string(), checkpoint.step);
  } catch (const json::exception& error) {
    fail("{} is damaged: {}", file.string(), error.what());
  }
  return checkpoint;
}

std::vector<int64_t> checkpoint_steps(const fs::path& checkpoints) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (auto entry = fs::directory_iterator(checkpoints, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    if (const auto step = step_of(entry->path()); step && entry->is_directory(error)) steps.push_back(*step);
  if (error && error != std::errc::no_such_file_or_directory)
    fail("{}: cannot be read: {}; check its permissions", checkpoints.string(), error.message());
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

std::optional<RunCheckpoint> newest_checkpoint(const fs::path& checkpoints,
                                               const std::function<void(const std::string&)>& warn) {
  const std::vector<int64_t> steps = checkpoint_steps(checkpoints);
  if (steps.empty()) return std::nullopt;
  std::vector<std::string> refused;
  for (const int64_t step : steps) {
    try {
      RunCheckpoint found = open_run_checkpoint(checkpoint_folder(checkpoints, step));
      for (const std::string& reason : refused) warn(reason);
      if (!refused.empty())
        warn(fmt::format("resuming from {}: {} steps are lost", found.folder.string(), steps.front() - step));
      return found;
    } catch (const UserError& error) {
      refused.emplace_back(error.what());
    }
  }
  fail("{}: none of its {} checkpoints is complete, the newest because: {}; train again in another folder",
       checkpoints.string(), steps.size(), refused.front());
}

void load_optimizer(const fs::path& folder, AdamW& optimizer) {
  const fs::path file = folder / "optimizer.safetensors";
  const auto stored = read_tensors(file);
  at::NoGradGuard no_grad;
  optimizer.visit_state([&](const std::string& name, Tensor& tensor) {
    const auto found = stored.find(name);
    if (found == stored.end() || found->second.sizes() != tensor.sizes())
      fail("{}: tensor {} is missing or has another shape than this model's; the checkpoint belongs to another model",
           file.string(), name);
    tensor.copy_(found->second);
  });
}

std::optional<ModelState> load_carried(const fs::path& folder, const LanguageModel& model) {
  const fs::path file = folder / "carry.safetensors";
  if (!fs::exists(file)) return std::nullopt;
  const auto stored = read_tensors(file);
  ModelState state = model.initial_state(1);
  state.visit([&](const std::string& name, Tensor& tensor) {
    const auto found = stored.find(name);
    if (found == stored.end())
      fail("{}: tensor {} is missing; the checkpoint belongs to another model", file.string(), name);
    tensor = found->second.to(tensor.device());
  });
  return state;
}

void prune_checkpoints(const fs::path& checkpoints, int64_t keep, const std::vector<int64_t>& protect) {
  const std::vector<int64_t> steps = checkpoint_steps(checkpoints);
  for (size_t i = static_cast<size_t>(keep); i < steps.size(); ++i) {
    if (std::find(protect.begin(), protect.end(), steps[i]) != protect.end()) continue;
    // Renamed first: a half-removed folder must not pass for a damaged checkpoint.
    const fs::path folder = checkpoint_folder(checkpoints, steps[i]);
    const fs::path trash = checkpoints / (kTrash + folder.filename().string());
    std::error_code error;
    fs::rename(folder, trash, error);
    fs::remove_all(trash, error);
  }
}

void set_aside_newer(const fs::path& checkpoints, int64_t step) {
  for (const int64_t newer : checkpoint_steps(checkpoints)) {
    if (newer <= step) return;
    const fs::path folder = checkpoint_folder(checkpoints, newer);
    fs::path aside = checkpoints / (kDamaged + folder.filename().string());
    for (int copy = 2; fs::exists(aside); ++copy)
      aside = checkpoints / fmt::format("{}{}-{}", kDamaged, folder.filename().string(), copy);
    std::error_code error;
    fs::rename(folder, aside, error);
    if (error)
      fail("{}: cannot be renamed to {}: {}; remove it by hand", folder.string(), aside.string(), error.message());
  }
}

void clean_checkpoints(const fs::path& checkpoints) {
  std::error_code error;
  std::vector<fs::path> trash;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints, error))
    if (entry.path().filename().string().starts_with(kTrash)) trash.push_back(entry.path());
  for (const fs::path& folder : trash) fs::remove_all(folder, error);
  clean_folder_after_crash(checkpoints);
}

}  // namespace pmnet
