// Ranges, the sizes of a sweep, and what is said of sweeps that make no sense.
#include "core/problem/sweep.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/problem/spec.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Values = std::vector<int64_t>;

Values range(const std::string& text, double step = 4, int64_t n = 0) {
  return parse_range(text, step, n).value_or(Values{});
}

Sweep sweep_of(const std::string& spec, const std::string& over) {
  return sweeps_of(scaling_of_spec(spec, {over})).at(0);
}

std::string error_of(const std::string& spec, const std::vector<std::string>& over) {
  try {
    sweeps_of(scaling_of_spec(spec, over));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Range, GoesUpInLogarithmicSteps) {
  EXPECT_EQ(range("1k..64k"), (Values{1024, 4096, 16384, 65536}));
  EXPECT_EQ(range("1..64:2"), (Values{1, 2, 4, 8, 16, 32, 64}));
  EXPECT_EQ(range("100..1000:1.5"), (Values{100, 150, 225, 338, 506, 759, 1000}))
      << "the end takes the place of a point close to it";
  EXPECT_EQ(range("1k..262k"), (Values{1024, 4096, 16384, 65536, 262 * 1024}));
  EXPECT_EQ(range("7..7"), (Values{7}));
  EXPECT_EQ(range("1..3", 2), (Values{1, 2, 3}));
  EXPECT_EQ(range("1k..5k"), (Values{1024, 5120}));
}

TEST(Range, IsAListToo) {
  EXPECT_EQ(range("1,2,8"), (Values{1, 2, 8}));
  EXPECT_EQ(range("3k"), (Values{3072}));
}

TEST(Range, KnowsWhatNIs) {
  EXPECT_EQ(range("1..n", 2, 6), (Values{1, 2, 4, 6}));
  EXPECT_EQ(range("1,n", 2, 8), (Values{1, 8}));
  EXPECT_EQ(range("1..n", 2), Values{}) << "nobody said what n is";
}

TEST(Range, RefusesWhatIsNone) {
  for (const char* text : {"", "..", "1..", "..4", "4..1", "0..4", "1,1", "2,1", "1,", ",", "a..b",
                           "1..4:1", "1..4:", "1..4:x", "1..4..8", "-1..4", "1..1m:1.1", "1..9g"})
    EXPECT_FALSE(parse_range(text, 4)) << text;
}

TEST(Sweep, ChangesOneFieldOnly) {
  const Sweep sweep = sweep_of("softmax num_heads=8 head_dim=64 lse", "seq_len_q=1k..16k");
  EXPECT_EQ(sweep.values, (Values{1024, 4096, 16384}));
  EXPECT_EQ(print_problem(sweep.at(ATTEST_F16, 4096)),
            "softmax dtype=f16 num_heads=8 seq_len_q=4096 head_dim=64 lse");
  EXPECT_EQ(sweep.of.base.name, "softmax+lse");
  EXPECT_THAT(sweep.of.base.dtypes, ElementsAre(ATTEST_F32));
}

TEST(Sweep, ASizeOfTheLineIsReplaced) {
  const Sweep sweep = sweep_of("linear dtype=bf16 seq_len_q=100 head_dim=32", "seq_len_q=1k,2k");
  EXPECT_EQ(print_problem(sweep.at(ATTEST_BF16, 2048)),
            "linear dtype=bf16 seq_len_q=2048 head_dim=32");
  EXPECT_THAT(sweep.of.base.dtypes, ElementsAre(ATTEST_BF16));
}

// Each field grows by itself; the others keep the line's value or have their first.
TEST(Sweep, SeveralFieldsAreSeveralSweeps) {
  const std::vector<Sweep> sweeps =
      sweeps_of(scaling_of_spec("softmax head_dim=64", {"seq_len_q=1k..16k", "batch=1..16"}));
  ASSERT_EQ(sweeps.size(), 2u);
  EXPECT_EQ(print_problem(sweeps[1].at(ATTEST_F32, 16)),
            "softmax dtype=f32 batch=16 seq_len_q=1024 head_dim=64");
  EXPECT_EQ(print_problem(sweeps[0].at(ATTEST_F32, 16384)),
            "softmax dtype=f32 seq_len_q=16384 head_dim=64");
}

TEST(Sweep, HasASmallestProblem) {
  const auto smallest = [](const std::string& spec, const std::string& over) {
    const Sweep sweep = sweep_of(spec, over);
    const std::optional<Problem> problem = sweep.smallest(sweep.of.base.dtypes[0]);
    return problem ? print_problem(*problem) : "none";
  };
  EXPECT_EQ(smallest("softmax num_heads=8 head_dim=64 window_left=128", "seq_len_q=1k..4k"),
            "softmax dtype=f32 num_heads=8 seq_len_q=1 head_dim=64 window_left=128");
  EXPECT_EQ(smallest("softmax seq_len_q=1 seq_len_kv=9 head_dim=64", "seq_len_kv=1k..4k"),
            "softmax dtype=f32 seq_len_q=1 head_dim=64");
  EXPECT_EQ(smallest("softmax seq_len_q=2048 head_dim=64", "batch=1..4"),
            "softmax dtype=f32 seq_len_q=1 head_dim=64");
  EXPECT_EQ(smallest("softmax head_dim=64", "seq_len_q=2..4"), "none") << "it is no smaller";
}

TEST(Sweep, HasMiddles) {
  const Sweep sweep = sweep_of("softmax head_dim=64", "seq_len_q=1k..4k");
  EXPECT_EQ(sweep.between(1024, 4096), 2048);
  EXPECT_EQ(sweep.between(1024, 2048), 1456);  // whole tiles of 16
  EXPECT_EQ(sweep.between(5, 7), 6);
  EXPECT_EQ(sweep.between(6, 7), std::nullopt);
  const Sweep grid = sweep_of(
      "softmax grid_height=32 grid_width=32 window_height=4 window_width=4 "
      "seq_len_q=1024 head_dim=8",
      "head_dim=8,32");
  EXPECT_EQ(grid.between(8, 32), 16);
}

TEST(Sweep, SaysWhatIsWrong) {
  EXPECT_THAT(error_of("softmax head_dim=64", {"seq_len=1k..4k"}),
              HasSubstr("over 'seq_len=1k..4k': softmax has no such field with whole numbers, did "
                        "you mean 'seq_len_q'?"));
  EXPECT_THAT(error_of("softmax head_dim=64", {"softcap=1..4"}), HasSubstr("no such field"));
  EXPECT_THAT(error_of("softmax head_dim=64", {"seq_len_q"}), HasSubstr("a field and its sizes"));
  EXPECT_THAT(error_of("softmax head_dim=64", {"seq_len_q=4k..1k"}),
              HasSubstr("over 'seq_len_q=4k..1k': must be a range such as 1k..256k"));
  EXPECT_THAT(error_of("softmax head_dim=64", {"seq_len_q=1k", "seq_len_q=2k"}),
              HasSubstr("swept twice"));
  EXPECT_THAT(error_of("softmax head_dim=64 mask=[1,1,4,4]", {"seq_len_q=4,8"}),
              HasSubstr("over seq_len_q=8: "));
  EXPECT_THAT(error_of("", {"seq_len_q=4,8"}), HasSubstr("an empty problem"));
  EXPECT_THAT(error_of("sofmax", {"seq_len_q=4,8"}), HasSubstr("did you mean 'softmax'"));
  EXPECT_THAT(error_of("softmax head_dm=64", {"seq_len_q=4,8"}), HasSubstr("'head_dim'"));
}

}  // namespace
}  // namespace attest::core
