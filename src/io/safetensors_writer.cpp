#include <algorithm>
#include <numeric>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/json.h"
#include "io/safetensors.h"

namespace pmnet {
namespace {

using nlohmann::json;

constexpr size_t kAlignment = 8;

struct Plan {
  std::string header;         // length field included
  std::vector<size_t> order;  // of the tensors' bytes
  uint64_t file_bytes = 0;
};

std::string json_string(const std::string& text) {
  try {
    return json(text).dump();
  } catch (const json::type_error&) {
    fail("cannot write a safetensors file: the name or value {} is not valid UTF-8", printable(text));
  }
}

// Large types first, so that every tensor is aligned to its own size; then by name.
std::vector<size_t> order_of(std::span<const TensorView> tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (tensors[a].dtype != tensors[b].dtype) return tensors[a].dtype > tensors[b].dtype;
    return tensors[a].name < tensors[b].name;
  });
  return order;
}

void check_names(std::span<const TensorView> tensors) {
  std::vector<std::string_view> names;
  for (const TensorView& tensor : tensors) names.emplace_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) fail("cannot write a safetensors file: two tensors are named {}", printable(*twice));
  if (std::binary_search(names.begin(), names.end(), "__metadata__")) {
    fail("cannot write a safetensors file: __metadata__ is not a name for a tensor");
  }
}

Plan plan_file(std::span<const TensorView> tensors, const Metadata& metadata) {
  check_names(tensors);
  Plan plan;
  plan.order = order_of(tensors);
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) text += json_string(key) + ":" + json_string(value) + ",";
    text.back() = '}';
    text += ',';
  }
  uint64_t begin = 0;
  for (const size_t index : plan.order) {
    const TensorView& tensor = tensors[index];
    const uint64_t end = begin + bytes_of(tensor);
    text += json_string(tensor.name) + fmt::format(R"(:{{"dtype":"{}","shape":)", name_of(tensor.dtype)) +
            json(tensor.shape).dump() + fmt::format(R"(,"data_offsets":[{},{}]}},)", begin, end);
    begin = end;
  }
  if (text.back() == ',') text.pop_back();
  text += '}';
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  if (text.size() > kMaxHeaderBytes || tensors.size() > kMaxTensors) {
    fail("cannot write a safetensors file: {} tensors make a header of {} bytes, above the limits of {} and {}",
         tensors.size(), text.size(), kMaxTensors, kMaxHeaderBytes);
  }
  const uint64_t length = text.size();
  for (int i = 0; i < 8; ++i) plan.header += static_cast<char>(length >> (8 * i) & 0xFF);
  plan.header += text;
  plan.file_bytes = plan.header.size() + begin;
  return plan;
}

void write_planned(FileWriter& writer, const Plan& plan, std::span<const TensorView> tensors) {
  writer.write(plan.header);
  for (const size_t index : plan.order) writer.write(tensors[index].data, bytes_of(tensors[index]));
}

}  // namespace

uint64_t bytes_of(const TensorView& tensor) {
  uint64_t bits = static_cast<uint64_t>(bits_of(tensor.dtype));
  bool sound = true;
  for (const int64_t dimension : tensor.shape) {
    sound = sound && dimension >= 0 && !__builtin_mul_overflow(bits, static_cast<uint64_t>(dimension), &bits);
  }
  if (!sound || bits % 8 != 0) {
    fail("cannot write a safetensors file: tensor {} has an impossible shape", printable(tensor.name));
  }
  return bits / 8;
}

void write_safetensors(const std::filesystem::path& new_file, std::span<const TensorView> tensors,
                       const Metadata& metadata) {
  const Plan plan = plan_file(tensors, metadata);
  FileWriter writer(new_file, plan.file_bytes);
  write_planned(writer, plan, tensors);
  writer.finish();
}

void write_safetensors_atomically(const std::filesystem::path& file, std::span<const TensorView> tensors,
                                  const Metadata& metadata) {
  const Plan plan = plan_file(tensors, metadata);
  AtomicFile atomic(file, plan.file_bytes);
  write_planned(atomic.writer(), plan, tensors);
  atomic.commit();
}

}  // namespace pmnet
