#include "eval/inspect_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/format.h"
#include "base/utf8.h"
#include "eval/inspect_drawings.h"

namespace pmnet {

namespace {

// A browser scrolls this many characters with ease.
constexpr int64_t kMostBytesShown = 32768;
constexpr int kShades = 16;         // of a byte's cost
constexpr double kDarkestBits = 8;  // a byte guessed blindly

constexpr std::string_view kStyle = R"(
svg text { fill: var(--soft); font-size: 13px; } svg text.on { fill: #ffffff; pointer-events: none; }
svg .grid { stroke: var(--line); } svg .mean { stroke: var(--ink); stroke-width: 2.5; stroke-linecap: round; }
.wide > svg { display: block; width: 100%; min-width: 44rem; height: auto; }
.text { font-family: ui-monospace, monospace; font-size: 0.95rem; white-space: pre-wrap; overflow-wrap: anywhere;
  border: 1px solid var(--line); border-radius: 6px; padding: 0.75rem 1rem; max-height: 44rem; overflow-y: auto; }
.text b { font-weight: 400; } .text b:hover { outline: 2px solid var(--ink); } .text .hex { font-size: 0.65em; }
.text .end { color: var(--soft); }
.legend { display: flex; flex-wrap: wrap; gap: 0.35rem 1.25rem; color: var(--soft); font-size: 0.9rem;
  margin: 0.5rem 0; }
.legend i { display: inline-block; width: 1.1em; height: 0.8em; border-radius: 2px; margin-right: 0.35em; }
.clouds { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: 1rem 0.75rem; }
.clouds figure { margin: 0; } .clouds svg { width: 100%; max-width: 13rem; margin: 0 auto; }
.clouds figcaption { text-align: center; font-size: 0.82rem; line-height: 1.35; }
)";

std::string shade(int index) { return fmt::format("rgba(214, 64, 48, {:.3f})", 0.75 * index / (kShades - 1)); }

int shade_of(double bits) {
  return static_cast<int>(std::lround(std::clamp(bits / kDarkestBits, 0.0, 1.0) * (kShades - 1)));
}

// One class for each cost, and one for each way through the tree: a strip of the chosen slot's colour per level.
std::string style_of(const std::set<std::string>& ways, int64_t levels) {
  constexpr int kStrip = 3;
  std::string css(kStyle);
  css += fmt::format(".text {{ line-height: calc(1.25em + {}px); }}\n", 2 + kStrip * levels);
  for (int s = 0; s < kShades; ++s) css += fmt::format(".c{} {{ background: {}; }}\n", s, shade(s));
  for (const std::string& way : ways) {
    std::string shadows;
    int offset = 0;
    for (size_t begin = 0; begin < way.size();) {
      const size_t end = std::min(way.find('-', begin), way.size());
      offset += kStrip;
      shadows += fmt::format("{}0 {}px 0 {}", begin ? ", " : "", offset,
                             slot_colour(std::stoll(way.substr(begin, end - begin))));
      begin = end + 1;
    }
    css += fmt::format(".w{} {{ box-shadow: {}; }}\n", way, shadows);
  }
  return css;
}

// "2-0-3-1": the slots that a byte chose on its way down.
std::string way_of(const Inspection& inspection, int64_t t) {
  const int64_t H = inspection.num_levels();
  std::string way;
  for (int64_t h = 0; h < H; ++h) way += fmt::format("{}{}", h ? "-" : "", inspection.chosen[t * H + h]);
  return way;
}

std::string describe_byte(const Inspection& inspection, int64_t t) {
  const int64_t H = inspection.num_levels();
  std::string groups;
  for (int64_t h = 0; h < H; ++h) groups += fmt::format("{}{}", h ? " > " : "", inspection.groups[t * H + h]);
  return fmt::format("byte {}: {:02X}, {:.2f} bits\ngroups {}, slot {}", format_count(t),
                     static_cast<unsigned char>(inspection.text[t]), inspection.bits[t], groups,
                     inspection.chosen[t * H + H - 1]);
}

// How a character looks; what has no look is written as hexadecimal digits.
std::string face_of(std::string_view bytes) {
  if (bytes == "\n") return "<span class=\"end\">\xE2\x86\xB5</span>\n";
  if (bytes == "\t") return "<span class=\"end\">\xE2\x87\xA5</span>\t";
  Utf8Stream utf8;
  const bool is_text = utf8.push(bytes) == bytes && (bytes.size() > 1 || (bytes[0] >= ' ' && bytes[0] != 0x7F));
  if (is_text) return escape_html(bytes);
  std::string digits;
  for (const unsigned char byte : bytes) digits += fmt::format("{:02X}", byte);
  return "<span class=\"hex\">" + digits + "</span>";
}

// Bytes of the character that starts here.
size_t character_size(std::string_view text, size_t at) {
  Utf8Stream utf8;
  for (size_t size = 1; size <= 4 && at + size <= text.size(); ++size) {
    const std::string_view bytes = text.substr(at, size);
    if (utf8.push(bytes.substr(size - 1)) == bytes) return size;
  }
  return 1;  // no character starts here
}

std::string text_markup(const Inspection& inspection, std::set<std::string>& ways) {
  const std::string_view text = std::string_view(inspection.text).substr(0, kMostBytesShown);
  std::string html = "<div class=\"text\">";
  for (size_t at = 0; at < text.size();) {
    const size_t size = character_size(text, at), last = at + size - 1;
    std::string title;
    double bits = 0;
    for (size_t t = at; t <= last; ++t) {
      if (t > at) title += '\n';
      title += describe_byte(inspection, static_cast<int64_t>(t));
      bits += inspection.bits[t];
    }
    const std::string way = way_of(inspection, static_cast<int64_t>(last));
    ways.insert(way);
    html += fmt::format("<b class=\"c{} w{}\" title=\"{}\">{}</b>", shade_of(bits), way, title,
                        face_of(text.substr(at, size)));
    at += size;
  }
  return html + "</div>\n";
}

std::string legend_item(const std::string& colour, const std::string& text) {
  return fmt::format("<span><i style=\"background: {}\"></i>{}</span>\n", colour, text);
}

std::string slot_legend(const Inspection& inspection) {
  std::string html = "<div class=\"legend\">\n";
  for (int64_t n = 0; n < inspection.slots; ++n) html += legend_item(slot_colour(n), fmt::format("slot {}", n));
  return html + "</div>\n";
}

std::string cost_legend() {
  std::string html = "<div class=\"legend\">\n";
  for (const int bits : {0, 2, 4, 6, 8})
    html += legend_item(shade(shade_of(bits)), fmt::format("{}{} bits", bits, bits == 8 ? " or more" : ""));
  return html + "</div>\n";
}

Table level_table(const Inspection& inspection) {
  Table table({"level", "groups", "in use", "spread of the load", "largest share", "route changes", "slots per read"});
  for (int64_t h = 0; h < inspection.num_levels(); ++h) {
    const LevelView& level = inspection.levels[h];
    const LevelRouting& routing = level.routing;
    const size_t groups = routing.tokens().size();
    table.add_row({std::to_string(h), format_count(groups), format_count(static_cast<uint64_t>(routing.used())),
                   fmt::format("{:.2f} of {:.2f} bits", routing.entropy(), std::log2(static_cast<double>(groups))),
                   fmt::format("{:.1f}%", 100 * routing.largest_share()),
                   fmt::format("{:.1f}%", 100 * routing.change_rate()),
                   fmt::format("{:.2f} of {}", level.slots_per_read, inspection.slots)});
  }
  return table;
}

// One row for each group.
std::string cloud_rows(const Inspection& inspection, const std::vector<SlotName>& slots) {
  std::string html;
  for (size_t i = 0; i < slots.size(); ++i) {
    const SlotName& slot = slots[i];
    const auto same_group = [&](const SlotName& other) {
      return other.level == slot.level && other.group == slot.group;
    };
    if (i == 0 || !same_group(slots[i - 1]))
      html += fmt::format("<h3>Level {}, group {}</h3>\n<div class=\"clouds\">\n", slot.level, slot.group);
    html += fmt::format("<figure>{}<figcaption>slot {}, agreement {:.2f}</figcaption></figure>\n",
                        draw_phase_cloud(inspection, slot), slot.slot, agreement(inspection, slot));
    if (i + 1 == slots.size() || !same_group(slots[i + 1])) html += "</div>\n";
  }
  return html;
}

}  // namespace

HtmlPage inspection_page(const Inspection& inspection, const std::vector<SlotName>& slots,
                         const InspectionNames& names) {
  HtmlPage page("What the memory does with " + std::filesystem::path(names.text).filename().string());
  const auto add_wide = [&](const std::string& svg) { page.markup("<div class=\"wide\">\n" + svg + "</div>\n", ""); };
  page.paragraph(fmt::format(
      "{} read {} bytes of {} as one sequence at {:.4f} bits per byte. The sequence begins with BOS, which is fed "
      "and not scored; "
      "the end of the text is not scored either.",
      names.model, format_count(inspection.num_bytes()), names.text, inspection.bits_per_byte()));
  page.table(level_table(inspection),
             "Spread of the load: entropy of the bytes over the groups, which is greatest when all get the same. Route "
             "changes: bytes that went to another group than the byte before. Slots per read: how many slots a read "
             "looks at, as the exponential of the entropy of its weights.");

  page.heading("Along the text");
  page.paragraph(
      "Above, what the bytes cost; below, for each level of the tree, which slot of its group a byte wrote to most. "
      "That "
      "slot is the group it goes to on the next level.");
  page.markup(slot_legend(inspection), "");
  add_wide(draw_course(inspection));

  page.heading("The text");
  page.paragraph(
      "The redder a character, the more bits it cost. The strips below it are the slots it chose when it was read, "
      "root "
      "on top. Point at a character for its bytes, costs and groups.");
  std::set<std::string> ways;
  page.markup(cost_legend() + text_markup(inspection, ways), "");
  page.style(style_of(ways, inspection.num_levels()));
  if (inspection.num_bytes() > kMostBytesShown)
    page.paragraph(fmt::format("These are the first {} bytes; pictures and tables cover all {}.",
                               format_count(kMostBytesShown), format_count(inspection.num_bytes())));

  page.heading("Load of the groups");
  page.paragraph("Each group is as wide as its share of the bytes and stands below the group it was reached from.");
  add_wide(draw_load(inspection));

  page.heading("Phases after the last byte");
  if (!inspection.recurrence)
    page.paragraph("This model keeps no memory from byte to byte (memory_cumsum is false): all phases are zero.");
  page.paragraph(fmt::format(
      "Every slot holds {} phases, drawn as points on the unit circle; the bars inside count how many lie in each "
      "direction, the line is their mean, and agreement is its length: 1 when all phases are the same, near 0 when "
      "they "
      "point everywhere. The learned embeddings of the slots are not included.",
      format_count(inspection.phases)));
  page.markup(cloud_rows(inspection, slots), "");
  return page;
}

}  // namespace pmnet
