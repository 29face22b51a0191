// Stories from a small grammar of our own, as much text as wanted. Each plants facts in its opening (where a thing is
// hidden, a secret word, a count, a promise) and cannot be finished without them, so a model that reads it must
// remember across everything in between.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace pmnet {

struct StoryOptions {
  uint64_t seed = 1;
  uint64_t typical_bytes = 2000;  // stories are between half and twice as long, but never without opening and end
};

// Between two stories of a plain text file.
inline constexpr char kStorySeparator[] = "\n\n\n";

// Story `number` of the seed: a pure function, any number is reached at once.
std::string make_story(const StoryOptions& options, uint64_t number);

// Writes whole stories until `bytes` of text are reached: one JSON record per line when the name ends in .jsonl, else
// plain text. An existing file is not overwritten. Returns the number of stories.
uint64_t write_stories(const std::string& path, uint64_t bytes, const StoryOptions& options,
                       const std::function<void(uint64_t bytes_done)>& progress = {});

}  // namespace pmnet
