#pragma once
#include <string>

#include "report/plot.h"

namespace pmnet {

// A line chart in letters, for terminals: each series is averaged per column and drawn with its own mark. Empty
// when there is nothing to draw.
std::string text_chart(const LineChart& chart, int columns = 64, int rows = 12);

}  // namespace pmnet
