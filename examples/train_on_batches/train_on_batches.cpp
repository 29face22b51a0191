// Trains a small model on examples that the program makes itself: sums of two digits. The question is read but not
// scored; only the answer counts.
//
//   train_on_batches MODEL_FOLDER [STEPS]      writes the trained model to the folder
#include <pmnet/pmnet.h>

#include <cstdio>
#include <iostream>
#include <random>

namespace {

pmnet::Example make_example(std::mt19937& random) {
  const int a = static_cast<int>(random() % 10), b = static_cast<int>(random() % 10);
  const std::string question = std::to_string(a) + "+" + std::to_string(b) + "=";
  return {.bytes = question + std::to_string(a + b) + "\n", .prompt_bytes = static_cast<std::int64_t>(question.size())};
}

void run(const char* folder, int steps) {
  const pmnet::Model model = pmnet::Model::create("tiny", 1);
  pmnet::Trainer trainer(model, {.learning_rate = 3e-3, .total_steps = steps});
  std::mt19937 random(1);
  for (int step = 0; step < steps; ++step) {
    std::vector<pmnet::Example> batch;
    for (int row = 0; row < 16; ++row) batch.push_back(make_example(random));
    const pmnet::StepResult result = trainer.step(batch);
    if (step % 20 == 0 || step + 1 == steps)
      std::printf("step %d: %.3f bits per byte, gradient norm %.3f\n", step + 1, result.bits_per_byte,
                  result.gradient_norm);
  }
  model.save(folder);

  pmnet::Session session(model);
  session.feed("3+4=");
  std::cout << "3+4=" << session.generate({.temperature = 0, .max_bytes = 3, .stop = {"\n"}}) << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: train_on_batches MODEL_FOLDER [STEPS]\n";
    return 2;
  }
  try {
    run(argv[1], argc > 2 ? std::stoi(argv[2]) : 200);
  } catch (const pmnet::UserError& error) {
    std::cerr << "train_on_batches: " << error.what() << '\n';
    return 2;
  }
}
