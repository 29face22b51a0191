#pragma once
#include <string>

namespace pmnet {

// Text as a gnuplot string in which nothing is special.
std::string gnuplot_quote(const std::string& text);

// Runs gnuplot on `commands` after choosing a terminal for the extension of `path`, .svg or .png, and writes the
// picture once it is complete. Sizes are in pixels.
void draw_with_gnuplot(const std::string& path, int width, int height, const std::string& commands);

}  // namespace pmnet
