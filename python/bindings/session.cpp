#include <ATen/ATen.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <numbers>
#include <optional>

#include "base/error.h"
#include "bindings.h"

namespace pmnet::python {
namespace {

using StreamPointer = std::shared_ptr<Stream>;

StreamPointer start(const std::shared_ptr<Model>& model, int64_t batch) {
  if (batch < 1) fail("a session of {} sequences reads nothing; expected at least 1", batch);
  return std::make_shared<Stream>(model, Session(model->engine, batch));
}

// Ids [B,T] with BOS in front of them if nothing was read before.
at::Tensor with_bos(const Stream& stream, const at::Tensor& ids) {
  const Session& session = stream.session;
  TORCH_CHECK_TYPE(ids.scalar_type() == at::kLong, "ids have type ", ids.scalar_type(), "; expected int64");
  TORCH_CHECK_VALUE(ids.dim() == 2 && ids.size(0) == session.batch(), "ids have shape ", ids.sizes(), "; expected [",
                    session.batch(), ", any length]");
  if (session.last_logits().defined()) return ids;
  return at::cat({at::full({ids.size(0), 1}, session.engine().bos_token_id(), at::kLong), ids.cpu()}, 1);
}

void begin_text(Stream& stream) {
  if (!stream.session.last_logits().defined())
    stream.session.read(with_bos(stream, at::empty({stream.session.batch(), 0}, at::kLong)));
}

// The logits [B,V] after the last id.
at::Tensor read(Stream& stream, const at::Tensor& ids) {
  return stream.locked([&] {
    const at::Tensor all = with_bos(stream, ids);
    if (all.size(1) > 0) stream.session.read(all);
    return stream.session.last_logits();
  });
}

// The logits [B,T,V] after each id.
at::Tensor feed(Stream& stream, const at::Tensor& ids) {
  return stream.locked([&] {
    const at::Tensor logits = stream.session.feed(with_bos(stream, ids));
    return logits.narrow(1, logits.size(1) - ids.size(1), ids.size(1));
  });
}

// Bits [B,T] of each id, float64.
at::Tensor score(Stream& stream, const at::Tensor& ids) {
  return stream.locked([&] {
    begin_text(stream);
    const at::Tensor here = with_bos(stream, ids).cpu();
    std::vector<at::Tensor> pieces{at::empty({here.size(0), 0}, at::kDouble)};
    const int64_t chunk = stream.session.chunk();
    for (int64_t begin = 0; begin < here.size(1); begin += chunk) {
      const at::Tensor part = here.narrow(1, begin, std::min(chunk, here.size(1) - begin));
      const at::Tensor before = stream.session.last_logits().unsqueeze(1);  // [B,1,V]
      const at::Tensor logits = at::cat({before, stream.session.feed(part)}, 1).narrow(1, 0, part.size(1));
      const at::Tensor log_p = logits.to(at::kCPU, at::kDouble).log_softmax(-1);
      pieces.push_back(log_p.gather(2, part.unsqueeze(2)).squeeze(2) / -std::numbers::ln2);
    }
    return at::cat(pieces, 1);
  });
}

nb::dict traced(Stream& stream, const at::Tensor& ids) {
  Trace trace;
  at::Tensor final_hidden, logits;
  stream.locked([&] {
    begin_text(stream);
    final_hidden = stream.session.feed(with_bos(stream, ids), trace);
    logits = stream.session.engine().logits(final_hidden);
  });
  std::vector<at::Tensor> path;
  for (const ops::Phases& phases : trace.path)
    if (phases.turns || phases.angle) path.push_back(phases.turns ? *phases.turns : *phases.angle);
  nb::dict out;
  out["logits"] = logits;
  out["hidden"] = final_hidden;
  out["layers"] = trace.hidden;
  out["groups"] = trace.groups;
  out["routes"] = trace.routes;
  out["route_weights"] = trace.route_weights;
  out["read_weights"] = trace.read_weights;
  out["path"] = path;
  return out;
}

// References to the session's own tensors.
std::vector<at::Tensor> memory(const Stream& stream, int64_t row) {
  return stream.locked([&] {
    TORCH_CHECK_INDEX(row >= 0 && row < stream.session.batch(), "there is no row ", row, " in a session of ",
                      stream.session.batch());
    std::vector<at::Tensor> levels;
    for (const at::Tensor& level : stream.session.state()[row].memory) levels.push_back(level[0]);
    return levels;
  });
}

std::vector<std::pair<at::Tensor, at::Tensor>> window(const Stream& stream, int64_t row) {
  return stream.locked([&] {
    TORCH_CHECK_INDEX(row >= 0 && row < stream.session.batch(), "there is no row ", row, " in a session of ",
                      stream.session.batch());
    std::vector<std::pair<at::Tensor, at::Tensor>> layers;
    for (const KvWindow& layer : stream.session.state()[row].attention)
      layers.emplace_back(layer.keys()[0], layer.values()[0]);
    return layers;
  });
}

// A text that is being written: holds the session it continues.
struct Text {
  StreamPointer stream;
  Continuation continuation;
};

std::shared_ptr<Text> generate(const StreamPointer& stream, const GenerateSettings& settings) {
  if (const auto problems = settings.problems(); !problems.empty()) throw UserError(problems[0]);
  if (stream->session.batch() != 1)
    fail("this session holds {} sequences; text is generated by a session of one", stream->session.batch());
  return stream->locked([&] {
    begin_text(*stream);
    return std::shared_ptr<Text>(new Text{stream, Continuation(stream->session, settings)});
  });
}

const char* name_of(StopReason reason) {
  constexpr const char* kNames[] = {"max_bytes", "end_of_text", "stop", "receiver"};
  return kNames[static_cast<int>(reason)];
}

}  // namespace

void bind_session(nb::module_& m) {
  nb::class_<Text>(m, "Text")
      .def(
          "next",
          [](Text& text) -> nb::object {
            const auto bytes = text.stream->locked([&] { return text.continuation.next(); });
            return bytes ? nb::object(nb::bytes(bytes->data(), bytes->size())) : nb::none();
          },
          nb::sig("def next(self) -> bytes | None"))
      .def_prop_ro("reason", [](const Text& text) { return name_of(text.continuation.result().reason); })
      .def_prop_ro("bytes", [](const Text& text) { return text.continuation.result().bytes; });

  m.def("start_session", &start, nb::arg("model"), nb::arg("batch"));
  m.def(
      "load_session",
      [](const std::string& file, const std::shared_ptr<Model>& model) {
        return without_gil([&] { return std::make_shared<Stream>(model, Session::load(file, model->engine)); });
      },
      nb::arg("file"), nb::arg("model"));
  nb::class_<Stream>(m, "Session")
      .def("read", &read, nb::arg("ids"))
      .def("feed", &feed, nb::arg("ids"))
      .def("score", &score, nb::arg("ids"))
      .def("trace", &traced, nb::arg("ids"))
      .def("memory", &memory, nb::arg("row"))
      .def("window", &window, nb::arg("row"))
      .def(
          "generate",
          [](const StreamPointer& stream, int64_t max_bytes, double temperature, int64_t top_k, double top_p,
             uint64_t seed, std::vector<nb::bytes> stop) {
            GenerateSettings settings{
                .sampling = {.temperature = temperature, .top_k = top_k, .top_p = top_p, .seed = seed},
                .max_bytes = max_bytes,
                .stop = {}};
            for (const nb::bytes& text : stop) settings.stop.emplace_back(text.c_str(), text.size());
            return generate(stream, settings);
          },
          nb::arg("max_bytes"), nb::arg("temperature"), nb::arg("top_k"), nb::arg("top_p"), nb::arg("seed"),
          nb::arg("stop"))
      .def("fork",
           [](const Stream& stream) {
             return stream.locked([&] { return std::make_shared<Stream>(stream.model, stream.session.fork()); });
           })
      .def("keep_point", [](Stream& stream) { return stream.locked([&] { return stream.session.keep_point(); }); })
      .def(
          "rewind", [](Stream& stream, size_t point) { stream.locked([&] { stream.session.rewind(point); }); },
          nb::arg("point"))
      .def(
          "save",
          [](const Stream& stream, const std::string& file) { stream.locked([&] { stream.session.save(file); }); },
          nb::arg("file"))
      .def_prop_ro("logits",
                   [](const Stream& stream) -> std::optional<at::Tensor> {
                     const at::Tensor last = stream.locked([&] { return stream.session.last_logits(); });
                     return last.defined() ? std::optional(last) : std::nullopt;
                   })
      .def_prop_rw(
          "chunk", [](const Stream& stream) { return stream.session.chunk(); },
          [](Stream& stream, int64_t tokens) { stream.locked([&] { stream.session.set_chunk(tokens); }); })
      .def_prop_ro("batch", [](const Stream& stream) { return stream.session.batch(); })
      .def_prop_ro("num_points",
                   [](const Stream& stream) { return stream.locked([&] { return stream.session.num_points(); }); })
      .def_prop_ro(
          "state_bytes",
          [](const Stream& stream) { return stream.locked([&] { return state_bytes(stream.session.state()); }); })
      .def(
          "position",
          [](const Stream& stream, int64_t row) { return stream.locked([&] { return stream.session.position(row); }); },
          nb::arg("row"))
      .def_prop_ro("model", [](const Stream& stream) { return stream.model; });
}

}  // namespace pmnet::python
