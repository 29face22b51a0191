// The state file of a session: a safetensors container whose metadata says whose memory it is.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "engine/session.h"
#include "model/tensors.h"

namespace pmnet {

namespace {

constexpr const char* kKind = "pmnet-session";
constexpr const char* kVersion = "1";

std::string point_prefix(size_t point) { return fmt::format("point.{}.", point); }

void append(NamedTensors& out, const std::string& prefix, const EngineState& state, const Tensor& last_logits) {
  to_model_state(state).visit(
      [&](const std::string& name, Tensor& tensor) { out.emplace_back(prefix + name, tensor); });
  if (last_logits.defined()) out.emplace_back(prefix + "last_logits", last_logits);
}

const std::string& require(const Metadata& metadata, const std::string& key, const std::string& where) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) fail("{} is not a pmnet state file: its metadata has no \"{}\"", where, key);
  return found->second;
}

// `want` is the tensor of a state of one sequence.
void check_shape(const std::string& where, const std::string& name, const Tensor& want, int64_t batch,
                 const Tensor& got) {
  std::vector<int64_t> sizes = want.sizes().vec();
  sizes[0] = batch;
  // The number of kept keys (dimension 1 of [B,S,A_kv,Dh]) depends on how much was read; everything else is fixed.
  if (name.find("attention.") != std::string::npos && got.dim() == want.dim()) sizes[1] = got.size(1);
  if (got.sizes() != sizes || got.scalar_type() != want.scalar_type())
    fail("{}: tensor {} has shape {} where this model's state has {}; the file is damaged or of another model", where,
         name, fmt::format("[{}]", fmt::join(got.sizes(), ",")), fmt::format("[{}]", fmt::join(sizes, ",")));
}

}  // namespace

void Session::save(const std::filesystem::path& file) const {
  NamedTensors tensors;
  append(tensors, "", state_, last_logits_);
  for (size_t i = 0; i < points_.size(); ++i)
    append(tensors, point_prefix(i), points_[i].state, points_[i].last_logits);
  std::vector<Tensor> keep;
  write_safetensors_atomically(file, tensor_views(tensors, keep),
                               {{"format", "pt"},
                                {"kind", kKind},
                                {"version", kVersion},
                                {"model", engine_->model_hash()},
                                {"batch", std::to_string(batch())},
                                {"points", std::to_string(points_.size())},
                                {"content", tensors_hash(tensors)}});
}

Session Session::load(const std::filesystem::path& file, std::shared_ptr<const Engine> engine) {
  const std::string where = file.string();
  const SafetensorsFile opened = SafetensorsFile::open(file);
  const Metadata& metadata = opened.metadata();
  if (require(metadata, "kind", where) != kKind) fail("{} is not a pmnet state file", where);
  if (const std::string& version = require(metadata, "version", where); version != kVersion)
    fail("{} has state version {}; this program reads version {}", where, version, kVersion);
  if (const std::string& owner = require(metadata, "model", where); owner != engine->model_hash())
    fail("{} belongs to another model (hash {}, this model's is {}); load it with the model that wrote it", where,
         owner, engine->model_hash());
  const auto count = [&](const char* key, int64_t limit) {
    const std::string& text = require(metadata, key, where);
    if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos ||
        std::stoll(text) > limit)
      fail("{}: metadata \"{}\" is \"{}\"; expected a number up to {}", where, key, text, limit);
    return std::stoll(text);
  };
  const int64_t batch = count("batch", 1 << 16), points = count("points", 1 << 20);
  if (batch < 1) fail("{}: a session has at least one sequence, the file says {}", where, batch);

  std::map<std::string, Tensor> stored = read_tensors(opened);
  // A flipped bit in a memory would otherwise go unnoticed.
  if (require(metadata, "content", where) != tensors_hash({stored.begin(), stored.end()}))
    fail("{}: the tensors are not those that were saved; the file is damaged", where);

  // Takes a tensor that must look like `want` out of the file.
  const auto take = [&](const std::string& name, const Tensor& want) {
    const auto found = stored.find(name);
    if (found == stored.end()) fail("{}: tensor {} is missing; the file is damaged", where, name);
    const Tensor tensor = found->second;
    check_shape(where, name, want, batch, tensor);
    if (tensor.is_floating_point() && !tensor.isfinite().all().item<bool>())
      fail("{}: tensor {} holds NaN or infinite values; the file is damaged", where, name);
    stored.erase(found);
    return tensor;
  };
  const SequenceState fresh = engine->initial_state(1)[0];
  const auto read = [&](const std::string& prefix) {
    ModelState state = to_model_state({fresh});
    state.visit([&](const std::string& name, Tensor& tensor) { tensor = take(prefix + name, tensor); });
    if (state.positions.min().item<int64_t>() < 0 || state.positions.max().item<int64_t>() > (int64_t{1} << 53))
      fail("{}: a position is out of range; the file is damaged", where);
    for (const AttentionState& a : state.attention)
      if (a.keys.sizes() != a.values.sizes()) fail("{}: keys and values differ in number; the file is damaged", where);
    const Tensor& head = engine->head_weight();
    Point point{from_model_state(state, fresh), {}};
    if (stored.contains(prefix + "last_logits"))
      point.last_logits = take(prefix + "last_logits", at::empty({1, head.size(0)}, head.options()));
    return point;
  };
  Session session(engine, /*batch=*/1);
  Point now = read("");
  session.state_ = std::move(now.state);
  session.last_logits_ = now.last_logits;
  for (int64_t i = 0; i < points; ++i) session.points_.push_back(read(point_prefix(i)));
  if (!stored.empty()) fail("{}: tensor {} is not part of a state; the file is damaged", where, stored.begin()->first);
  return session;
}

}  // namespace pmnet
