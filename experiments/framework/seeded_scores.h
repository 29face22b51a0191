// The same texts read with the models of several seeds.
#pragma once
#include <vector>

#include "base/statistics.h"
#include "eval/evaluate.h"
#include "eval/score_files.h"

namespace pmnet {

struct SeededScores {
  std::vector<Evaluation> seeds;
  Evaluation pooled;  // the documents of all seeds

  void add(Evaluation seed) {
    add_documents(pooled, seed);
    seeds.push_back(std::move(seed));
  }

  // What the independent values of over_seeds() are.
  const char* over() const { return seeds.size() == 1 ? "documents" : "seeds"; }

  // `measure` gives an interval over documents. With several seeds: of their means, over seeds.
  template <typename Measure>
  Interval over_seeds(const Measure& measure) const {
    if (seeds.size() == 1) return measure(seeds[0]);
    std::vector<double> means;
    for (const Evaluation& seed : seeds) means.push_back(measure(seed).mean);
    return mean_interval(means);
  }
};

}  // namespace pmnet
