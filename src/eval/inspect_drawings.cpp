// Letters: T bytes, H levels, N slots, M phases.
#include "eval/inspect_drawings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <span>

#include "base/format.h"

namespace pmnet {

namespace {

constexpr double kLeft = 64, kWidth = 1000, kPlotWidth = kWidth - kLeft - 8;
constexpr int64_t kColumns = 260;

constexpr const char* kColours[] = {"#2f7fbf", "#e0a526", "#2f9d6a", "#9a55b8",
                                    "#c0504d", "#3fb3b3", "#8a6d3b", "#7f8ea3"};

std::string svg_open(double width, double height, const std::string& label) {
  return fmt::format("<svg viewBox=\"0 0 {0:g} {1:g}\" role=\"img\" aria-label=\"{2}\">\n", width, height, label);
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, text);
}

std::string box(double x, double y, double width, double height, const std::string& colour, const std::string& title) {
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\"><title>{}</title></rect>\n", x, y,
      width, height, colour, title);
}

// The text cut into columns of equal length.
struct Columns {
  int64_t count, bytes;
  explicit Columns(int64_t T) : count(std::min(T, kColumns)), bytes(T) {}
  int64_t begin(int64_t column) const { return column * bytes / count; }
  double x(int64_t column) const {
    return kLeft + kPlotWidth * static_cast<double>(begin(column)) / static_cast<double>(bytes);
  }
  std::string range(int64_t column) const {
    return fmt::format("bytes {} to {}", format_count(begin(column)), format_count(begin(column + 1) - 1));
  }
};

std::string draw_bits(const Inspection& inspection, const Columns& columns, double top, double height) {
  std::vector<double> means;
  for (int64_t c = 0; c < columns.count; ++c) {
    double sum = 0;
    for (int64_t t = columns.begin(c); t < columns.begin(c + 1); ++t) sum += inspection.bits[t];
    means.push_back(sum / static_cast<double>(columns.begin(c + 1) - columns.begin(c)));
  }
  const double highest = std::max(1.0, std::ceil(*std::max_element(means.begin(), means.end())));
  std::string svg;
  for (const double tick : {0.0, highest / 2, highest}) {
    const double y = top + height * (1 - tick / highest);
    svg += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kLeft,
                       kLeft + kPlotWidth, y, y);
    svg += text_at(kLeft - 8, y + 4, "end", fmt::format("{:g}", tick));
  }
  for (int64_t c = 0; c < columns.count; ++c) {
    const double bar = height * means[c] / highest;
    svg += box(columns.x(c), top + height - bar, columns.x(c + 1) - columns.x(c), bar, "var(--accent)",
               fmt::format("{}: {:.3f} bits per byte", columns.range(c), means[c]));
  }
  return svg;
}

std::string draw_choices(const Inspection& inspection, const Columns& columns, int64_t level, double top,
                         double height) {
  const int64_t H = inspection.num_levels(), N = inspection.slots;
  std::string svg = text_at(kLeft - 8, top + height / 2 + 4, "end", fmt::format("level {}", level));
  for (int64_t c = 0; c < columns.count; ++c) {
    std::vector<int64_t> chosen(N, 0);
    for (int64_t t = columns.begin(c); t < columns.begin(c + 1); ++t) ++chosen[inspection.chosen[t * H + level]];
    const auto total = static_cast<double>(columns.begin(c + 1) - columns.begin(c));
    double y = top;
    for (int64_t n = 0; n < N; ++n) {
      if (chosen[n] == 0) continue;
      const double share = static_cast<double>(chosen[n]) / total;
      svg += box(columns.x(c), y, columns.x(c + 1) - columns.x(c), height * share, slot_colour(n),
                 fmt::format("{}: slot {} of level {} in {:.0f}%", columns.range(c), n, level, 100 * share));
      y += height * share;
    }
  }
  return svg;
}

std::span<const float> phases_of(const Inspection& inspection, const SlotName& name) {
  const int64_t M = inspection.phases, first = (name.group * inspection.slots + name.slot) * M;
  return std::span(inspection.levels[name.level].phases).subspan(first, M);
}

std::complex<double> mean_point(const Inspection& inspection, const SlotName& name) {
  std::complex<double> sum = 0;
  for (const float phase : phases_of(inspection, name)) sum += std::polar(1.0, static_cast<double>(phase));
  return sum / static_cast<double>(inspection.phases);
}

}  // namespace

std::string slot_colour(int64_t slot) { return kColours[slot % std::ssize(kColours)]; }

std::string draw_course(const Inspection& inspection) {
  constexpr double kTop = 10, kBitsHeight = 120, kStripHeight = 40, kGap = 10;
  const int64_t H = inspection.num_levels();
  const Columns columns(inspection.num_bytes());
  const double bottom = kTop + kBitsHeight + static_cast<double>(H) * (kStripHeight + kGap);
  std::string svg = svg_open(kWidth, bottom + 42, "bits per byte and chosen slots along the text");
  svg += draw_bits(inspection, columns, kTop, kBitsHeight);
  svg += fmt::format("<text x=\"14\" y=\"{0}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {0})\">bits</text>\n",
                     kTop + kBitsHeight / 2);
  for (int64_t h = 0; h < H; ++h)
    svg += draw_choices(inspection, columns, h,
                        kTop + kBitsHeight + kGap + static_cast<double>(h) * (kStripHeight + kGap), kStripHeight);
  for (int quarter = 0; quarter <= 4; ++quarter) {
    const char* anchor = quarter == 0 ? "start" : quarter == 4 ? "end" : "middle";
    svg += text_at(kLeft + kPlotWidth * quarter / 4, bottom + 18, anchor,
                   format_count(inspection.num_bytes() * quarter / 4));
  }
  svg += text_at(kLeft + kPlotWidth / 2, bottom + 36, "middle", "byte of the text");
  return svg + "</svg>\n";
}

std::string draw_load(const Inspection& inspection) {
  constexpr double kRow = 46, kTop = 4, kNarrow = 0.1, kRoomForNumber = 22;
  const auto T = static_cast<double>(inspection.num_bytes());
  std::string svg = svg_open(kWidth, kTop + kRow * static_cast<double>(inspection.num_levels()), "load of the groups");
  for (int64_t h = 0; h < inspection.num_levels(); ++h) {
    const std::vector<int64_t>& load = inspection.levels[h].routing.tokens();
    const double y = kTop + kRow * static_cast<double>(h);
    svg += text_at(kLeft - 8, y + kRow / 2 + 4, "end", fmt::format("level {}", h));
    // Groups are numbered so that the children of one stand side by side below it.
    int64_t before = 0;
    for (size_t g = 0; g < load.size(); ++g) {
      const double x = kLeft + kPlotWidth * static_cast<double>(before) / T;
      const double width = kPlotWidth * static_cast<double>(load[g]) / T;
      before += load[g];
      if (width < kNarrow) continue;
      const std::string colour = h == 0 ? "#7f8ea3" : slot_colour(static_cast<int64_t>(g) % inspection.slots);
      svg += box(x, y, std::max(kNarrow, width - 1), kRow - 2, colour,
                 fmt::format("level {}, group {}: {} bytes, {:.1f}%", h, g, format_count(load[g]),
                             100 * static_cast<double>(load[g]) / T));
      if (width >= kRoomForNumber)
        svg += fmt::format("<text class=\"on\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                           x + width / 2, y + kRow / 2 + 3, g);
    }
  }
  return svg + "</svg>\n";
}

std::string draw_phase_cloud(const Inspection& inspection, const SlotName& name) {
  constexpr double kSize = 160, kCentre = kSize / 2, kRadius = 68, kInside = 60, kShortest = 22;
  constexpr int kBins = 48;
  std::string points;
  std::vector<int> counts(kBins, 0);
  for (const float phase : phases_of(inspection, name)) {
    points += fmt::format("M{:.1f} {:.1f}h0", kCentre + kRadius * std::cos(phase), kCentre - kRadius * std::sin(phase));
    const double turn = phase / (2 * std::numbers::pi);
    ++counts[static_cast<int>(std::floor((turn - std::floor(turn)) * kBins)) % kBins];
  }
  const double most = *std::max_element(counts.begin(), counts.end());
  std::string bins;
  for (int b = 0; b < kBins; ++b) {
    if (counts[b] == 0) continue;
    const double length = (kInside - kShortest) * counts[b] / most;
    const double direction = (b + 0.5) / kBins * 2 * std::numbers::pi;
    bins += fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", kCentre + kInside * std::cos(direction),
                        kCentre - kInside * std::sin(direction), kCentre + (kInside - length) * std::cos(direction),
                        kCentre - (kInside - length) * std::sin(direction));
  }
  const std::complex<double> mean = kInside * mean_point(inspection, name);
  return svg_open(kSize, kSize,
                  fmt::format("phases of level {}, group {}, slot {}", name.level, name.group, name.slot)) +
         fmt::format("<circle class=\"grid\" cx=\"{0}\" cy=\"{0}\" r=\"{1}\" fill=\"none\"/>\n", kCentre, kRadius) +
         fmt::format("<path d=\"{}\" stroke=\"{}\" stroke-width=\"5\" opacity=\"0.55\"/>\n", bins,
                     slot_colour(name.slot)) +
         fmt::format("<path d=\"{}\" stroke=\"{}\" stroke-width=\"5\" stroke-linecap=\"round\" opacity=\"0.45\"/>\n",
                     points, slot_colour(name.slot)) +
         fmt::format("<path class=\"mean\" d=\"M{0} {0}L{1:.1f} {2:.1f}\"/>\n</svg>\n", kCentre, kCentre + mean.real(),
                     kCentre - mean.imag());
}

double agreement(const Inspection& inspection, const SlotName& name) { return std::abs(mean_point(inspection, name)); }

}  // namespace pmnet
