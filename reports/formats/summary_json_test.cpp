// The JSON summary against its published schema.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/formats/printers.hpp"
#include "reports/testing/golden.hpp"
#include "testing/json_schema.hpp"

namespace attest::reports {
namespace {

using nlohmann::json;

json summary(const Input& input) { return json::parse(print_summary_json(input, {})); }

TEST(SummaryJson, SatisfiesItsSchema) {
  const attest::testing::JsonSchema schema("reports/summary.schema.json");
  Input input = attest::testing::golden_input();
  EXPECT_EQ(schema.errors(summary(input)), "");
  while (input.runs[0].records.size() < 100)
    input.runs[0].records.push_back(input.runs[0].records[4]);
  EXPECT_EQ(schema.errors(summary(input)), "");
  EXPECT_EQ(summary(input)["worst"].size(), 20u);
  input.runs[0].records.clear();
  EXPECT_EQ(schema.errors(summary(input)), "");
}

TEST(SummaryJson, HoldsHowARunScales) {
  const attest::testing::JsonSchema schema("reports/summary.schema.json");
  Input input = attest::testing::golden_input();
  EXPECT_FALSE(summary(input).contains("scaling"));
  core::Record base = input.runs[0].records[0];
  for (const int64_t value : {0, 512, 1024, 2048}) {
    base.sweep = core::SweepPoint{"dense", value == 0 ? "" : "seq_len_q", value, 5e7, {}};
    base.time->median_ns = double(value * value + 10);
    base.memory.peak_bytes = 4096 + uint64_t(value);
    input.runs[0].records.push_back(base);
  }
  json all = summary(input);
  EXPECT_EQ(schema.errors(all), "");
  ASSERT_EQ(all["scaling"].size(), 1u);
  json& series = all["scaling"][0]["sweeps"][0]["series"][0];
  EXPECT_NEAR(series["time"]["exponent"].get<double>(), 2, 0.01);
  EXPECT_EQ(series["within_deadline"]["how"], "extrapolated");
  series["time"]["code"] = "guessed";
  EXPECT_NE(schema.errors(all), "");
}

TEST(SummaryJson, TheSchemaRefusesOthers) {
  const attest::testing::JsonSchema schema("reports/summary.schema.json");
  const json right = summary(attest::testing::golden_input());
  for (const char* key : {"type", "schema", "passes", "counts", "worst", "runs"}) {
    json wrong = right;
    wrong.erase(key);
    EXPECT_NE(schema.errors(wrong), "") << "without " << key;
  }
  json wrong = right;
  wrong["worst"][0]["verdict"] = "pass";
  EXPECT_NE(schema.errors(wrong), "");
  wrong = right;
  wrong["implementations"][0].erase("impl");
  EXPECT_NE(schema.errors(wrong), "");
}

}  // namespace
}  // namespace attest::reports
