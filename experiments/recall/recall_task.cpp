#include "experiments/recall/recall_task.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "data/permutation.h"
#include "engine/session.h"

namespace pmnet {

namespace {

// Keys of the random numbers, so that training and questions never share a sample.
constexpr uint64_t kTrainingKey = 0x7472, kQuestionKey = 0x7175;

int64_t draw(uint64_t key, uint64_t number, int64_t choices) {
  return static_cast<int64_t>(splitmix64(key, number) % static_cast<uint64_t>(choices));
}

int64_t draw_distance(const RecallRange& range, uint64_t key) {
  const int64_t choices = range.most - range.least + 1;
  if (!range.log_uniform) return range.least + draw(key, 5, choices);
  const double share = static_cast<double>(splitmix64(key, 5) >> 11) * 0x1p-53;  // in [0, 1)
  return range.least + static_cast<int64_t>(std::pow(static_cast<double>(choices + 1), share)) - 1;
}

}  // namespace

RecallSample make_recall_sample(const RecallTask& task, int64_t num_facts, uint64_t key) {
  RecallSample sample;
  const Permutation order(static_cast<uint64_t>(task.keys), splitmix64(key, 1));
  const int64_t asked = draw(key, 2, num_facts);
  for (int64_t i = 0; i < num_facts; ++i) {
    const int64_t name = RecallTask::kFirstKey + static_cast<int64_t>(order(static_cast<uint64_t>(i)));
    const int64_t value = RecallTask::kFirstValue + draw(key, 16 + static_cast<uint64_t>(i), task.values);
    sample.facts.insert(sample.facts.end(), {name, value});
    if (i == asked) {
      sample.question = name;
      sample.answer = value;
    }
  }
  return sample;
}

int64_t recall_filler(const RecallTask& task, uint64_t key, int64_t position) {
  return RecallTask::kFirstFiller + draw(splitmix64(key, 3), static_cast<uint64_t>(position), task.fillers);
}

Batch make_recall_batch(const RecallTask& task, const RecallRange& range, uint64_t seed, int64_t step, int64_t rows) {
  Batch batch;
  batch.step = step;
  batch.rows = rows;
  std::vector<std::vector<int64_t>> texts;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t number = step * rows + row;
    const uint64_t key = splitmix64(splitmix64(kTrainingKey, seed), static_cast<uint64_t>(number));
    const int64_t num_facts = range.facts[static_cast<size_t>(draw(key, 4, std::ssize(range.facts)))];
    const int64_t distance = draw_distance(range, key);
    const RecallSample sample = make_recall_sample(task, num_facts, key);
    std::vector<int64_t>& text = texts.emplace_back();
    text.push_back(task.bos);
    text.insert(text.end(), sample.facts.begin(), sample.facts.end());
    for (int64_t i = 0; i < distance; ++i) text.push_back(recall_filler(task, key, i));
    text.insert(text.end(), {sample.question, sample.answer});
    batch.context = std::max(batch.context, std::ssize(text) - 1);
    batch.sample_ids.push_back(number);
  }
  batch.ids.assign(static_cast<size_t>(rows * (batch.context + 1)), 0);
  batch.loss_mask.assign(static_cast<size_t>(rows * batch.context), 0);
  batch.continues.assign(static_cast<size_t>(rows), 0);
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<int64_t>& text = texts[static_cast<size_t>(row)];
    std::copy(text.begin(), text.end(), batch.ids.begin() + row * (batch.context + 1));
    batch.lengths.push_back(std::ssize(text) - 1);
    batch.loss_mask[static_cast<size_t>(row * batch.context + std::ssize(text) - 2)] = 1;
  }
  batch.hash = hash_batch(batch);
  return batch;
}

RecallScore score_recall(const LanguageModel& model, const MemorySwitches& switches, const RecallTask& task,
                         const RecallQuestion& question, const std::function<void(int64_t position)>& between) {
  at::NoGradGuard no_grad;
  const int64_t streams = question.streams;
  std::vector<uint64_t> keys;
  std::vector<int64_t> start, asked, answers;
  for (int64_t s = 0; s < streams; ++s) {
    const uint64_t key = splitmix64(splitmix64(kQuestionKey, question.seed), static_cast<uint64_t>(s));
    const RecallSample sample = make_recall_sample(task, question.facts, key);
    keys.push_back(key);
    start.push_back(task.bos);
    start.insert(start.end(), sample.facts.begin(), sample.facts.end());
    asked.push_back(sample.question);
    answers.push_back(sample.answer);
  }
  const auto column = [&](const std::vector<int64_t>& ids) { return at::tensor(ids, at::kLong).view({streams, -1}); };
  Session session(make_engine(model, switches), streams);
  session.set_chunk(question.chunk);
  session.read(column(start));

  RecallScore score;
  score.streams = streams;
  int64_t position = 0;
  for (const int64_t distance : question.distances) {
    while (position < distance) {
      const int64_t count = std::min(question.chunk, distance - position);
      std::vector<int64_t> filler;
      for (const uint64_t key : keys)
        for (int64_t i = 0; i < count; ++i) filler.push_back(recall_filler(task, key, position + i));
      session.read(column(filler));
      position += count;
      if (between) between(position);
    }
    Session fork = session.fork();
    const Tensor logits = fork.read(column(asked));
    const Tensor targets = at::tensor(answers, at::kLong);
    score.right.push_back((logits.argmax(-1) == targets).sum().item<int64_t>());
    score.loss.push_back(at::nll_loss(at::log_softmax(logits.to(at::kDouble), -1), targets).item<double>());
  }
  return score;
}

}  // namespace pmnet
