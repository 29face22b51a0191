// Scores every line of standard input by what it costs the model in bits, and marks the lines that stand out. The model
// remembers all earlier lines in constant space, so the input may be endless.
//
//   tail -f app.log | score_stream [MODEL_FOLDER]      without a folder: a tiny model with random weights
#include <pmnet/pmnet.h>

#include <cstdio>
#include <iostream>
#include <numeric>

namespace {

void run(const pmnet::Model& model) {
  pmnet::Session session(model);
  double mean = 0;  // bits per byte of the lines so far
  std::string line;
  for (int number = 1; std::getline(std::cin, line); ++number) {
    line += '\n';
    const std::vector<double> bits = session.score(line);
    const double per_byte = std::accumulate(bits.begin(), bits.end(), 0.0) / static_cast<double>(bits.size());
    const bool unusual = number > 10 && per_byte > 1.5 * mean;
    mean += (per_byte - mean) / number;
    std::printf("%d\t%.2f bits per byte%s\n", number, per_byte, unusual ? "\tunusual" : "");
  }
  std::printf("%lld bytes, state of %lld bytes\n", static_cast<long long>(session.bytes_read()),
              static_cast<long long>(session.state_bytes()));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? pmnet::Model::load(argv[1]) : pmnet::Model::create("tiny", 1));
  } catch (const pmnet::UserError& error) {
    std::cerr << "score_stream: " << error.what() << '\n';
    return 2;
  }
}
