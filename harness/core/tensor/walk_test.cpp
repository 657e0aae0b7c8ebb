// What a walk writes it reads again; what is missing or of another type is refused, with its key.
#include "core/tensor/walk.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace attest::core {
namespace {

using nlohmann::json;

struct Dot {
  double x = 0;
};
struct Drawing {
  std::vector<Dot> dots;
  std::map<std::string, std::string> facts;
  std::optional<uint64_t> count;
  Dot focus;
  std::string added = "as it was";
};

template <class Visit>
void walk(Dot& dot, Visit&& visit) {
  visit("x", dot.x);
}
template <class Visit>
void walk(Drawing& drawing, Visit&& visit) {
  visit("dots", drawing.dots);
  visit("facts", drawing.facts);
  visit("count", drawing.count);
  visit("focus", drawing.focus);
  visit("added", LaterField{drawing.added});
}

Drawing sample() {
  return {.dots = {{1}, {NAN}, {-INFINITY}},
          .facts = {{"made", "by hand"}},
          .count = uint64_t(1) << 63,
          .focus = {2},
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
  EXPECT_EQ(written["focus"], json({{"x", 2.0}}));
  EXPECT_EQ(write_json(read_json<Drawing>(written)), written);
  const Drawing read = read_json<Drawing>(json::parse(written.dump()));
  EXPECT_TRUE(std::isnan(read.dots.at(1).x));
  EXPECT_EQ(read.count, uint64_t(1) << 63);
  EXPECT_EQ(read.focus.x, 2);
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
      {"dots", 5}, {"facts", json::array()}, {"count", "many"}, {"focus", json::array({1})}};
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
