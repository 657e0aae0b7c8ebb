// Counts of the processor, as reports show them.
#include "reports/words/counters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/formats/printers.hpp"
#include "reports/testing/golden.hpp"
#include "reports/testing/records.hpp"

namespace attest::reports {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

core::Record counted(double share = 1) {
  core::Record record = testing::passed();  // 20 samples of 64 tokens
  record.spec = "softmax batch=2 seq_len_q=64";
  record.time->iterations_per_sample = 5;
  record.time->usage.emplace();
  record.time->usage->counters = core::HardwareCounts{
      .cycles = 1e6, .instructions = 2.5e6, .cache_misses = 25600, .counted_share = share};
  return record;
}

TEST(Counters, AreRatesOfARun) {
  const auto figures = counter_figures(counted());
  ASSERT_TRUE(figures);
  EXPECT_DOUBLE_EQ(*figures->instructions_per_cycle, 2.5);
  EXPECT_DOUBLE_EQ(*figures->misses_per_token, 2) << "of 20 x 5 runs of 2 x 64 tokens";
  EXPECT_EQ(counter_line(counted()), "2.50 instructions a cycle, 2.00 cache misses a token");
}

TEST(Counters, SayThatTheyAreScaled) {
  EXPECT_THAT(counter_line(counted(0.5)), HasSubstr("(scaled: counted in 50 % of the time)"));
}

TEST(Counters, ShowWhatThereIs) {
  core::Record record = counted();
  record.time->usage->counters->cache_misses.reset();
  EXPECT_EQ(counter_line(record), "2.50 instructions a cycle");
  record.time->usage->counters->cycles = 0;
  EXPECT_EQ(counter_line(record), "");
  EXPECT_EQ(counter_line(testing::passed()), "");
}

TEST(Counters, AreInReportsWhereTheyArePresent) {
  const auto with = [](core::Record record) {
    return make_input({testing::file({std::move(record)})});
  };
  for (const auto print : {print_terminal, print_markdown}) {
    EXPECT_THAT(print(with(counted()), {}), HasSubstr("2.50 instructions a cycle"));
    EXPECT_THAT(print(with(testing::passed()), {}), Not(HasSubstr("instructions a cycle")));
  }
  core::Results other = testing::file({counted()}, "2026-01-02T00:00:00Z");
  other.path = "other.jsonl";
  EXPECT_THAT(print_markdown(make_input({testing::file({counted()}), other}), {}),
              HasSubstr("Counters of the processor of other.jsonl"));
  EXPECT_THAT(print_html(with(counted()), {.charts = false}),
              HasSubstr(R"("counters":{"ipc":2.5,"misses":2.0,"share":1.0})"));
}

}  // namespace
}  // namespace attest::reports
