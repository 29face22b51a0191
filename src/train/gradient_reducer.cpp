#include "train/gradient_reducer.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace pmnet {

namespace {

class SingleRank : public GradientReducer {
  void add(size_t) override {}
};

class BucketedReducer : public GradientReducer {
 public:
  BucketedReducer(std::vector<at::Tensor> parameters, ProcessGroup& group, int64_t bucket_bytes)
      : parameters_(std::move(parameters)), group_(group), bucket_of_(parameters_.size()) {
    int64_t filled = bucket_bytes;
    for (size_t i = parameters_.size(); i-- > 0;) {
      if (filled >= bucket_bytes) {
        buckets_.emplace_back();
        filled = 0;
      }
      buckets_.back().members.push_back(i);
      bucket_of_[i] = buckets_.size() - 1;
      filled += static_cast<int64_t>(parameters_[i].nbytes());
      torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i], std::make_unique<Hook>(*this, i));
    }
  }

  ~BucketedReducer() override {
    for (const at::Tensor& parameter : parameters_) torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  }

  void expect_last_backward() override { armed_ = true; }

  void add(size_t index) override {
    if (!armed_) return;
    ++buckets_[bucket_of_[index]].ready;
    while (next_ < buckets_.size() && buckets_[next_].ready == buckets_[next_].members.size()) launch_next();
  }

  void finalize() override {
    armed_ = false;
    while (next_ < buckets_.size()) launch_next();
    next_ = 0;
    for (Bucket& bucket : buckets_) {
      bucket.wait();
      int64_t begin = 0;
      for (const size_t i : bucket.members) {
        const at::Tensor& p = parameters_[i];
        if (p.grad().defined()) p.grad().copy_(bucket.flat.narrow(0, begin, p.numel()).view_as(p));
        begin += p.numel();
      }
      bucket.ready = 0;
      bucket.flat = at::Tensor();
    }
  }

 private:
  struct Hook : torch::autograd::PostAccumulateGradHook {
    Hook(BucketedReducer& r, size_t i) : reducer(r), index(i) {}
    void operator()(const at::Tensor&) override { reducer.add(index); }
    BucketedReducer& reducer;
    size_t index;
  };
  struct Bucket {
    std::vector<size_t> members;
    size_t ready = 0;
    at::Tensor flat;
    ProcessGroup::Wait wait;
  };

  void launch_next() {
    at::NoGradGuard no_grad;
    Bucket& bucket = buckets_[next_++];
    std::vector<at::Tensor> pieces;
    for (const size_t i : bucket.members) {
      const at::Tensor& p = parameters_[i];
      pieces.push_back(p.grad().defined() ? p.grad().flatten() : at::zeros({p.numel()}, p.options()));
    }
    bucket.flat = at::cat(pieces);
    bucket.wait = group_.start_sum(bucket.flat);
  }

  std::vector<at::Tensor> parameters_;
  ProcessGroup& group_;
  std::vector<size_t> bucket_of_;
  std::vector<Bucket> buckets_;
  size_t next_ = 0;  // bucket to sum next
  bool armed_ = false;
};

}  // namespace

std::unique_ptr<GradientReducer> make_gradient_reducer(std::vector<at::Tensor> parameters, ProcessGroup& group,
                                                       int64_t bucket_bytes) {
  if (group.world() == 1) return std::make_unique<SingleRank>();
  return std::make_unique<BucketedReducer>(std::move(parameters), group, bucket_bytes);
}

}  // namespace pmnet
