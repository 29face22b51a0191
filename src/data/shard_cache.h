// Raw inputs -> one shard in a cache folder, made once: the name of the shard is a hash over the inputs' paths, sizes,
// modification times and the reading options, so an unchanged corpus is found again and a changed one is packed anew.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "data/byte_source.h"

namespace pmnet {

struct PackProgress {
  uint64_t input_bytes = 0;  // of the files on disk, done so far
  uint64_t total_input_bytes = 0;
  uint64_t documents = 0;
  uint64_t document_bytes = 0;
};
using PackCallback = std::function<void(const PackProgress&)>;

struct PackResult {
  std::string shard;
  uint64_t documents = 0;
  uint64_t document_bytes = 0;
  SkipLog skips;
  bool reused = false;  // found in the cache, nothing was read
};

// Streams all documents of `files` into the shard `path`. Refuses a corpus without a single document.
PackResult pack_files(const std::vector<InputFile>& files, const ReadOptions& options, const std::string& path,
                      const PackCallback& progress = {});

// The shard of these inputs: the input itself if it is one shard, else a cached one, else a new one. Several processes
// may ask at once; one packs and the others wait for it.
PackResult cached_shard(const std::vector<std::string>& inputs, const ReadOptions& options,
                        const std::string& cache_folder, const PackCallback& progress = {});

// $PMNET_CACHE, else the pmnet folder of $XDG_CACHE_HOME, else of ~/.cache; without a home a folder of this user under
// the system's temporary one.
std::string default_cache_folder();

}  // namespace pmnet
