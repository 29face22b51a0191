#include "eval/inspect.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "eval/scorer.h"
#include "io/safetensors.h"
#include "ops/ops.h"

namespace pmnet {

namespace {

// The inside of a pass is kept whole: 16 bytes per phase, slot, level and byte.
constexpr size_t kChunk = 512;
constexpr int64_t kNothingToScore = -1;

// Appends [1,T,...] tensors of the H levels as rows [T,H,...], leaving out the first `skip` steps.
template <typename T>
void append_rows(std::vector<T>& rows, const std::vector<Tensor>& levels, int64_t skip) {
  std::vector<Tensor> steps;
  for (const Tensor& level : levels) steps.push_back(level[0]);
  const Tensor joined = at::stack(steps, 1).slice(0, skip).to(c10::CppTypeToScalarType<T>::value).contiguous();
  rows.insert(rows.end(), joined.const_data_ptr<T>(), joined.const_data_ptr<T>() + joined.numel());
}

// Sum over the steps and heads of the entropy of read weights [1,T,R,N].
double entropy_sum(const Tensor& weights) {
  return -(weights * weights.clamp_min(1e-30).log()).sum(at::kDouble).item<double>();
}

std::vector<float> angles_of(const Tensor& turns) {
  const Tensor angle = ops::to_angle(turns, at::kFloat).flatten().contiguous();
  return {angle.const_data_ptr<float>(), angle.const_data_ptr<float>() + angle.numel()};
}

// What is known once the last byte was read.
void sum_up(Inspection& inspection, const SequenceState& state, const PmnetConfig& config) {
  const int64_t H = inspection.num_levels();
  for (int64_t h = 0; h < H; ++h) {
    LevelView& level = inspection.levels[h];
    level.phases = angles_of(state.memory[h]);
    level.routing = LevelRouting(config.num_groups(h));
    for (int64_t t = 0; t < inspection.num_bytes(); ++t) level.routing.add(inspection.groups[t * H + h]);
  }
}

TensorView view(const std::string& name, DType dtype, std::vector<int64_t> shape, const void* data) {
  return {.name = name, .dtype = dtype, .shape = std::move(shape), .data = data};
}

std::vector<int64_t> parse_numbers(const std::string& name) {
  std::vector<int64_t> numbers;
  const char *at = name.data(), *end = at + name.size();
  while (true) {
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(at, end, number);
    if (error != std::errc()) return {};
    numbers.push_back(number);
    if (stop == end) return numbers;
    if (*stop != '.') return {};
    at = stop + 1;
  }
}

}  // namespace

double Inspection::bits_per_byte() const {
  return std::accumulate(bits.begin(), bits.end(), 0.0) / static_cast<double>(std::max<size_t>(1, bits.size()));
}

void require_memory(const Engine& engine, const std::string& name) {
  const PmnetConfig* config = engine.pmnet_config();
  if (config == nullptr) fail("{} is no PMNet and has no memory to look into; expected a PMNet", name);
  if (!config->memory_modules)
    fail("{} was made without memory modules, so there is nothing to look into; expected a PMNet that has them", name);
}

Inspection inspect(const std::shared_ptr<const Engine>& engine, std::string text,
                   const std::function<bool(int64_t bytes_read)>& read_on) {
  require_memory(*engine, "the model");
  const PmnetConfig& config = *engine->pmnet_config();
  Inspection inspection{.text = std::move(text),
                        .slots = config.num_memory,
                        .phases = config.memory_size,
                        .recurrence = config.memory_cumsum,
                        .bits = {},
                        .groups = {},
                        .chosen = {},
                        .weights = {},
                        .levels = std::vector<LevelView>(config.num_levels())};
  std::vector<int64_t> ids = byte_ids(inspection.text);
  ids.push_back(kNothingToScore);  // a pass reads all but the last id it is given, so that the last byte is read too

  Scorer scorer(engine);
  std::vector<double> entropies(config.num_levels(), 0.0), reads(config.num_levels(), 0.0);
  size_t steps = 0;
  for (bool go_on = true; go_on && steps < ids.size();) {
    const std::span<const int64_t> next = std::span(ids).subspan(steps, std::min(kChunk, ids.size() - steps));
    Trace trace;
    const std::vector<double> bits =
        scorer.score({next}, {.after_pass = [&](const Trace& pass) { trace = pass; }}).front();
    inspection.bits.insert(inspection.bits.end(), bits.begin(), bits.end());
    const int64_t skip = steps == 0 ? 1 : 0;  // BOS is no byte of the text
    append_rows(inspection.groups, trace.groups, skip);
    append_rows(inspection.weights, trace.route_weights, skip);
    std::vector<Tensor> chosen;
    for (const Tensor& weights : trace.route_weights) chosen.push_back(weights.argmax(-1));
    append_rows(inspection.chosen, chosen, skip);
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
      const Tensor& weights = trace.read_weights[layer];
      entropies[config.level_of(layer)] += entropy_sum(weights);
      reads[config.level_of(layer)] += static_cast<double>(weights.numel() / weights.size(-1));
    }
    steps += next.size();
    go_on = read_on(static_cast<int64_t>(steps - 1));
  }
  inspection.text.resize(steps - 1);
  inspection.bits.resize(steps - 1);  // the step after the last byte scores nothing
  for (size_t h = 0; h < entropies.size(); ++h)
    inspection.levels[h].slots_per_read = std::exp(entropies[h] / std::max(1.0, reads[h]));
  sum_up(inspection, scorer.state().front(), config);
  return inspection;
}

std::vector<SlotName> parse_slots(const Engine& engine, const std::vector<std::string>& names) {
  require_memory(engine, "the model");
  const PmnetConfig& config = *engine.pmnet_config();
  std::vector<SlotName> slots;
  for (const std::string& name : names) {
    const std::vector<int64_t> numbers = parse_numbers(name);
    if (numbers.size() < 2 || numbers.size() > 3)
      fail("--slots has '{}'; expected LEVEL.GROUP or LEVEL.GROUP.SLOT, such as 1.0.2", name);
    const auto check = [&](int64_t number, int64_t count, const std::string& what) {
      if (number < 0 || number >= count) fail("--slots has '{}', but {} are 0 to {}", name, what, count - 1);
    };
    check(numbers[0], config.num_levels(), "the levels of this model");
    check(numbers[1], config.num_groups(numbers[0]), fmt::format("the groups of level {}", numbers[0]));
    if (numbers.size() == 3) check(numbers[2], config.num_memory, "the slots of a group");
    for (int64_t slot = 0; slot < config.num_memory; ++slot)
      if (numbers.size() == 2 || numbers[2] == slot) slots.push_back({numbers[0], numbers[1], slot});
  }
  return slots;
}

std::vector<SlotName> busiest_slots(const Inspection& inspection) {
  std::vector<SlotName> slots;
  for (int64_t h = 0; h < inspection.num_levels(); ++h) {
    const std::vector<int64_t>& load = inspection.levels[h].routing.tokens();
    const int64_t group = std::max_element(load.begin(), load.end()) - load.begin();
    for (int64_t slot = 0; slot < inspection.slots; ++slot) slots.push_back({h, group, slot});
  }
  return slots;
}

void write_tensors(const Inspection& inspection, const std::filesystem::path& file) {
  const int64_t T = inspection.num_bytes(), H = inspection.num_levels(), N = inspection.slots, M = inspection.phases;
  std::vector<TensorView> tensors = {view("bytes", DType::kU8, {T}, inspection.text.data()),
                                     view("bits", DType::kF64, {T}, inspection.bits.data()),
                                     view("groups", DType::kI32, {T, H}, inspection.groups.data()),
                                     view("chosen", DType::kI32, {T, H}, inspection.chosen.data()),
                                     view("weights", DType::kF32, {T, H, N}, inspection.weights.data())};
  for (int64_t h = 0; h < H; ++h) {
    const LevelView& level = inspection.levels[h];
    const auto G = static_cast<int64_t>(level.routing.tokens().size());
    tensors.push_back(view(fmt::format("load_{}", h), DType::kI64, {G}, level.routing.tokens().data()));
    tensors.push_back(view(fmt::format("phases_{}", h), DType::kF32, {G, N, M}, level.phases.data()));
  }
  write_safetensors_atomically(file, tensors);
}

}  // namespace pmnet
