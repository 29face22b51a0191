// The smallest use of the library: read a prompt, continue it, list the likeliest next bytes.
//
//   embed [MODEL_FOLDER] < prompt      without a folder: a tiny model with random weights
#include <pmnet/pmnet.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <numeric>

namespace {

// Probabilities of the next id.
std::vector<double> softmax(const std::vector<float>& logits) {
  const float highest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> share;
  for (const float logit : logits) share.push_back(std::exp(static_cast<double>(logit - highest)));
  const double sum = std::accumulate(share.begin(), share.end(), 0.0);
  for (double& p : share) p /= sum;
  return share;
}

void run(const pmnet::Model& model) {
  const std::string prompt(std::istreambuf_iterator<char>(std::cin), {});
  pmnet::Session session(model);
  session.feed(prompt);
  std::cout << session.bytes_read() << " bytes read, " << session.state_bytes() << " bytes of state\n";

  const std::vector<double> probability = softmax(session.logits());
  std::vector<int> byte(256);
  std::iota(byte.begin(), byte.end(), 0);
  std::partial_sort(byte.begin(), byte.begin() + 3, byte.end(),
                    [&](int a, int b) { return probability[a] > probability[b]; });
  for (int i = 0; i < 3; ++i) std::cout << "next byte " << byte[i] << ", probability " << probability[byte[i]] << '\n';

  std::cout << "continuation: " << session.generate({.temperature = 0.8, .seed = 1, .max_bytes = 60}) << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  std::cout << "pmnet " << pmnet::version() << '\n';
  try {
    run(argc > 1 ? pmnet::Model::load(argv[1]) : pmnet::Model::create("tiny", 1));
  } catch (const pmnet::UserError& error) {
    std::cerr << "embed: " << error.what() << '\n';
    return 2;
  }
}
