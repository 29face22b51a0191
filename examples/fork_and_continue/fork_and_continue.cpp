// Reads a text once and asks several questions of the same memory: a fork per question, a kept point to return to, and
// a memory file that a later process can continue from.
//
//   fork_and_continue MEMORY_FILE [MODEL_FOLDER] < text
#include <pmnet/pmnet.h>

#include <iostream>
#include <iterator>
#include <numeric>

namespace {

double cost(const std::vector<double>& bits) { return std::accumulate(bits.begin(), bits.end(), 0.0); }

void run(const pmnet::Model& model, const char* memory_file) {
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  pmnet::Session session(model);
  session.feed(text);

  // Each ending is scored by a fork, so that all of them follow the same text.
  for (const char* ending : {" The end.", " To be continued.", " #!/bin/sh"})
    std::cout << cost(session.fork().score(ending)) << " bits for" << ending << '\n';

  // One session can also go back by itself.
  const size_t after_text = session.keep_point();
  const double once = cost(session.score("again"));
  session.rewind(after_text);
  std::cout << "rewound: " << (cost(session.score("again")) == once ? "the same bits" : "different bits") << '\n';
  session.rewind(after_text);

  session.save(memory_file);
  pmnet::Session later = pmnet::Session::load(memory_file, model);
  const pmnet::GenerateOptions options{.seed = 1, .max_bytes = 40};
  std::cout << "restored: " << (later.generate(options) == session.generate(options) ? "the same text" : "another text")
            << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: fork_and_continue MEMORY_FILE [MODEL_FOLDER] < text\n";
    return 2;
  }
  try {
    run(argc > 2 ? pmnet::Model::load(argv[2]) : pmnet::Model::create("tiny", 1), argv[1]);
  } catch (const pmnet::UserError& error) {
    std::cerr << "fork_and_continue: " << error.what() << '\n';
    return 2;
  }
}
