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
