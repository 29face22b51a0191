#include <ATen/ATen.h>

#include <algorithm>
#include <numbers>

#include "api/internal.h"

namespace pmnet::inline v0 {

struct Session::Impl {
  Model model;
  internal::EngineSession session;

  // A memory file may have been written before anything was read.
  void begin_text() {
    if (!session.last_logits().defined()) session.feed({session.engine().bos_token_id()});
  }
};

namespace {

std::vector<int64_t> ids_of(std::string_view bytes) {
  const auto* first = reinterpret_cast<const unsigned char*>(bytes.data());
  return {first, first + bytes.size()};
}

GenerateSettings settings_of(const GenerateOptions& options) {
  return {.sampling = {.temperature = options.temperature,
                       .top_k = options.top_k,
                       .top_p = options.top_p,
                       .seed = options.seed},
          .max_bytes = options.max_bytes,
          .stop = options.stop};
}

GenerateStop stop_of(StopReason reason) {
  switch (reason) {
    case StopReason::kMaxBytes:
      return GenerateStop::kMaxBytes;
    case StopReason::kEndOfText:
      return GenerateStop::kEndOfText;
    case StopReason::kStopString:
      return GenerateStop::kStopString;
    case StopReason::kReceiver:
      return GenerateStop::kReceiver;
  }
  throw std::logic_error("unknown StopReason");
}

}  // namespace

Session::Session(const Model& model) : impl_(new Impl{model, internal::EngineSession(model.impl_->engine())}) {
  impl_->begin_text();
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

void Session::feed(std::string_view bytes) {
  if (!bytes.empty()) impl_->session.read(at::tensor(ids_of(bytes), at::kLong).unsqueeze(0));
}

std::vector<double> Session::score(std::string_view bytes) {
  std::vector<double> bits;
  const auto chunk = static_cast<size_t>(impl_->session.chunk());
  for (size_t begin = 0; begin < bytes.size(); begin += chunk) {
    const std::vector<int64_t> ids = ids_of(bytes.substr(begin, chunk));
    const auto T = static_cast<int64_t>(ids.size());
    // The logits before each byte: those the last chunk ended with, then all of this chunk but its last.
    const Tensor before = impl_->session.last_logits().unsqueeze(1);                                      // [1,1,V]
    const Tensor logits = at::cat({before, impl_->session.feed(ids)}, 1)[0].narrow(0, 0, T);              // [T,V]
    const Tensor nats = -logits.to(at::kDouble).log_softmax(-1).gather(1, at::tensor(ids).view({T, 1}));  // [T,1]
    const double* cost = nats.const_data_ptr<double>();
    std::transform(cost, cost + T, std::back_inserter(bits), [](double nat) { return nat / std::numbers::ln2; });
  }
  return bits;
}

std::vector<float> Session::logits() const {
  const Tensor last = impl_->session.last_logits().to(at::kFloat).contiguous();
  return {last.const_data_ptr<float>(), last.const_data_ptr<float>() + last.numel()};
}

GenerateStop Session::generate(const GenerateOptions& options, const Receiver& receive) {
  const GenerateSettings settings = settings_of(options);
  if (const std::vector<std::string> problems = settings.problems(); !problems.empty()) throw UserError(problems[0]);
  return stop_of(Generator(impl_->session).generate(settings, receive).reason);
}

std::string Session::generate(const GenerateOptions& options) {
  std::string text;
  generate(options, [&](std::string_view bytes) {
    text += bytes;
    return true;
  });
  return text;
}

Session Session::fork() const { return Session(std::make_unique<Impl>(*impl_)); }
std::size_t Session::keep_point() { return impl_->session.keep_point(); }
void Session::rewind(std::size_t point) { impl_->session.rewind(point); }
void Session::save(const std::filesystem::path& file) const { impl_->session.save(file); }

Session Session::load(const std::filesystem::path& file, const Model& model) {
  internal::EngineSession loaded = internal::EngineSession::load(file, model.impl_->engine());
  if (loaded.batch() != 1)
    fail("{}: holds {} sequences; this interface reads files of one sequence", file.string(), loaded.batch());
  Session session(std::unique_ptr<Impl>(new Impl{model, std::move(loaded)}));
  session.impl_->begin_text();
  return session;
}

std::int64_t Session::bytes_read() const { return impl_->session.position() - 1; }  // BOS is not a byte of the text
std::int64_t Session::state_bytes() const { return pmnet::state_bytes(impl_->session.state()); }
const Model& Session::model() const { return impl_->model; }

}  // namespace pmnet::inline v0
