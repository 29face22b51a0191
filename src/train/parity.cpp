#include "train/parity.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "engine/session.h"
#include "model/model_folder.h"
#include "model/tensors.h"
#include "train/device.h"
#include "train/optimizer.h"
#include "train/sequence_loss.h"

namespace pmnet {

namespace {

constexpr double kLogitLimit = 1e-4, kLossLimit = 1e-5, kGradientLimit = 1e-4, kPhaseLimit = 1e-4, kTraceLimit = 1e-4;

class Check {
 public:
  Check(const std::filesystem::path& folder, const at::Device& device)
      : folder_(folder), loaded_(load_model(folder)), expected_(read_tensors(folder / "expected.safetensors")) {
    ids_ = expect("input_ids");
    if (ids_.dim() != 2 || ids_.scalar_type() != at::kLong || ids_.numel() == 0)
      fail("{}: input_ids must be int64 [batch, time] and not empty", (folder / "expected.safetensors").string());
    ids_ = ids_.to(device);
    move_model(*loaded_.model, device);
  }

  std::vector<ParityRow> run() {
    forward();
    gradients();
    stream();
    switches();
    if (std::filesystem::exists(folder_ / "training.safetensors")) training();
    return rows_;
  }

 private:
  const Tensor& expect(const std::string& name) const {
    const auto found = expected_.find(name);
    if (found == expected_.end()) fail("{}: tensor {} is missing", (folder_ / "expected.safetensors").string(), name);
    return found->second;
  }

  void add(const std::string& item, double error, double limit, const std::string& detail) {
    rows_.push_back({item, error, limit, detail});
  }

  // NaN counts as an error: max() of a tensor with NaN is NaN.
  void compare(const std::string& item, const Tensor& got, double limit, const std::string& who = "") {
    const Tensor& want = expect(item);
    if (got.sizes() != want.sizes())
      fail("{}: {} has shape {}, the model gives {}", folder_.string(), item, c10::str(want.sizes()),
           c10::str(got.sizes()));
    add(who + item, (got.cpu() - want).abs().max().item<double>(), limit, "max-abs");
  }

  void forward() {
    at::NoGradGuard no_grad;
    Trace trace;
    compare("logits", loaded_.model->logits(ids_, nullptr, {}, &trace), kLogitLimit);
    check_routes(trace, "");
    Trace of_engine;
    const auto engine = make_engine(*loaded_.model);
    compare("logits", engine->logits(engine->hidden(ids_, nullptr, {.trace = &of_engine})), kLogitLimit, "engine: ");
    check_routes(of_engine, "engine: ");
  }

  void check_routes(const Trace& trace, const std::string& who) {
    const auto* config = std::get_if<PmnetConfig>(&loaded_.config);
    for (size_t level = 0; level < trace.routes.size(); ++level) {
      const std::string item = fmt::format("route.{}", static_cast<int64_t>(level) * config->write_period);
      if (expected_.contains(item))
        add(who + item, (trace.routes[level].cpu() != expect(item)).sum().item<double>(), 0, "tokens routed otherwise");
    }
  }

  void gradients() {
    LossOptions options;
    options.forward.training = true;
    const Tensor targets = next_byte_targets(ids_);
    const double count = (targets >= 0).sum().item<double>();
    options.scale = 1.0 / count;
    loaded_.model->require_gradients(true);
    const LossSum sum = loss_and_gradients(*loaded_.model, {ids_, targets}, options);
    add("loss", std::abs(sum.loss / count - expect("loss").item<double>()), kLossLimit, "absolute");
    for (auto& [name, parameter] : loaded_.model->named_parameters()) {
      const Tensor& want = expect("grad." + name);
      const Tensor got = parameter.grad().defined() ? parameter.grad().cpu() : at::zeros_like(want);
      const double largest = std::max(want.abs().max().item<double>(), 1e-30);
      add("grad." + name, (got - want).abs().max().item<double>() / largest, kGradientLimit, "of the largest entry");
      parameter.mutable_grad() = Tensor();
    }
    loaded_.model->require_gradients(false);
  }

  void stream() {
    const auto chunks = parse_json(read_file(folder_ / "stream.json", 1 << 20), (folder_ / "stream.json").string());
    Session session(make_engine(*loaded_.model), ids_.size(0));
    std::vector<Tensor> pieces;
    int64_t begin = 0;
    for (const auto& size : chunks.at("chunks")) {
      const int64_t count = size.get<int64_t>();
      if (count < 0 || begin + count > ids_.size(1))
        fail("{}: the chunks do not add up to the {} ids of the input", (folder_ / "stream.json").string(),
             ids_.size(1));
      pieces.push_back(session.feed(ids_.narrow(1, begin, count)));
      begin += count;
    }
    compare("logits_streamed", at::cat(pieces, 1), kLogitLimit);
    const auto* config = std::get_if<PmnetConfig>(&loaded_.config);
    const auto memory = to_model_state(session.state()).memory;
    for (size_t level = 0; level < memory.size(); ++level) {
      const std::string item = fmt::format("memory.{}", static_cast<int64_t>(level) * config->write_period);
      if (!expected_.contains(item)) continue;
      constexpr double kTurn = 2 * std::numbers::pi;
      const Tensor got = memory[level].turns->cpu().to(at::kDouble) * (kTurn / 0x1p64);
      const Tensor difference = (got - expect(item).to(at::kDouble)) / kTurn;
      add(item, ((difference - difference.round()) * kTurn).abs().max().item<double>(), kPhaseLimit,
          "radians modulo a turn");
    }
  }

  void switches() {
    const auto with = [&](const std::string& item, const MemorySwitches& memory) {
      if (!expected_.contains(item)) return;
      at::NoGradGuard no_grad;
      ForwardOptions options;
      options.memory = memory;
      compare(item, loaded_.model->logits(ids_, nullptr, options), kLogitLimit);
      const auto engine = make_engine(*loaded_.model, memory);
      compare(item, engine->logits(engine->hidden(ids_, nullptr)), kLogitLimit, "engine: ");
    };
    with("logits_no_recurrence", {.recurrence = false});
    with("logits_no_embeddings", {.zero_embeddings = ZeroEmbeddings::kAll});
    with("logits_no_root", {.zero_embeddings = ZeroEmbeddings::kRoot});
    with("logits_no_leaf", {.zero_embeddings = ZeroEmbeddings::kLeaf});
  }

  void training() {
    const auto trace = read_tensors(folder_ / "training.safetensors");
    const auto series = [&](const char* name) {
      const auto found = trace.find(name);
      if (found == trace.end()) fail("{}: tensor {} is missing", (folder_ / "training.safetensors").string(), name);
      return found->second.to(at::kDouble);
    };
    const Tensor losses = series("losses"), norms = series("grad_norms");
    loaded_.model->require_gradients(true);
    const auto parameters = loaded_.model->named_parameters();
    AdamW optimizer(parameters, {.decay_everything = true});
    const Tensor targets = next_byte_targets(ids_);
    const double count = (targets >= 0).sum().item<double>();
    LossOptions options;
    options.forward.training = true;
    options.scale = 1.0 / count;
    double worst_loss = 0, worst_norm = 0;
    for (int64_t step = 0; step < losses.numel(); ++step) {
      const LossSum sum = loss_and_gradients(*loaded_.model, {ids_, targets}, options);
      const double norm = gradient_norm(parameters);
      clip_gradients(parameters, norm, /*max_norm=*/1.0);
      optimizer.step(/*learning_rate=*/1e-3);
      optimizer.zero_gradients();
      worst_loss = std::max(worst_loss, std::abs(sum.loss / count / losses[step].item<double>() - 1));
      worst_norm = std::max(worst_norm, std::abs(norm / norms[step].item<double>() - 1));
    }
    loaded_.model->require_gradients(false);
    add("training losses", worst_loss, kTraceLimit, fmt::format("relative, {} steps", losses.numel()));
    add("training gradient norms", worst_norm, 10 * kTraceLimit, fmt::format("relative, {} steps", losses.numel()));
  }

  std::filesystem::path folder_;
  LoadedModel loaded_;
  std::map<std::string, Tensor> expected_;
  Tensor ids_;
  std::vector<ParityRow> rows_;
};

}  // namespace

std::vector<ParityRow> check_parity(const std::filesystem::path& folder, ops::Implementation implementation,
                                    const at::Device& device) {
  const ops::ImplementationGuard guard(implementation);
  return Check(folder, device).run();
}

}  // namespace pmnet
