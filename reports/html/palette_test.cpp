// The colours of the charts and of projected times: every reader tells them apart, on light and on
// dark ground.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "reports/html/assets.hpp"
#include "reports/html/charts.hpp"

namespace attest::reports::html {
namespace {

using Colour = std::array<double, 3>;  // red, green, blue: 0 to 1, linear in light
using Matrix = std::array<Colour, 3>;

// Linear colours of what readers see who lack one kind of cone, or none: Machado, Oliveira and
// Fernandes, A physiologically-based model for simulation of color vision deficiency, IEEE TVCG
// 15(6), 2009, severity 1.
const Matrix kAll{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
const Matrix kNoRed{{{0.152286, 1.052583, -0.204868},
                     {0.114503, 0.786281, 0.099216},
                     {-0.003882, -0.048116, 1.051998}}};
const Matrix kNoGreen{{{0.367322, 0.860646, -0.227968},
                       {0.280085, 0.672501, 0.047413},
                       {-0.011820, 0.042940, 0.968881}}};
const Matrix kNoBlue{{{1.255528, -0.076749, -0.178779},
                      {-0.078411, 0.930809, 0.147602},
                      {0.004733, 0.691367, 0.303900}}};
const Matrix kXyz{{{0.4124, 0.3576, 0.1805}, {0.2126, 0.7152, 0.0722}, {0.0193, 0.1192, 0.9505}}};

double dot(const Colour& a, const Colour& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

Colour times(const Matrix& matrix, const Colour& colour) {
  return {dot(matrix[0], colour), dot(matrix[1], colour), dot(matrix[2], colour)};
}

// Of "#rrggbb".
Colour parse(const std::string& text) {
  Colour colour;
  for (size_t i = 0; i < 3; ++i) {
    const double part = double(std::strtol(text.substr(1 + 2 * i, 2).c_str(), nullptr, 16)) / 255;
    colour[i] = part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
  }
  return colour;
}

// CIE 1976 L*, a*, b* under daylight (D65).
Colour lab(const Colour& colour) {
  Colour xyz = times(kXyz, colour);
  const Colour white{0.9505, 1, 1.089};
  for (size_t i = 0; i < 3; ++i) {
    const double share = xyz[i] / white[i];
    xyz[i] = share > 0.008856 ? std::cbrt(share) : 7.787 * share + 16.0 / 116;
  }
  return {116 * xyz[1] - 16, 500 * (xyz[0] - xyz[1]), 200 * (xyz[1] - xyz[2])};
}

double distance(const Matrix& sight, const Colour& a, const Colour& b) {
  const auto seen = [&](const Colour& colour) {
    Colour found = times(sight, colour);
    for (double& part : found) part = std::clamp(part, 0.0, 1.0);
    return lab(found);
  };
  const Colour first = seen(a), second = seen(b);
  return std::hypot(first[0] - second[0], first[1] - second[1], first[2] - second[2]);
}

// The least distance of two of the colours, whoever looks at them.
double least_distance(const std::vector<Colour>& colours) {
  double least = 1000;
  for (const Matrix& sight : {kAll, kNoRed, kNoGreen, kNoBlue})
    for (size_t i = 0; i < colours.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        least = std::min(least, distance(sight, colours[i], colours[j]));
  return least;
}

// What page.css gives a name: "ground" or "mark-1", for light ground and for dark.
Colour colour_of(const std::string& name, bool dark) {
  const std::string_view style = kStyle;
  const size_t from = dark ? style.find("prefers-color-scheme: dark") : 0;
  const size_t at = style.find("--" + name + ": #", from);
  return parse(std::string(style.substr(style.find('#', at), 7)));
}

// Web Content Accessibility Guidelines 2.1: the ratio of relative luminances.
double contrast(const Colour& a, const Colour& b) {
  const double first = dot(kXyz[1], a) + 0.05, second = dot(kXyz[1], b) + 0.05;
  return std::max(first, second) / std::min(first, second);
}

// The colours of the charts' marks.
std::vector<Colour> palette(bool dark) {
  std::vector<Colour> colours;
  const nlohmann::json config = chart_config();
  for (const std::string text : config["range"]["category"])  // "var(--mark-1)"
    colours.push_back(colour_of(text.substr(6, text.size() - 7), dark));
  return colours;
}

TEST(Palette, AllReadersTellItsColoursApart) {
  for (const bool dark : {false, true}) ASSERT_EQ(palette(dark).size(), 8u);
  EXPECT_GE(least_distance(palette(false)), 18);
  EXPECT_GE(least_distance(palette(true)), 29);
}

// Vermilion and a dark yellow, of a palette that the charts had: one colour to who sees no red.
TEST(Palette, TheMeasureKnowsColoursThatLookAlike) {
  EXPECT_GT(distance(kAll, parse("#d55e00"), parse("#9a7400")), 30);
  EXPECT_LT(least_distance({parse("#d55e00"), parse("#9a7400")}), 2);
}

// Web Content Accessibility Guidelines 2.1, 1.4.11: at least 3 to 1. Small marks look dim on dark
// ground, so there it is what text needs: 4.5 to 1.
TEST(Palette, StandsOutFromLightAndDarkGround) {
  for (const bool dark : {false, true})
    for (const Colour& colour : palette(dark))
      EXPECT_GE(contrast(colour, colour_of("ground", dark)), dark ? 4.5 : 3) << dark;
}

// The ink of what was measured is that of the text.
TEST(Palette, ProjectedTimesHaveAnInkOfTheirOwn) {
  EXPECT_NE(kStyle.find(".projected { color: var(--projected); font-style: italic; }"),
            kStyle.npos);
  for (const bool dark : {false, true}) {
    const Colour projected = colour_of("projected", dark);
    EXPECT_GE(contrast(projected, colour_of("ground", dark)), 4.5) << "text, as 1.4.3 asks";
    EXPECT_GE(least_distance({projected, colour_of("ink", dark)}), 18);
  }
}

}  // namespace
}  // namespace attest::reports::html
