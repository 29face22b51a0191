#include "train/selftest.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "config/presets.h"
#include "engine/session.h"
#include "train/device.h"
#include "train/optimizer.h"
#include "train/sequence_loss.h"

namespace pmnet {

namespace {

constexpr int kRepeats = 10;  // of a pass that must give the same bits
constexpr double kSecondsPerSpeed = 3;

Tensor random_ids(int64_t batch, int64_t context, const at::Device& device) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{7});
  return at::randint(0, 256, {batch, context}, generator, at::kLong).to(device);
}

std::unique_ptr<LanguageModel> seeded_model(const std::string& name, const at::Device& device,
                                            at::ScalarType dtype = at::kFloat) {
  PmnetConfig config = pmnet::preset(name);
  config.attention_dropout = 0;
  std::unique_ptr<LanguageModel> model = make_model(config, dtype);
  model->initialize(/*seed=*/1);
  move_model(*model, device);
  model->require_gradients(true);
  return model;
}

// Of the mean loss, for every parameter, in one vector on the CPU.
Tensor gradient_of(const LanguageModel& model, const Tensor& ids, int64_t chunk = 0, bool normalize = true) {
  LossOptions options;
  options.forward.training = true;
  options.forward.memory.normalize_gradient = normalize;
  options.chunk = chunk;
  const Tensor targets = next_byte_targets(ids);
  options.scale = 1 / (targets >= 0).sum().item<double>();
  loss_and_gradients(model, {ids, targets}, options);
  std::vector<Tensor> pieces;
  for (auto& [name, parameter] : model.named_parameters()) {
    pieces.push_back(parameter.grad().detach().to(at::kCPU, at::kDouble).flatten());
    parameter.mutable_grad() = Tensor();
  }
  return at::cat(pieces);
}

double relative_error(const Tensor& got, const Tensor& want) {
  return ((got - want).abs().max() / want.abs().max().clamp_min(1e-30)).item<double>();
}

// Central differences in double along a random direction, routes being those of the undisturbed weights: the loss jumps
// where a route changes, which no gradient describes.
ParityRow gradient_against_differences(const at::Device& device) {
  constexpr double kEpsilon = 1e-6;
  const auto model = seeded_model("tiny", device, at::kDouble);
  const Tensor ids = random_ids(2, 48, device), targets = next_byte_targets(ids);
  const Tensor gradient = gradient_of(*model, ids, 0, /*normalize=*/false);
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{3});
  const Tensor direction = at::randn({gradient.numel()}, generator, at::kDouble);
  at::NoGradGuard no_grad;
  const auto shift = [&](double by) {
    int64_t at = 0;
    for (auto& [name, parameter] : model->named_parameters()) {
      parameter.add_(direction.narrow(0, at, parameter.numel()).view(parameter.sizes()).to(device), by);
      at += parameter.numel();
    }
  };
  Trace trace;
  model->hidden(ids, nullptr, {}, &trace);
  ForwardOptions frozen;
  frozen.routes = &trace.routes;
  const auto loss_at = [&](double by) {
    shift(by);
    const Tensor losses = model->losses(ids, targets, nullptr, frozen);
    shift(-by);
    return losses.sum().item<double>() / (targets >= 0).sum().item<double>();
  };
  const double numeric = (loss_at(kEpsilon) - loss_at(-kEpsilon)) / (2 * kEpsilon);
  const double analytic = (gradient * direction).sum().item<double>();
  return {"gradient against central differences, double", std::abs(numeric - analytic) / std::abs(numeric), 1e-5,
          "relative, along one random direction"};
}

// Phases are 64-bit integers: a device that adds them in another order must still give the same bits.
ParityRow turns_against_cpu(const at::Device& device) {
  constexpr int64_t kB = 2, kT = 3000, kG = 16, kN = 4, kM = 32;
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{5});
  const Tensor weights = at::rand({kB, kT, kN}, generator, at::kFloat).softmax(-1);
  const Tensor update = at::randn({kB, kT, kM}, generator, at::kFloat);
  const Tensor groups = at::randint(0, kG, {kB, kT}, generator, at::kLong);
  const auto memory_on = [&](const at::Device& where) {
    return ops::segmented_scan(weights.to(where), update.to(where), groups.to(where), kG, {}, {}, {}, false)
        .final_state.turns->cpu();
  };
  const double different = (memory_on(device) != memory_on(at::kCPU)).sum().item<double>();
  return {"memory after 3,000 writes against the CPU", different, 0, "phases with other bits"};
}

ParityRow repeatability(const at::Device& device) {
  const auto model = seeded_model("tiny", device);
  const Tensor ids = random_ids(4, 256, device);
  const Tensor first = gradient_of(*model, ids);
  double different = 0;
  for (int run = 1; run < kRepeats; ++run) different += (gradient_of(*model, ids) != first).sum().item<double>();
  return {fmt::format("gradients of {} equal passes", kRepeats), different, 0, "numbers with other bits"};
}

ParityRow chunks_against_one_pass(const at::Device& device) {
  const auto model = seeded_model("tiny", device);
  const Tensor ids = random_ids(2, 256, device);
  const Tensor whole = gradient_of(*model, ids);
  return {"gradients in chunks of 100 against one pass", relative_error(gradient_of(*model, ids, 100), whole), 1e-4,
          "of the largest entry"};
}

ParityRow device_against_cpu(const at::Device& device) {
  const Tensor ids = random_ids(2, 256, at::kCPU);
  const auto reference = [&] {
    const ops::ImplementationGuard guard(ops::Implementation::kReference);
    return gradient_of(*seeded_model("tiny", at::kCPU), ids);
  };
  const Tensor on_cpu = reference();
  const Tensor on_device = gradient_of(*seeded_model("tiny", device), ids.to(device));
  return {"gradients against the CPU's reference", relative_error(on_device, on_cpu), 1e-4, "of the largest entry"};
}

// Bytes per second of `work`, which handles so many; the first call warms up.
double rate_of(double bytes, const std::function<void()>& work) {
  work();
  const double begin = steady_seconds();
  int64_t calls = 0;
  double seconds = 0;
  while (seconds < kSecondsPerSpeed) {
    work();
    ++calls;
    seconds = steady_seconds() - begin;
  }
  return bytes * static_cast<double>(calls) / seconds;
}

SelftestSpeed training_speed(const at::Device& device) {
  constexpr int64_t kBatch = 8, kContext = 512;
  const auto model = seeded_model("1m", device);
  const Tensor ids = random_ids(kBatch, kContext, device), targets = next_byte_targets(ids);
  AdamW optimizer(model->named_parameters(), {});
  LossOptions options;
  options.forward.training = true;
  options.scale = 1.0 / (kBatch * kContext);
  const double rate = rate_of(kBatch * kContext, [&] {
    loss_and_gradients(*model, {ids, targets}, options);  // ends with a number on the CPU: nothing is left in flight
    optimizer.step(1e-4);
    optimizer.zero_gradients();
  });
  return {fmt::format("training, 1m, batch {} of {} bytes", kBatch, kContext), rate};
}

SelftestSpeed decoding_speed(const at::Device& device) {
  const auto model = seeded_model("1m", device);
  Session session(make_engine(*model));
  session.read(random_ids(1, 64, at::kCPU));
  const Tensor next = random_ids(1, 1, at::kCPU);
  return {"decoding, 1m, one sequence", rate_of(1, [&] { session.read(next).cpu(); })};
}

std::string describe(const at::Device& device) {
  if (device.is_cpu()) return fmt::format("cpu, {} threads", at::get_num_threads());
  return device.str();
}

}  // namespace

bool SelftestReport::holds() const {
  return std::all_of(rows.begin(), rows.end(), [](const ParityRow& row) { return row.holds(); });
}

SelftestReport run_selftest(const at::Device& device, const std::vector<std::filesystem::path>& fixtures,
                            const std::function<void(const std::string& part)>& before) {
  require_device(device);
  SelftestReport report{.device = describe(device), .rows = {}, .speeds = {}};
  for (const std::filesystem::path& folder : fixtures) {
    const std::string name = folder.filename().string();
    before("recorded outputs: " + name);
    for (ParityRow row : check_parity(folder, ops::Implementation::kFast, device)) {
      row.item = name + ": " + row.item;
      report.rows.push_back(std::move(row));
    }
  }
  const auto add = [&](const char* part, ParityRow (*check)(const at::Device&)) {
    before(part);
    report.rows.push_back(check(device));
  };
  add("gradients", gradient_against_differences);
  add("chunks", chunks_against_one_pass);
  add("the CPU's reference", device_against_cpu);
  add("exact phases", turns_against_cpu);
  add("same bits", repeatability);
  before("training speed");
  report.speeds.push_back(training_speed(device));
  before("decoding speed");
  report.speeds.push_back(decoding_speed(device));
  return report;
}

}  // namespace pmnet
