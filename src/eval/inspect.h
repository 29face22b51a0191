// What the memory of a PMNet does while it reads a text.
//
// A byte has two sides: what it cost (predicted from everything before it) and the way it took through the tree when it
// was read. Letters: T bytes, H levels, G groups of a level, N slots of a group, M phases of a slot.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "eval/routing.h"

namespace pmnet {

struct LevelView {
  LevelRouting routing{0};    // which of the G groups each byte wrote to
  std::vector<float> phases;  // [G,N,M]: radians in [-pi, pi) after the last byte, without embeddings
  double slots_per_read = 0;  // exp of the mean entropy of the read weights: 1 to N
};

struct Inspection {
  std::string text;
  int64_t slots = 0, phases = 0;  // N, M
  bool recurrence = true;         // false: the model keeps nothing, all phases are zero
  std::vector<double> bits;       // [T]
  std::vector<int32_t> groups;    // [T,H]: the group each byte wrote to
  std::vector<int32_t> chosen;    // [T,H]: its slot of largest weight, which leads to the next level
  std::vector<float> weights;     // [T,H,N]: how the write was spread over the slots
  std::vector<LevelView> levels;  // [H]

  int64_t num_bytes() const { return static_cast<int64_t>(text.size()); }
  int64_t num_levels() const { return static_cast<int64_t>(levels.size()); }
  double bits_per_byte() const;
};

// UserError when the model has no memory; `name` opens the sentence.
void require_memory(const Engine& engine, const std::string& name);

// Reads the text as one sequence that begins with BOS. `read_on` receives the number of bytes read after each pass;
// when it returns false, the inspection ends there.
Inspection inspect(const std::shared_ptr<const Engine>& engine, std::string text,
                   const std::function<bool(int64_t bytes_read)>& read_on);

struct SlotName {
  int64_t level = 0, group = 0, slot = 0;
  bool operator==(const SlotName&) const = default;
};

// "LEVEL.GROUP.SLOT" is one slot, "LEVEL.GROUP" all slots of a group. What the tree does not have is a UserError.
std::vector<SlotName> parse_slots(const Engine& engine, const std::vector<std::string>& names);
// The slots of the busiest group of each level.
std::vector<SlotName> busiest_slots(const Inspection& inspection);

// A safetensors file with bytes, bits, groups, chosen, weights, and load_H, phases_H of each level H.
void write_tensors(const Inspection& inspection, const std::filesystem::path& file);

}  // namespace pmnet
