#include "experiments/framework/registry.h"

#include <fmt/ranges.h>

#include <array>

#include "base/error.h"
#include "base/suggest.h"
#include "experiments/anchors/anchors.h"
#include "experiments/compare/compare.h"
#include "experiments/copy/copy.h"
#include "experiments/in_context_recall/in_context_recall.h"
#include "experiments/induction/induction.h"
#include "experiments/long_context/long_context.h"
#include "experiments/modular/modular.h"
#include "experiments/mqar/mqar.h"
#include "experiments/needle/needle.h"
#include "experiments/selective_copy/selective_copy.h"
#include "experiments/stability/stability.h"

namespace pmnet {

namespace {

template <typename E>
std::unique_ptr<Experiment> make() {
  return std::make_unique<E>();
}

template <typename S>
std::unique_ptr<Experiment> make_probe() {
  return std::make_unique<ProbeExperiment>(std::make_unique<S>());
}

constexpr std::array kExperiments = std::to_array<ExperimentEntry>({
    {"parity", "State tracking: the parity of a string of bits, to millions of them", make_probe<ModularSettings>},
    {"modular", "State tracking: sums modulo 3 and 5", make_probe<ModularSettings>},
    {"mqar", "Associative recall of several pairs, in Zoology's cells and beyond the windows",
     make_probe<MqarSettings>},
    {"induction", "What followed a symbol the first time, trained at 256, asked at up to a million",
     make_probe<InductionSettings>},
    {"selective-copy", "Symbols among blanks, copied in their order (MAD)", make_probe<SelectiveCopySettings>},
    {"in-context-recall", "Keys that return with their values (MAD)", make_probe<InContextRecallSettings>},
    {"needle", "A sentence in a long text, asked for at its end (RULER)", make_probe<NeedleSettings>},
    {"copy", "Copy-paste probe with and without memory (figures 4 and 5)", make<CopyExperiment>},
    {"compare", "PMNet, Transformer and Mamba on the same batches, by position (figure 3)", make<CompareExperiment>},
    {"long-context", "Bits per byte, time and memory far beyond the trained length (figure 1)",
     make<LongContextExperiment>},
    {"anchors", "Reading without the memory's embeddings, and how its tree is used (figure 6)",
     make<AnchorsExperiment>},
    {"stability", "Gradients and recall of phase rotation against unconstrained memory", make<StabilityExperiment>},
});

}  // namespace

std::span<const ExperimentEntry> experiment_table() { return kExperiments; }

const ExperimentEntry& find_experiment(const std::string& name) {
  std::vector<std::string> names;
  for (const ExperimentEntry& entry : kExperiments) {
    if (name == entry.name) return entry;
    names.emplace_back(entry.name);
  }
  fail("there is no experiment '{}' among {}{}", name, fmt::join(names, ", "), did_you_mean(name, names));
}

}  // namespace pmnet
