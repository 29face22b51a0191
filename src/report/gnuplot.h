#pragma once
#include <functional>
#include <string>

namespace pmnet {

// Text as a gnuplot string in which nothing is special.
std::string gnuplot_quote(const std::string& text);

// Runs gnuplot on the script that `script_for(output)` returns and puts the picture at `path` once it is complete.
void draw_with_gnuplot(const std::string& path,
                       const std::function<std::string(const std::string& output)>& script_for);

}  // namespace pmnet
