// Words for neighbours; threads that work, at the rate asked for, until they are stopped.
#include "core/measure/neighbours.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;

TEST(NeighbourSpec, ParseAndPrintAreInverses) {
  for (const char* text : {"stream:1", "stream:2@5", "cache:3", "compute:1", "camera:1", "same:2"})
    EXPECT_EQ(parse_neighbours(text).print(), text);
  EXPECT_EQ(parse_neighbours("stream").print(), "stream:1");
  EXPECT_EQ(parse_neighbours("stream@2.5").print(), "stream:1@2.5");
}

TEST(NeighbourSpec, ErrorsNameWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"disk:2", "there are stream, cache, compute, camera, same"},
      {"", "no such kind"},
      {"stream:0", "'0' must be a number from 1 to 256"},
      {"stream:2x", "'2x' must be"},
      {"stream:", "'' must be"},
      {"stream@nan", "'nan' must be"},
      {"stream@-1", "'-1' must be"},
      {"cache:2@5", "only stream has a rate"}};
  for (const auto& [text, message] : wrong) {
    try {
      parse_neighbours(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(message)) << text;
    }
  }
}

NeighbourWork work_of(const char* text) {
  Neighbours neighbours({parse_neighbours(text)});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const std::vector<NeighbourWork> works = neighbours.stop();
  EXPECT_EQ(works.size(), 1u);
  return works.at(0);
}

TEST(Neighbours, SayWhatTheyHaveDone) {
  for (const char* text : {"stream:2", "cache:1", "compute:2"}) {
    const NeighbourWork work = work_of(text);
    EXPECT_EQ(work.name, text);
    EXPECT_GT(work.rate, 0.01) << text;
  }
  EXPECT_EQ(work_of("compute:1").unit, "GFLOP/s");
}

// Nothing hurries them beyond their rate, though a busy machine may hold them back.
TEST(Neighbours, KeepToTheirRate) {
  const NeighbourWork stream = work_of("stream:1@0.1"), camera = work_of("camera:1");
  EXPECT_LT(stream.rate, 0.1 * 1.2);
  EXPECT_GT(stream.rate, 0.001);
  EXPECT_LT(camera.rate, 30 * 1.2);
  EXPECT_GT(camera.rate, 1);
  EXPECT_EQ(camera.unit, "frames/s");
}

TEST(Neighbours, SameIsTheCallersBusiness) {
  Neighbours neighbours({parse_neighbours("same:2")});
  EXPECT_TRUE(neighbours.stop().empty());
}

TEST(Neighbours, MayBeStoppedTwice) {
  Neighbours neighbours({parse_neighbours("compute:1")});
  const double rate = neighbours.stop().at(0).rate;
  EXPECT_EQ(neighbours.stop().at(0).rate, rate);
}

}  // namespace
}  // namespace attest::core
