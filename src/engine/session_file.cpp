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

void append(NamedTensors& out, const std::string& prefix, const State& state, const Tensor& last_logits) {
  State copy = state;
  copy.visit([&](const std::string& name, Tensor& tensor) { out.emplace_back(prefix + name, tensor); });
  if (last_logits.defined()) out.emplace_back(prefix + "last_logits", last_logits);
}

const std::string& require(const Metadata& metadata, const std::string& key, const std::string& where) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) fail("{} is not a pmnet state file: its metadata has no \"{}\"", where, key);
  return found->second;
}

// A hash of all tensors: a flipped bit in a memory would otherwise go unnoticed.
std::string content_hash(const std::vector<TensorView>& views) {
  ModelHash hash;
  for (const TensorView& view : views) hash.add(view.name, view.dtype, view.shape, view.data);
  return hash.hex();
}

void check_shape(const std::string& where, const std::string& name, const Tensor& want, const Tensor& got) {
  bool same = want.dim() == got.dim() && want.scalar_type() == got.scalar_type();
  // The number of kept keys (dimension 1 of [B,S,A_kv,Dh]) depends on how much was read; everything else is fixed.
  const bool keys = name.find("attention.") != std::string::npos;
  for (int64_t d = 0; same && d < want.dim(); ++d) same = (keys && d == 1) || want.size(d) == got.size(d);
  if (!same)
    fail("{}: tensor {} has shape {} where this model's state has {}; the file is damaged or of another model", where,
         name, fmt::format("[{}]", fmt::join(got.sizes(), ",")), fmt::format("[{}]", fmt::join(want.sizes(), ",")));
}

}  // namespace

void Session::save(const std::filesystem::path& file) const {
  NamedTensors tensors;
  append(tensors, "", state_, last_logits_);
  for (size_t i = 0; i < points_.size(); ++i)
    append(tensors, point_prefix(i), points_[i].state, points_[i].last_logits);
  std::vector<Tensor> keep;
  const std::vector<TensorView> views = tensor_views(tensors, keep);
  write_safetensors_atomically(file, views,
                               {{"format", "pt"},
                                {"kind", kKind},
                                {"version", kVersion},
                                {"model", model_hash_},
                                {"batch", std::to_string(batch())},
                                {"points", std::to_string(points_.size())},
                                {"content", content_hash(views)}});
}

Session Session::load(const std::filesystem::path& file, std::shared_ptr<const LanguageModel> model,
                      std::string model_hash, const MemorySwitches& switches) {
  const std::string where = file.string();
  const SafetensorsFile opened = SafetensorsFile::open(file);
  const Metadata& metadata = opened.metadata();
  if (require(metadata, "kind", where) != kKind) fail("{} is not a pmnet state file", where);
  if (const std::string& version = require(metadata, "version", where); version != kVersion)
    fail("{} has state version {}; this program reads version {}", where, version, kVersion);
  if (const std::string& owner = require(metadata, "model", where); owner != model_hash)
    fail("{} belongs to another model (hash {}, this model's is {}); load it with the model that wrote it", where,
         owner, model_hash);
  const auto count = [&](const char* key, int64_t limit) {
    const std::string& text = require(metadata, key, where);
    if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos ||
        std::stoll(text) > limit)
      fail("{}: metadata \"{}\" is \"{}\"; expected a number up to {}", where, key, text, limit);
    return std::stoll(text);
  };
  const int64_t batch = count("batch", 1 << 16), points = count("points", 1 << 20);
  if (batch < 1) fail("{}: a session has at least one stream, the file says {}", where, batch);

  std::map<std::string, Tensor> stored = read_tensors(opened);
  std::vector<Tensor> keep;
  if (require(metadata, "content", where) != content_hash(tensor_views({stored.begin(), stored.end()}, keep)))
    fail("{}: the tensors are not those that were saved; the file is damaged", where);

  // Takes a tensor that must look like `want` out of the file.
  const auto take = [&](const std::string& name, const Tensor& want) {
    const auto found = stored.find(name);
    if (found == stored.end()) fail("{}: tensor {} is missing; the file is damaged", where, name);
    const Tensor tensor = found->second;
    check_shape(where, name, want, tensor);
    if (tensor.is_floating_point() && !tensor.isfinite().all().item<bool>())
      fail("{}: tensor {} holds NaN or infinite values; the file is damaged", where, name);
    stored.erase(found);
    return tensor;
  };
  const auto read = [&](const std::string& prefix, State& state, Tensor& last_logits) {
    state.visit([&](const std::string& name, Tensor& tensor) { tensor = take(prefix + name, tensor); });
    if (state.positions.min().item<int64_t>() < 0 || state.positions.max().item<int64_t>() > (int64_t{1} << 53))
      fail("{}: a position is out of range; the file is damaged", where);
    for (const AttentionState& a : state.attention)
      if (a.keys.sizes() != a.values.sizes()) fail("{}: keys and values differ in number; the file is damaged", where);
    const Tensor& head = model->head_weight();
    if (stored.contains(prefix + "last_logits"))
      last_logits = take(prefix + "last_logits", at::empty({state.batch(), head.size(0)}, head.options()));
  };
  Session session(model, std::move(model_hash), batch, switches);
  const State fresh = session.state_;
  read("", session.state_, session.last_logits_);
  for (int64_t i = 0; i < points; ++i) {
    Point point{fresh, {}};
    read(point_prefix(i), point.state, point.last_logits);
    session.points_.push_back(std::move(point));
  }
  if (!stored.empty()) fail("{}: tensor {} is not part of a state; the file is damaged", where, stored.begin()->first);
  return session;
}

}  // namespace pmnet
