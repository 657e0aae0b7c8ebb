// What a walk writes it reads again; what is missing or of another type is refused, with its key.
#include "core/tensor/walk.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace attest::core {
namespace {

using nlohmann::json;

struct Bits {
  int32_t low = 0, high = 0;
};
struct Dot {
  static constexpr const char* kName = "dot";
  double x = 0;
};
struct Label {
  static constexpr const char* kName = "label";
  std::string text;
};
struct Drawing {
  std::vector<Dot> dots;
  std::map<std::string, std::string> facts;
  std::optional<uint64_t> count;
  std::variant<Dot, Label> focus;
  std::vector<Bits> bits;
  std::string added = "as it was";
};

template <class Visit>
void walk(Dot& dot, Visit&& visit) {
  visit("x", dot.x);
}
template <class Visit>
void walk(Label& label, Visit&& visit) {
  visit("text", label.text);
}
template <class Visit>
void walk(Drawing& drawing, Visit&& visit) {
  visit("dots", drawing.dots);
  visit("facts", drawing.facts);
  visit("count", drawing.count);
  visit("focus", drawing.focus);
  visit("bits", drawing.bits);
  visit("added", LaterField{drawing.added});
}

}  // namespace

template <>
inline constexpr bool kWalksAsBytes<Bits> = true;

namespace {

Drawing sample() {
  return {.dots = {{1}, {NAN}, {-INFINITY}},
          .facts = {{"made", "by hand"}},
          .count = uint64_t(1) << 63,
          .focus = Label{"here"},
          .bits = {{1, 2}, {3, 4}},
          .added = "later"};
}

// What is wrong with `drawing`, as reading it says.
std::string fault(const json& drawing) {
  try {
    read_json<Drawing>(drawing);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Walk, WritesWhatItReads) {
  const json written = write_json(sample());
  EXPECT_EQ(written["dots"][1], json({{"x", "nan"}}));
  EXPECT_EQ(written["focus"], json({{"label", {{"text", "here"}}}}));
  EXPECT_TRUE(written["bits"].is_binary());
  EXPECT_EQ(write_json(read_json<Drawing>(written)), written);
  const Drawing read = read_json<Drawing>(json::from_cbor(json::to_cbor(written)));
  EXPECT_TRUE(std::isnan(read.dots.at(1).x));
  EXPECT_EQ(read.count, uint64_t(1) << 63);
  EXPECT_EQ(std::get<Label>(read.focus).text, "here");
  EXPECT_EQ(read.bits.at(1).low, 3);
}

TEST(Walk, KeysMayBeMissingOnlyWhereThatIsSaid) {
  json written = write_json(sample());
  written.erase("count");
  written.erase("added");
  const Drawing read = read_json<Drawing>(written);
  EXPECT_FALSE(read.count);
  EXPECT_EQ(read.added, "as it was");
  EXPECT_FALSE(write_json(read).contains("count"));
  written.erase("facts");
  EXPECT_EQ(fault(written), "key 'facts' is missing");
  EXPECT_EQ(fault("text"), "key 'dots' is missing");
}

TEST(Walk, NamesTheKeyOfTheWrongType) {
  const json good = write_json(sample());
  ASSERT_EQ(fault(good), "nothing");
  const std::vector<std::pair<const char*, json>> wrong = {
      {"dots", 5},
      {"facts", json::array()},
      {"count", "many"},
      {"focus", {{"line", json::object()}}},
      {"focus", {{"dot", {{"x", 1}}}, {"label", {{"text", ""}}}}},
      {"focus", json::array({1})},
      {"bits", "text"},
      {"bits", json::binary(std::vector<uint8_t>(sizeof(Bits) + 1))}};
  for (const auto& [key, value] : wrong) {
    json bad = good;
    bad[key] = value;
    EXPECT_EQ(fault(bad).find("key '" + std::string(key) + "': "), 0u) << fault(bad) << bad;
  }
  json bad = good;
  bad["dots"][0] = 7;
  EXPECT_EQ(fault(bad), "key 'dots': is not an object");
  bad["dots"][0] = {{"x", "far"}};
  EXPECT_EQ(fault(bad), "'far' is not a number");
}

}  // namespace
}  // namespace attest::core
