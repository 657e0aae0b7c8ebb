// The Markdown report against what a person should read.
#include "reports/markdown.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest::reports {
namespace {

using ::testing::HasSubstr;

core::Record record(const std::string& case_name, const std::string& impl, core::ReasonCode code,
                    const std::string& reason) {
  core::Record r;
  r.suite = "onnx";
  r.case_name = case_name;
  r.dtype = "f32";
  r.impl = impl;
  r.outcome = {code, reason};
  if (code == core::ReasonCode::kPass || code == core::ReasonCode::kFailTolerance) {
    core::FillRecord fill;
    fill.judgement.exact_elements = 10;
    r.fills.push_back(fill);
    r.max_ratio = code == core::ReasonCode::kPass ? 0.25 : 7;
  }
  return r;
}

core::Results results(std::vector<core::Record> records) {
  core::Results made;
  made.header.command = "attest run onnx";
  made.header.environment = {{"build", {{"version", "1.2"}, {"commit", "abc"}}},
                             {"cpu", {{"model", "a CPU"}, {"threads", "4"}}}};
  made.records = std::move(records);
  made.complete = true;
  return made;
}

TEST(Markdown, ARowACaseAColumnAnImplementation) {
  core::Record gelu = record("gelu", "reference", core::ReasonCode::kUnsupportedQuery, "Gelu");
  gelu.outcome.code = core::ReasonCode::kUnsupportedVector;
  gelu.dtype = "";
  EXPECT_EQ(print_markdown(results(
                {record("a", "reference", core::ReasonCode::kPass, ""),
                 record("a", "naive", core::ReasonCode::kFailTolerance, "o[0] is 1|2"), gelu,
                 record("b", "reference", core::ReasonCode::kPass, ""),
                 record("b", "naive", core::ReasonCode::kUnsupportedQuery, "takes no MASK")})),
            "# attest run onnx\n\nattest 1.2, commit abc, on a CPU with 4 threads\n\n"
            "| implementation | pass | fail | unsupported |\n"
            "| --- | --- | --- | --- |\n"
            "| reference | 2 | 0 | 1 |\n"
            "| naive | 0 | 1 | 1 |\n"
            "\n## onnx\n\n"
            "| case | dtype | reference | naive |\n"
            "| --- | --- | --- | --- |\n"
            "| a | f32 | pass 0.25 | **fail** 7 |\n"
            "| gelu |  | unsupported: Gelu |  |\n"
            "| b | f32 | pass 0.25 | unsupported |\n"
            "\n## Why\n\n"
            "- naive: fail: o[0] is 1\\|2 (onnx/a)\n"
            "- naive: unsupported: takes no MASK (onnx/b)\n"
            "- reference: unsupported: Gelu (onnx/gelu)\n"
            "\nNumbers: the largest error as a share of its gate, <= 1 passes; the median time "
            "where a case was timed.\n");
}

TEST(Markdown, ReasonsThatManyCasesShareStandOnce) {
  std::vector<core::Record> records;
  for (const char* name : {"a", "b", "c", "d", "e"})
    records.push_back(record(name, "naive", core::ReasonCode::kSkippedTime, "too long"));
  EXPECT_THAT(print_markdown(results(records)),
              HasSubstr("- naive: skipped: too long (onnx/a, onnx/b, onnx/c and 2 more)\n"));
}

TEST(Markdown, SuitesAndDtypesStandApart) {
  core::Record other = record("a", "naive", core::ReasonCode::kPass, ""), half = other;
  other.suite = "vit", half.dtype = "f16", half.time = core::TimeRecord{.median_ns = 1.5e6};
  const std::string text =
      print_markdown(results({record("a", "naive", core::ReasonCode::kPass, ""), other, half}));
  EXPECT_THAT(text, HasSubstr("## vit\n"));
  EXPECT_THAT(text, HasSubstr("| a | f16 | pass 0.25, 1.50 ms |\n"));
}

}  // namespace
}  // namespace attest::reports
