#include "engine/sampler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"

namespace pmnet {

namespace {

constexpr double kMaxTemperature = 100;

struct Candidate {
  int64_t id;
  float logit;
};

// Equal logits go by id, so that no sort decides.
bool likelier(const Candidate& a, const Candidate& b) { return a.logit != b.logit ? a.logit > b.logit : a.id < b.id; }

// In [0, 1), from (seed, position) alone.
double uniform(uint64_t seed, uint64_t position) {
  const uint64_t bits = mix64(splitmix64(seed) ^ (position * 0xD1B54A32D192ED03));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace

std::vector<std::string> SamplingSettings::problems() const {
  std::vector<std::string> found;
  if (!(temperature >= 0 && temperature <= kMaxTemperature))
    found.push_back(fmt::format("--temperature is {}; expected a number from 0 to {}", temperature, kMaxTemperature));
  if (top_k < 0) found.push_back(fmt::format("--top-k is {}; expected a count, or 0 for all bytes", top_k));
  if (!(top_p > 0 && top_p <= 1))
    found.push_back(fmt::format("--top-p is {}; expected a probability above 0, at most 1", top_p));
  return found;
}

Sampler::Sampler(const SamplingSettings& settings, const ByteTokenizer& tokenizer)
    : settings_(settings), tokenizer_(tokenizer) {
  if (const auto found = settings.problems(); !found.empty()) fail("{}", fmt::join(found, "; "));
}

int64_t Sampler::sample(std::span<const float> logits, uint64_t position) const {
  std::vector<Candidate> candidates;
  candidates.reserve(257);
  for (int64_t id = 0; id < static_cast<int64_t>(logits.size()); ++id) {
    if (!tokenizer_.is_byte(id) && id != tokenizer_.eos_id()) continue;
    if (!std::isfinite(logits[id]))
      fail("the model's logits are not finite at position {}; its weights are damaged or training diverged", position);
    candidates.push_back({id, logits[id]});
  }
  std::sort(candidates.begin(), candidates.end(), likelier);
  if (settings_.temperature == 0) return candidates.front().id;
  if (settings_.top_k > 0 && settings_.top_k < static_cast<int64_t>(candidates.size()))
    candidates.resize(settings_.top_k);

  const double largest = candidates.front().logit;
  std::vector<double> weights;
  double total = 0;
  for (const Candidate& candidate : candidates) {
    weights.push_back(std::exp((candidate.logit - largest) / settings_.temperature));
    total += weights.back();
  }
  size_t kept = 0;
  double kept_weight = 0;
  while (kept < weights.size() && (kept == 0 || kept_weight < settings_.top_p * total)) kept_weight += weights[kept++];

  double left = uniform(settings_.seed, position) * kept_weight;
  for (size_t i = 0; i < kept; ++i) {
    left -= weights[i];
    if (left < 0) return candidates[i].id;
  }
  return candidates.front().id;  // rounding used up the last candidate
}

}  // namespace pmnet
