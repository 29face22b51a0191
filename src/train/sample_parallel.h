// Whole samples on each thread, instead of every operation on all threads. A small model's operations take
// microseconds: dividing each among threads costs more than it saves, while a forward and backward pass of some rows
// needs no other thread until its gradients are added.
#pragma once
#include <memory>
#include <vector>

#include "model/language_model.h"
#include "train/sequence_loss.h"

namespace pmnet {

// Into how many parts the rows of a batch are divided, each with its own gradients; 1: one pass, whose operations
// use all threads.
int64_t sample_parts(int64_t rows, int64_t context, int64_t parameters, int64_t threads);

class SampleParallel {
 public:
  // The model must outlive this object.
  explicit SampleParallel(LanguageModel& model);

  // loss_and_gradients() of the model, part by part. Rows are independent, so this is the same sum in another order.
  // A part is one or more passes short enough for the caches. How rows are divided depends on the shape and the number
  // of threads alone: equal threads give equal bits. `before_last_backward` is called for a batch in one part only:
  // parts leave nothing in .grad until all are done.
  LossSum loss_and_gradients(const SequenceBatch& batch, const LossOptions& options);

 private:
  // Shares the weights and has its own gradients, so that threads do not write to the same .grad.
  struct Replica {
    std::unique_ptr<LanguageModel> model;
    std::vector<Tensor*> parameters;
  };
  void make_replicas(size_t count);
  void share_weights(Replica& replica) const;
  void add_gradients(size_t count);

  LanguageModel& model_;
  std::vector<Tensor> parameters_;
  int64_t num_multiplied_ = 0;  // parameters
  std::vector<Replica> replicas_;
};

}  // namespace pmnet
