#pragma once
#include <string>
#include <vector>

namespace pmnet {

// The candidate nearest to a mistyped word: fewest insertions, deletions, replacements and swaps of neighbours. Empty
// when none is near enough to be what was meant.
std::string suggest(const std::string& word, const std::vector<std::string>& candidates);

// The same as the end of an error message: "; did you mean 'train'?", or empty.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace pmnet
