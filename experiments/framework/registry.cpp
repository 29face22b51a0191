#include "experiments/framework/registry.h"

#include <fmt/ranges.h>

#include <array>

#include "base/error.h"
#include "base/suggest.h"

namespace pmnet {

namespace {

constexpr std::array kExperiments = std::to_array<ExperimentEntry>({
    {"parity", "State tracking: the parity of a string of bits, to millions of them", make_modular_experiment},
    {"modular", "State tracking: sums modulo 3 and 5", make_modular_experiment},
    {"mqar", "Associative recall of several pairs, in Zoology's cells and beyond the windows", make_mqar_experiment},
    {"induction", "What followed a symbol the first time, trained at 256, asked at up to a million",
     make_induction_experiment},
    {"selective-copy", "Symbols among blanks, copied in their order (MAD)", make_selective_copy_experiment},
    {"in-context-recall", "Keys that return with their values (MAD)", make_in_context_recall_experiment},
    {"needle", "A sentence in a long text, asked for at its end (RULER)", make_needle_experiment},
    {"copy", "Copy-paste probe with and without memory (figures 4 and 5)", make_copy_experiment},
    {"compare", "PMNet, Transformer and Mamba on the same batches, by position (figure 3)", make_compare_experiment},
    {"long-context", "Bits per byte, time and memory far beyond the trained length (figure 1)",
     make_long_context_experiment},
    {"anchors", "Reading without the memory's embeddings, and how its tree is used (figure 6)",
     make_anchors_experiment},
    {"stability", "Gradients and recall of phase rotation against unconstrained memory", make_stability_experiment},
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
