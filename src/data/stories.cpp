#include "data/stories.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/hash.h"
#include "data/permutation.h"

namespace pmnet {
namespace {

using Words = std::initializer_list<std::string_view>;

class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}
  uint64_t below(uint64_t limit) { return splitmix64(state_++) % limit; }
  std::string pick(Words words) { return std::string(words.begin()[below(words.size())]); }

 private:
  uint64_t state_;
};

std::string make_name(Dice& dice) {
  std::string name = dice.pick({"Ba", "Do", "El", "Fi", "Ga", "Ha", "Il", "Jo", "Ke", "Lu",
                                "Ma", "No", "Or", "Pe", "Ru", "Sa", "To", "Ul", "Vi", "Wen"});
  if (dice.below(2)) name += dice.pick({"la", "ri", "mo", "ne", "ti", "da", "vu", "se"});
  return name + dice.pick({"n", "ra", "sk", "l", "mir", "na", "th", "bo", "dis", "wen"});
}

// What the opening tells and the end needs.
struct Facts {
  std::string hero, friend_name, elder, village, treasure, hiding_place, word, promise;
  uint64_t count = 0;
  std::string counted;

  explicit Facts(Dice& dice)
      : hero(make_name(dice)), friend_name(make_name(dice)), elder(make_name(dice)), village(make_name(dice) + "ford") {
    treasure = dice.pick({"silver whistle", "glass compass", "copper key", "painted map", "iron bell", "amber ring",
                          "bone flute", "green lantern", "small brass clock", "blue feather"});
    hiding_place =
        dice.pick({"under the third step of the mill", "behind the loose brick of the oven",
                   "inside the hollow pear tree", "beneath the ferryman's bench", "in the rafters of the barn",
                   "at the bottom of the grain chest", "below the broken millstone", "in the wall of the old well"});
    word = dice.pick({"thistle", "harbour", "cinnamon", "anvil", "marigold", "lantern", "juniper", "pebble", "walnut",
                      "saffron", "heron", "candle"});
    promise =
        dice.pick({"bring back a handful of salt", "send word before the first snow", "plant an apple tree by the road",
                   "return the borrowed cloak", "teach the children a new song", "mend the garden gate"});
    counted = dice.pick({"stones", "bridges", "towers", "standing oaks", "boats", "milestones"});
    count = 3 + dice.below(17);
  }
};

std::string opening(const Facts& f, Dice& dice) {
  std::string text = fmt::format("{} lived in {} with a friend called {}. ", f.hero, f.village, f.friend_name);
  std::array<std::string, 4> told = {
      fmt::format("Before the journey {} hid the {} {}, and told nobody but {}. ", f.hero, f.treasure, f.hiding_place,
                  f.friend_name),
      fmt::format("Old {} whispered that the gate would open only to the word \"{}\". ", f.elder, f.word),
      fmt::format("\"Count the {} on the way out,\" said {}, \"there are {} of them.\" ", f.counted, f.elder, f.count),
      fmt::format("To {} the promise was made to {}. ", f.elder, f.promise)};
  const Permutation order(told.size(), dice.below(1u << 30));
  for (size_t i = 0; i < told.size(); ++i) text += told[order(i)];
  return text;
}

void end_paragraph(std::string& text) {
  while (text.ends_with(' ') || text.ends_with('\n')) text.pop_back();
  text += "\n\n";
}

// Nothing in these is needed later; some name things like those that are.
std::string scene(const Facts& f, Dice& dice) {
  const std::string who = dice.below(3) ? f.hero : f.friend_name;
  const std::string place = dice.pick({"a windy ridge", "a market of tents", "the edge of a marsh", "a quiet chapel",
                                       "a ford with cold water", "a field of stubble", "an inn without a sign",
                                       "a forest of birches", "a quarry", "a lighthouse"});
  const std::string stranger = make_name(dice);
  switch (dice.below(7)) {
    case 0:
      return fmt::format("On the {} day they came to {}. {} {}. ", dice.pick({"next", "second", "fourth", "following"}),
                         place, who,
                         dice.pick({"was tired and slept until noon", "lit a fire of wet wood", "looked back only once",
                                    "sang to keep the cold away", "mended a torn boot"}));
    case 1:
      return fmt::format("There {} met {}, a {}, who sold {} and asked for news. ", who, stranger,
                         dice.pick({"weaver", "tinker", "shepherd", "pilgrim", "soldier", "beekeeper"}),
                         dice.pick({"honey", "rope", "candles", "dried fish", "needles", "old maps"}));
    case 2:
      return fmt::format("It {} for {} hours, and {} counted {} crows on a wall. ",
                         dice.pick({"rained", "snowed", "hailed", "blew hard"}), 2 + dice.below(9), who,
                         2 + dice.below(30));
    case 3:
      return fmt::format(
          "\"{}\" asked {}. \"{}\" ",
          dice.pick({"How far is it now?", "Do you hear the river?", "Shall we turn back?", "Who lives there?"}), who,
          dice.pick(
              {"Not far, I think.", "Ask me tomorrow.", "Only the wind knows.", "Nobody has lived there for years."}));
    case 4:
      return fmt::format("{} spoke of {}, where the doors are painted {} and every {} has a name. ", stranger,
                         make_name(dice) + "ham", dice.pick({"red", "white", "yellow", "black"}),
                         dice.pick({"cow", "well", "hill", "boat"}));
    case 5:
      return fmt::format("They crossed {} and shared {} at dusk. ", place,
                         dice.pick({"bread and onions", "the last cheese", "a pot of beans", "three small apples"}));
    default:
      return fmt::format(
          "{} found a {} in the grass and left it there. ", who,
          dice.pick({"rusty nail", "child's shoe", "bent spoon", "clay bead", "horseshoe", "wooden button"}));
  }
}

// Once in a while a fact is needed on the way, so that remembering pays before the end.
std::string reminder(const Facts& f, Dice& dice) {
  switch (dice.below(3)) {
    case 0:
      return fmt::format("{} still knew how many {} there should be: {}. ", f.hero, f.counted, f.count);
    case 1:
      return fmt::format("\"Is it safe, the {}?\" asked {}. \"Quite safe, {},\" said {}. ", f.treasure, f.friend_name,
                         f.hiding_place, f.hero);
    default:
      return fmt::format("At a small gate {} tried the word of old {}, \"{}\", in a low voice. ", f.hero, f.elder,
                         f.word);
  }
}

std::string ending(const Facts& f) {
  return fmt::format(
      "At last they stood before the great gate. {0} said the word \"{1}\", and it swung open. On the way home {0} "
      "counted the {2} and there were {3}, as {4} had said. In {5} the {6} was where it had been left, {7}. Only the "
      "promise to {4} remained: to {8}. And so it was done.",
      f.hero, f.word, f.counted, f.count, f.elder, f.village, f.treasure, f.hiding_place, f.promise);
}

}  // namespace

std::string make_story(const StoryOptions& options, uint64_t number) {
  Dice dice(splitmix64(options.seed, number));
  const Facts facts(dice);
  const uint64_t wanted = options.typical_bytes / 2 + dice.below(options.typical_bytes + options.typical_bytes / 2 + 1);
  std::string text = opening(facts, dice);
  end_paragraph(text);
  const std::string end = ending(facts);
  for (uint64_t scenes = 1; text.size() + end.size() < wanted; ++scenes) {
    text += dice.below(24) == 0 ? reminder(facts, dice) : scene(facts, dice);
    if (scenes % 6 == 0) end_paragraph(text);
  }
  end_paragraph(text);
  return text + end;
}

uint64_t write_stories(const std::string& path, uint64_t bytes, const StoryOptions& options,
                       const std::function<void(uint64_t bytes_done)>& progress) {
  const bool as_records = path.ends_with(".jsonl");
  if (std::error_code error; std::filesystem::is_regular_file(path, error))
    fail("{}: exists already; choose another name or remove it", path);
  AtomicFile file(path, bytes);
  uint64_t number = 0;
  std::string block;
  for (uint64_t text_bytes = 0; text_bytes < bytes; ++number) {
    const std::string story = make_story(options, number);
    text_bytes += story.size();
    if (as_records) {
      block += nlohmann::json{{"text", story}}.dump() + "\n";
    } else {
      if (number > 0) block += kStorySeparator;
      block += story;
    }
    if (block.size() >= (1u << 20)) {
      file.writer().write(block);
      block.clear();
      if (progress) progress(text_bytes);
    }
  }
  file.writer().write(block);
  file.commit();
  return number;
}

}  // namespace pmnet
