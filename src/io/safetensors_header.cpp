#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "io/safetensors.h"

namespace pmnet {
namespace {

using nlohmann::json;

// Takes the header apart event by event: a DOM of a hostile header would be ten times its size.
class HeaderHandler : public nlohmann::json_sax<json> {
 public:
  HeaderHandler(SafetensorsHeader& header, const std::string& where) : header_(header), where_(where) {}

  bool null() override {
    if (place_ == Place::kRoot && in_metadata_) return true;  // as good as absent
    return scalar("null");
  }
  bool boolean(bool) override { return scalar("true or false"); }
  bool number_integer(number_integer_t) override { return scalar("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return scalar("a number with a fraction, an exponent or too many digits");
  }
  bool binary(binary_t&) override { return scalar("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      if (value > static_cast<uint64_t>(INT64_MAX))
        fail("{}: {}: a dimension of {} is too large", where_, who(), value);
      tensor_.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place_ == Place::kOffsets) {
      offsets_.push_back(value);
      if (offsets_.size() > 2) fail("{}: {}: data_offsets has more than two numbers", where_, who());
      return true;
    }
    return scalar("a number");
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      header_.metadata[key_] = std::move(value);
      return true;
    }
    if (place_ == Place::kTensor && key_ == "dtype") {
      const std::optional<DType> dtype = find_dtype(value);
      if (!dtype) fail("{}: {}: the dtype {} is not known", where_, who(), printable(value));
      tensor_.dtype = *dtype;
      has_dtype_ = true;
      return true;
    }
    return scalar("a string");
  }

  bool start_object(size_t) override {
    if (place_ == Place::kOutside) {
      place_ = Place::kRoot;
    } else if (place_ == Place::kRoot && in_metadata_) {
      place_ = Place::kMetadata;
      keys_seen_.clear();
    } else if (place_ == Place::kRoot) {
      place_ = Place::kTensor;
      keys_seen_.clear();
    } else {
      return descend("an object");
    }
    return true;
  }

  bool key(string_t& name) override {
    switch (place_) {
      case Place::kRoot:
        in_metadata_ = name == "__metadata__";
        if (in_metadata_ && std::exchange(metadata_seen_, true)) {
          fail("{}: __metadata__ occurs twice in the header", where_);
        }
        tensor_ = TensorInfo{std::move(name), DType::kF32, {}, 0, 0};
        has_dtype_ = has_shape_ = false;
        offsets_.clear();
        break;
      case Place::kMetadata:
      case Place::kTensor:
        if (!keys_seen_.insert(name).second) fail("{}: {}: {} occurs twice", where_, who(), printable(name));
        if (keys_seen_.size() > kMaxKeys) fail("{}: {} has more than {} keys", where_, who(), kMaxKeys);
        key_ = std::move(name);
        break;
      default:
        break;
    }
    return true;
  }

  bool end_object() override {
    switch (place_) {
      case Place::kIgnored:
        ascend();
        break;
      case Place::kTensor:
        finish_tensor();
        place_ = Place::kRoot;
        break;
      case Place::kMetadata:
        place_ = Place::kRoot;
        break;
      default:
        place_ = Place::kOutside;
    }
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::kTensor && key_ == "shape") {
      place_ = Place::kShape;
      has_shape_ = true;
    } else if (place_ == Place::kTensor && key_ == "data_offsets") {
      place_ = Place::kOffsets;
    } else {
      return descend("a list");
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kIgnored) {
      ascend();
    } else {
      place_ = Place::kTensor;
    }
    return true;
  }

  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    fail("{}: the header is not valid JSON at its byte {}; the file is damaged or of another kind", where_, position);
  }

 private:
  enum class Place { kOutside, kRoot, kMetadata, kTensor, kShape, kOffsets, kIgnored };

  std::string who() const { return in_metadata_ ? "__metadata__" : "tensor " + printable(tensor_.name); }

  bool expects_nothing_of_this_key() const {
    return place_ == Place::kTensor && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets";
  }

  bool scalar(const char* what) {
    if (place_ == Place::kIgnored || expects_nothing_of_this_key()) return true;
    refuse(what);
  }

  bool descend(const char* what) {
    if (place_ != Place::kIgnored && !expects_nothing_of_this_key()) refuse(what);
    place_ = Place::kIgnored;
    if (++ignored_depth_ > kMaxJsonDepth) {
      fail("{}: {}: nested deeper than {} levels", where_, who(), kMaxJsonDepth);
    }
    return true;
  }

  void ascend() {
    if (--ignored_depth_ == 0) place_ = Place::kTensor;
  }

  [[noreturn]] void refuse(const char* what) const {
    switch (place_) {
      case Place::kOutside:
        fail("{}: the header is {}, and an object is needed", where_, what);
      case Place::kRoot:
        fail("{}: {} is {}, and an object is needed", where_, who(), what);
      case Place::kMetadata:
        fail("{}: __metadata__: {} is {}, and only strings are allowed", where_, printable(key_), what);
      case Place::kShape:
      case Place::kOffsets:
        fail("{}: {}: {} holds {}, and only whole numbers from 0 are allowed", where_, who(), key_, what);
      default:
        fail("{}: {}: {} is {}, and {} is needed", where_, who(), key_, what, key_ == "dtype" ? "a string" : "a list");
    }
  }

  void finish_tensor() {
    for (const auto& [present, name] : {std::pair{has_dtype_, "dtype"}, std::pair{has_shape_, "shape"},
                                        std::pair{keys_seen_.contains("data_offsets"), "data_offsets"}}) {
      if (!present) fail("{}: {}: {} is missing", where_, who(), name);
    }
    if (offsets_.size() != 2) fail("{}: {}: data_offsets must be two numbers", where_, who());
    tensor_.begin = offsets_[0];
    tensor_.end = offsets_[1];
    if (header_.tensors.size() == kMaxTensors) fail("{}: has more than {} tensors", where_, kMaxTensors);
    header_.tensors.push_back(std::move(tensor_));
  }

  SafetensorsHeader& header_;
  const std::string& where_;
  Place place_ = Place::kOutside;
  bool in_metadata_ = false;  // the root key now being read is __metadata__
  bool metadata_seen_ = false;
  int ignored_depth_ = 0;
  std::string key_;
  std::set<std::string> keys_seen_;
  TensorInfo tensor_;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  std::vector<uint64_t> offsets_;
};

uint64_t size_from_shape(const TensorInfo& tensor, const std::string& where) {
  uint64_t bits = 1;
  bool overflow = false;
  for (const int64_t dimension : tensor.shape) {
    overflow |= __builtin_mul_overflow(bits, static_cast<uint64_t>(dimension), &bits);
  }
  overflow |= __builtin_mul_overflow(bits, static_cast<uint64_t>(bits_of(tensor.dtype)), &bits);
  if (overflow) fail("{}: tensor {}: the product of its shape overflows", where, printable(tensor.name));
  if (bits % 8 != 0) fail("{}: tensor {}: its elements do not fill whole bytes", where, printable(tensor.name));
  return bits / 8;
}

void check_layout(const std::vector<TensorInfo>& tensors, uint64_t data_bytes, const std::string& where) {
  uint64_t expected_begin = 0;
  for (const TensorInfo& tensor : tensors) {
    const auto refuse = [&](const std::string& what) {
      fail("{}: tensor {}: {}", where, printable(tensor.name), what);
    };
    if (tensor.end < tensor.begin) {
      refuse(fmt::format("ends at byte {}, before it begins at {}", tensor.end, tensor.begin));
    }
    if (tensor.begin < expected_begin) {
      refuse(fmt::format("begins at byte {}, inside the tensor before it, which ends at {}", tensor.begin,
                         expected_begin));
    }
    if (tensor.begin > expected_begin) {
      refuse(fmt::format("begins at byte {}, leaving a hole after byte {}", tensor.begin, expected_begin));
    }
    if (const uint64_t bytes = size_from_shape(tensor, where); bytes != tensor.bytes()) {
      refuse(fmt::format("its shape and dtype need {} bytes, its data_offsets hold {}", bytes, tensor.bytes()));
    }
    if (tensor.end > data_bytes) {
      refuse(fmt::format("ends at byte {}, but the file holds only {} bytes of data; it is cut off", tensor.end,
                         data_bytes));
    }
    expected_begin = tensor.end;
  }
  if (expected_begin != data_bytes) {
    fail("{}: has {} bytes after its last tensor, which the format does not allow", where, data_bytes - expected_begin);
  }
}

void refuse_duplicate_names(const std::vector<TensorInfo>& tensors, const std::string& where) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) names.emplace_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) fail("{}: tensor {} occurs twice in the header", where, printable(*twice));
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json_text, uint64_t data_bytes, const std::string& where) {
  if (json_text.starts_with("\xEF\xBB\xBF")) fail("{}: the header starts with a byte order mark", where);
  if (const size_t nul = json_text.find('\0'); nul != std::string_view::npos) {
    fail("{}: the header holds a NUL byte at its byte {}; the file is damaged or of another kind", where, nul);
  }
  SafetensorsHeader header;
  HeaderHandler handler(header, where);
  json::sax_parse(json_text.begin(), json_text.end(), &handler);
  refuse_duplicate_names(header.tensors, where);
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_layout(header.tensors, data_bytes, where);
  return header;
}

}  // namespace pmnet
