// What reruns showed, in words.
#include "core/record/reruns.hpp"

#include <gtest/gtest.h>

namespace attest::core {
namespace {

RerunRecord::Other other(int64_t runs, ReasonCode code) {
  return {.outputs_hash = "0123456789abcdef", .runs = runs, .outcome = {code, "why"}};
}

TEST(Reruns, AreSaidInASentence) {
  EXPECT_EQ(print_reruns({.runs = 1}), "a rerun gives the same bits");
  EXPECT_EQ(print_reruns({.runs = 50}), "50 reruns give the same bits");
  EXPECT_EQ(print_reruns({.runs = 1, .others = {other(1, ReasonCode::kPass)}, .apart = true}),
            "a rerun gives other bits and passes: race or uninitialised memory");
  EXPECT_EQ(print_reruns({.runs = 7, .others = {other(1, ReasonCode::kFailNan)}, .apart = true}),
            "one of 7 reruns gives other bits and fails: race or uninitialised memory");
  RerunRecord threads{.runs = 1, .others = {other(1, ReasonCode::kPass)}, .apart = true};
  threads.differs_with_one_thread = false;
  EXPECT_EQ(print_reruns(threads),
            "a rerun gives other bits and passes: a race between threads, since all runs with one "
            "thread agree");
  threads.differs_with_one_thread = true;
  EXPECT_EQ(print_reruns(threads),
            "a rerun gives other bits and passes: uninitialised memory, since runs with one thread "
            "differ too");
  const RerunRecord several{
      .runs = 9,
      .others = {other(2, ReasonCode::kPass), other(1, ReasonCode::kCrashSignal)},
      .unjudged = 1};
  EXPECT_EQ(several.differing(), 4);
  EXPECT_EQ(print_reruns(several),
            "4 of 9 reruns give other bits, within what its arithmetic explains");
  EXPECT_EQ(print_reruns({.runs = 3, .workspace = "zeros"}),
            "it gives other bits if its workspace held zeros before the run: it reads memory that "
            "it has not written");
}

}  // namespace
}  // namespace attest::core
