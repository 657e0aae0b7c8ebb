// The interval of times on cores: the figures of two processors, and where they show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "reports/projection/calibration.hpp"
#include "reports/projection/projected.hpp"
#include "reports/projection/projection_text.hpp"
#include "reports/testing/records.hpp"

namespace attest::reports {
namespace {

using core::Record;
using ::testing::AllOf;
using ::testing::HasSubstr;

const LimitKind kOnCores{.device = "cpu"};

// measured_pair.cpp has 8 shapes of 3 implementations.
TEST(Calibration, OfCoresIsFromTwoMeasuredProcessors) {
  const RatedPair& pair = measured_pair();
  const auto of = [&](std::string_view impl) {
    Spread spread;  // measured / projected time
    for (const RatedCase& one : pair.cases) {
      const double projected =
          one.from_gflops / pair.from_peak_gflops * pair.to_peak_gflops;  // GFLOP/s
      if (impl.empty() || impl == one.impl) spread.ratios.push_back(projected / one.to_gflops);
    }
    std::ranges::sort(spread.ratios);
    return spread;
  };
  const Spread all = of("");
  EXPECT_EQ(all.ratios.size(), 24u);
  ASSERT_EQ(calibration_of_cores().spreads.size(), 1u);
  EXPECT_THAT(calibration_of_cores().spreads.at(kOnCores).ratios,
              ::testing::Pointwise(::testing::DoubleEq(), all.ratios));
  // As reports/README.md says.
  const struct {
    const char* impl;
    double least, most;
  } kSeen[] = {{"flash_cpu", 0.75, 0.93}, {"ONNX Runtime", 0.84, 0.99}, {"PyTorch", 0.47, 0.54}};
  for (const auto& [impl, least, most] : kSeen) {
    EXPECT_EQ(of(impl).ratios.size(), 8u);
    EXPECT_NEAR(of(impl).ratios.front(), least, 5e-3) << impl;
    EXPECT_NEAR(of(impl).ratios.back(), most, 5e-3) << impl;
  }
  const double factor = calibration_of_cores().factor(kOnCores).value_or(0);
  EXPECT_NEAR(factor, 2.10, 5e-3);
  EXPECT_GE(std::ranges::count_if(all.ratios, [&](double ratio) { return ratio >= 1 / factor; }),
            0.9 * 24);
}

TEST(Projected, TimesOnCoresHaveAnIntervalWithoutCalibration) {
  const ProjectionTarget target{.board = find_board_mode("orin-agx64-maxn")};
  Record record = attest::testing::passed("flash_cpu", 1e6);
  record.device = "cpu";
  record.flops = 1e8;
  record.time->median_ns = 1e6;
  record.roofline = core::RooflineRecord{
      .share = 0.5, .limit = "f32 AVX3", .least_ns = 0.5e6, .flops_per_byte = 1e3};
  Record near = record;
  near.roofline->share = 0.9;
  near.roofline->least_ns = 0.9e6;
  const core::Results cores = attest::testing::file({record, near});
  const Projected projected = project_all({&cores, 1}, target);
  EXPECT_EQ(projected.calibration, &calibration_of_cores());
  for (const Projection& one : projected.files.at(0).projections) {
    EXPECT_NEAR(one.high_ns.value_or(0) / one.ns, 2.10, 5e-3);
    EXPECT_GE(one.low_ns.value_or(0), one.bound->ns);
  }
  for (const std::string& text : {print_projected(projected), projected_markdown(projected)})
    EXPECT_THAT(text, AllOf(HasSubstr("Intervals: from AMD EPYC (Zen 5) to AMD EPYC (Zen 4), both"),
                            HasSubstr("from tables of both")));
  EXPECT_EQ(projected_json(projected)["calibration"]["spreads"][0]["ratios"].size(), 24u);
  // A calibration that was given is the only one.
  ProjectionTarget given = target;
  given.calibration = Calibration{.from = "one", .to = "other", .spreads = {}};
  const Projected without = project_all({&cores, 1}, given);
  EXPECT_EQ(without.calibration, &*given.calibration);
  EXPECT_FALSE(without.files.at(0).projections.at(0).low_ns);
}

}  // namespace
}  // namespace attest::reports
