#pragma once
#include <string>
#include <vector>

namespace pmnet {

// Watches a stream of bytes for the first of several strings. Bytes that may be the beginning of one are held back.
class StopStrings {
 public:
  // Throws UserError with every problem of the strings.
  explicit StopStrings(std::vector<std::string> strings);
  // One sentence per problem: an empty string, one too long, too many.
  static std::vector<std::string> problems(const std::vector<std::string>& strings);

  // The bytes that are known not to belong to a stop string. Once one is found nothing more comes.
  std::string push(char byte);
  // The end of the stream: what was held back is no stop string.
  std::string finish();
  bool found() const { return found_; }

 private:
  std::vector<std::string> strings_;
  std::string held_;
  bool found_ = false;
};

}  // namespace pmnet
