// The published schema of suites accepts all suites that come with attest, and refuses what their
// reader refuses.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/problem/suite.hpp"
#include "testing/json_schema.hpp"

namespace attest::core {
namespace {

using nlohmann::json;

class SuiteSchema : public ::testing::Test {
 protected:
  bool accepts(const json& suite) const { return schema_.errors(suite).empty(); }
  attest::testing::JsonSchema schema_{"suites/suite.schema.json"};
};

TEST_F(SuiteSchema, AcceptsAllSuites) {
  for (const auto& entry : std::filesystem::directory_iterator(ATTEST_SOURCE_DIR "/suites")) {
    const bool is_suite =
        entry.path().extension() == ".json" && entry.path().filename() != "suite.schema.json";
    if (!is_suite) continue;
    EXPECT_EQ(schema_.errors(json::parse(std::ifstream(entry.path()))), "") << entry.path();
  }
}

TEST_F(SuiteSchema, RefusesWhatTheReaderRefuses) {
  const auto good = json::parse(R"({"name": "s", "summary": "x", "cases": [
    {"name": "a/b", "operation": "softmax", "dtypes": ["f32"], "seq_len_q": 8, "head_dim": 8,
     "bias": "f32[1,1,8,8]", "q.order": "0123"},
    {"name": "a/c", "operation": "softmax", "dtypes": ["f32"], "seq_len_q": "0.5k", "head_dim": 8,
     "bias": "[1,1,1,0.5k]", "window_left": "1K"}], "budget": "50ms",
    "misses": [{"why": "w", "cases": {"a/b": ["nan/k"]}}]})");
  ASSERT_TRUE(accepts(good));
  EXPECT_NO_THROW(parse_suite(good.dump(), "good.json"));
  auto refused = [this](const json& bad) {
    EXPECT_FALSE(accepts(bad)) << bad;
    EXPECT_ANY_THROW(parse_suite(bad.dump(), "bad.json")) << bad;
  };
  for (const char* keys :
       {R"({"cases": []})", R"({"summary": ""})", R"({"case": 1})", R"({"budget": 0})",
        R"({"budget": "1 day"})", R"({"name": "a b"})", R"({"defaults": {"name": "a"}})",
        R"({"defaults": {"misses": {"nan/k": "why"}}})", R"({"misses": []})",
        R"({"misses": [{"why": "w", "cases": {"a/b": "nan/k"}}]})",
        R"({"misses": [{"why": "w", "cases": {}}]})",
        R"({"misses": [{"why": "", "cases": {"a/b": ["nan/k"]}}]})",
        R"({"defaults": {"head_dims": 1}})"}) {
    auto bad = good;
    bad.update(json::parse(keys));
    refused(bad);
  }
  for (const char* keys :
       {R"({"name": ""})", R"({"head_dim": 1.5})", R"({"head_dim": "4q"})",
        R"({"seq_len_q": "token"})", R"({"dtypes": ["i32"]})", R"({"dtypes": "f32"})",
        R"({"quick": 1})", R"({"mask": [0]})", R"({"causal": "bottom"})", R"({"q.order": "01 2"})",
        R"({"impls": "naive"})", R"({"fills": "huge"})", R"({"misses": ["rise/*"]})",
        R"({"misses": {}})", R"({"misses": {"rise/*": ""}})", R"({"misses": false})",
        R"({"softcap": "much"})"}) {
    auto bad = good;
    bad["cases"][0].update(json::parse(keys));
    refused(bad);
  }
}

TEST_F(SuiteSchema, KnowsScaling) {
  const auto good = json::parse(R"({"name": "s", "summary": "x", "scaling": [
    {"name": "a", "operation": "softmax", "dtypes": ["f32"], "head_dim": 8,
     "over": ["seq_len_q=16..1k", "batch=1,2"], "threads": "1..n", "deadline": "50ms",
     "memory": "2GiB", "impls": ["flash_*"]}]})");
  EXPECT_EQ(schema_.errors(good), "");
  EXPECT_NO_THROW(parse_suite(good.dump(), "good.json"));
  for (const char* keys : {R"({"over": []})", R"({"over": "seq_len_q"})", R"({"deadline": 50})",
                           R"({"inputs": "random"})", R"({"misses": {"a": "b"}})",
                           R"({"head_dims": 8})", R"({"name": ""})"}) {
    auto bad = good;
    bad["scaling"][0].update(json::parse(keys));
    EXPECT_FALSE(accepts(bad)) << bad;
    EXPECT_ANY_THROW(parse_suite(bad.dump(), "bad.json")) << bad;
  }
  for (const char* key : {"name", "over"}) {
    auto bad = good;
    bad["scaling"][0].erase(key);
    EXPECT_FALSE(accepts(bad)) << bad;
    EXPECT_ANY_THROW(parse_suite(bad.dump(), "bad.json")) << bad;
  }
}

}  // namespace
}  // namespace attest::core
