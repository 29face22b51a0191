#pragma once
#include <string>

namespace pmnet {

struct DemoOptions {
  std::string text;  // empty: see find_demo_text()
  std::string out;   // empty: runs/demo, or the next free number
  std::string preset = "tiny";
  double seconds = 180;
};

// The whole way in some minutes: trains a small model on a text, measures it on a part that it has not seen, with and
// without its memory and beside the model that ships with the program, generates a paragraph, and shows that reading in
// chunks and restoring a memory change nothing. False when they do.
bool run_demo(const DemoOptions& options);

}  // namespace pmnet
