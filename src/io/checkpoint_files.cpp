#include "io/checkpoint_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/pickle.h"
#include "io/hub_files.h"

namespace pmnet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr size_t kLongestList = 20;

bool is_inside(const fs::path& file, const fs::path& folder) {
  const fs::path relative = file.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != ".." && !relative.is_absolute();
}

// A shard is a plain name; a link must stay in the folder, or in the blob store of the Hugging Face cache it is in.
fs::path shard_path(const fs::path& folder, const std::string& name, const std::string& where) {
  const bool plain = !name.empty() && name != "." && name != ".." && name.find_first_of("/\\") == std::string::npos &&
                     name.find('\0') == std::string::npos;
  if (!plain) fail("{}: the shard {} is not a plain file name in the same folder", where, printable(name));
  if (!name.ends_with(".safetensors")) fail("{}: the shard {} is not a .safetensors file", where, printable(name));
  const fs::path path = folder / name;
  std::error_code error;
  if (!fs::exists(path, error)) {
    fail("{}: the shard {} is missing; fetch it again", where, printable(name));
  }
  const fs::path real = fs::canonical(path);
  const fs::path home = fs::canonical(folder);
  const bool in_cache =
      home.parent_path().filename() == "snapshots" && is_inside(real, home.parent_path().parent_path() / "blobs");
  if (!is_inside(real, home) && !in_cache) {
    fail("{}: the shard {} is a link to {}, outside its folder; copy the file there", where, printable(name),
         real.string());
  }
  return path;
}

std::map<std::string, std::string> read_weight_map(const fs::path& index_file) {
  const std::string where = index_file.string();
  const json index = read_json(index_file, kMaxHeaderBytes);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    fail("{}: must be an object whose weight_map gives the file of each tensor", where);
  }
  std::map<std::string, std::string> file_of;
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string()) fail("{}: weight_map: the file of {} is not a string", where, printable(name));
    file_of[name] = file.get<std::string>();
  }
  if (file_of.empty()) fail("{}: weight_map is empty", where);
  return file_of;
}

[[noreturn]] void fail_without_model(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (has_pickle_name(entry.path().string()) || entry.path().extension() == ".bin") {
      fail("{}: has no {}, only {}, a pickle file, which can run any code when loaded and is never read here; {}",
           folder.string(), kModelFile, entry.path().filename().string(), kPickleAdvice);
    }
  }
  fail("{}: is not a model folder: it has neither {} nor {}", folder.string(), kModelFile, kIndexFile);
}

std::string listed(const std::vector<std::string>& items) {
  if (items.size() <= kLongestList) return fmt::format("{}", fmt::join(items, ", "));
  const std::vector<std::string> first(items.begin(), items.begin() + kLongestList);
  return fmt::format("{} and {} more", fmt::join(first, ", "), items.size() - kLongestList);
}

}  // namespace

TensorSet TensorSet::open(const fs::path& folder_or_file) {
  TensorSet set;
  set.path_ = folder_or_file;
  std::error_code error;
  if (!fs::exists(folder_or_file, error)) {
    fail("{}: does not exist; a model folder or a .safetensors file is needed", folder_or_file.string());
  }
  if (!fs::is_directory(folder_or_file, error)) {
    set.add_file(folder_or_file);
  } else if (fs::exists(folder_or_file / kModelFile, error)) {
    set.add_file(folder_or_file / kModelFile);
  } else if (fs::exists(folder_or_file / kIndexFile, error)) {
    set.add_shards(folder_or_file, folder_or_file / kIndexFile);
  } else {
    fail_without_model(folder_or_file);
  }
  set.sort_by_name();
  return set;
}

void TensorSet::add_file(const fs::path& file) {
  files_.push_back(std::make_unique<SafetensorsFile>(SafetensorsFile::open(file)));
  for (const TensorInfo& info : files_.back()->tensors()) tensors_.push_back({&info, files_.back().get()});
}

void TensorSet::add_shards(const fs::path& folder, const fs::path& index_file) {
  const std::string where = index_file.string();
  const std::map<std::string, std::string> file_of = read_weight_map(index_file);
  std::set<std::string> shards;
  for (const auto& [name, file] : file_of) shards.insert(file);
  for (const std::string& shard : shards) shard_path(folder, shard, where);  // all judged before any is read
  for (const std::string& shard : shards) {
    add_file(folder / shard);
    for (const TensorInfo& info : files_.back()->tensors()) {
      const auto listed_in = file_of.find(info.name);
      if (listed_in == file_of.end()) {
        fail("{}: the shard {} holds tensor {}, which weight_map does not list", where, printable(shard),
             printable(info.name));
      }
      if (listed_in->second != shard) {
        fail("{}: tensor {} is in the shard {}, but weight_map says {}", where, printable(info.name), printable(shard),
             printable(listed_in->second));
      }
    }
  }
  sort_by_name();
  for (const auto& [name, shard] : file_of) {
    if (find(name) == nullptr) {
      fail("{}: the shard {} lacks tensor {}, which weight_map promises", where, printable(shard), printable(name));
    }
  }
}

void TensorSet::sort_by_name() {
  std::sort(tensors_.begin(), tensors_.end(),
            [](const StoredTensor& a, const StoredTensor& b) { return a.info->name < b.info->name; });
}

const StoredTensor* TensorSet::find(std::string_view name) const {
  const auto found = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                      [](const StoredTensor& a, std::string_view key) { return a.info->name < key; });
  return found != tensors_.end() && found->info->name == name ? &*found : nullptr;
}

std::vector<std::string> require_tensors(const TensorSet& set, const std::vector<ExpectedTensor>& expected) {
  std::vector<std::string> problems;
  std::set<std::string_view> names;
  for (const ExpectedTensor& tensor : expected) {
    names.insert(tensor.name);
    const StoredTensor* stored = set.find(tensor.name);
    if (stored == nullptr) {
      problems.push_back(tensor.name + " is missing");
    } else if (stored->info->shape != tensor.shape) {
      problems.push_back(fmt::format("{} has shape [{}] instead of [{}]", tensor.name,
                                     fmt::join(stored->info->shape, ", "), fmt::join(tensor.shape, ", ")));
    }
  }
  if (!problems.empty()) {
    fail("{}: does not fit its configuration: {}", set.path().string(), listed(problems));
  }
  std::vector<std::string> extras;
  for (const StoredTensor& stored : set.tensors()) {
    if (!names.contains(stored.info->name)) extras.push_back(stored.info->name);
  }
  return extras;
}

std::map<std::string, std::string> hugging_face_files(const ModelConfig& config) {
  const auto [vocab_size, bos, eos] =
      std::visit([](const auto& c) { return std::tuple(c.vocab_size, c.bos_token_id, c.eos_token_id); }, config);
  const json special_tokens = {{"bos_token", "<|bos|>"}, {"eos_token", "<|eos|>"}, {"pad_token", "<|pad|>"}};
  json tokenizer = special_tokens;
  tokenizer["auto_map"] = {{"AutoTokenizer", json::array({"tokenization_pmnet.ByteTokenizer", nullptr})}};
  tokenizer["tokenizer_class"] = "ByteTokenizer";
  tokenizer["vocab_size"] = vocab_size;
  tokenizer["bos_id"] = bos;
  tokenizer["eos_id"] = eos;
  tokenizer["clean_up_tokenization_spaces"] = false;
  std::map<std::string, std::string> files = {{"tokenizer_config.json", tokenizer.dump(2) + "\n"},
                                              {"special_tokens_map.json", special_tokens.dump(2) + "\n"}};
  const bool pmnet = std::holds_alternative<PmnetConfig>(config);
  for (const auto& [name, text] : hub_files())
    if (pmnet || name == "tokenization_pmnet.py") files.emplace(name, text);
  return files;
}

}  // namespace pmnet
