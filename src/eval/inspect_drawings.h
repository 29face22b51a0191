// The pictures of an inspection as SVG, to stand inside a page: they take its colours.
#pragma once
#include <string>

#include "eval/inspect.h"

namespace pmnet {

// A different colour for each slot, by hue and lightness.
std::string slot_colour(int64_t slot);

// Bits per byte and, below it for each level, which slots the bytes chose, all along the text.
std::string draw_course(const Inspection& inspection);
// The tree, root on top: the width of a group is its share of the bytes.
std::string draw_load(const Inspection& inspection);
// The phases of one slot as points on the unit circle, how many lie in each direction, and their mean.
std::string draw_phase_cloud(const Inspection& inspection, const SlotName& slot);

// Length of the mean of the points on the unit circle: 1 when all phases agree, near 0 when they point everywhere.
double agreement(const Inspection& inspection, const SlotName& slot);

}  // namespace pmnet
