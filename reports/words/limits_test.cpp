// Shares of the roofline in words; above 1 they are errors of the harness, and said to be.
#include "reports/words/limits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/bench.hpp"
#include "reports/input/input.hpp"

namespace attest::reports {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

core::Record of_share(const std::string& impl, double share) {
  core::Record r;
  r.suite = "vit";
  r.case_name = "self";
  r.dtype = "bf16";
  r.impl = impl;
  r.device = "cpu";
  r.outcome = {};
  r.time = core::TimeRecord{.median_ns = 1e6, .median_low_ns = 1e6, .median_high_ns = 1e6};
  r.roofline = core::RooflineRecord{.share = share, .limit = "bf16 AMX", .least_ns = share * 1e6};
  return r;
}

TEST(Limits, ASharesAboveOneIsMarked) {
  EXPECT_EQ(roofline_share(of_share("a", 0.834)), "83%");
  EXPECT_EQ(roofline_share(of_share("a", 1)), "100%");
  EXPECT_EQ(roofline_share(of_share("a", 1.25)), "125%(!)");
  EXPECT_EQ(roofline_share({}), "");
}

TEST(Limits, WhatIsFasterThanPossibleIsAnErrorOfTheHarness) {
  EXPECT_EQ(print_excess({of_share("a", 0.8), of_share("b", 1)}), "");
  EXPECT_EQ(print_excess({of_share("a", 0.8), of_share("b", 1.25), of_share("c", 1.1)}),
            "2 records are faster than the roofline allows, at most b of vit/self bf16 in 80 % of "
            "the least time (bf16 AMX): attest measured too low a peak, as on a busy machine, "
            "or counts too many operations or bytes");
}

TEST(Limits, EveryReportShowsIt) {
  core::Results results{.path = "x.jsonl", .complete = true};
  results.begun = true;
  results.records = {of_share("a", 1.25)};
  EXPECT_THAT(print_bench(results, false), HasSubstr("\nwarning: 1 record is faster"));
  EXPECT_THAT(warnings_of({results}),
              ::testing::Contains(HasSubstr("x.jsonl: 1 record is faster")));
  results.records = {of_share("a", 0.9)};
  EXPECT_THAT(print_bench(results, false), Not(HasSubstr("ERROR")));
  EXPECT_THAT(warnings_of({results}), Not(::testing::Contains(HasSubstr("faster"))));
}

}  // namespace
}  // namespace attest::reports
