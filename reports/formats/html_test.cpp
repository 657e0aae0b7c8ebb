// The page: hostile text stays data, and everything that the script needs is there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/formats/printers.hpp"
#include "reports/testing/golden.hpp"

namespace attest::reports {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

std::string page() { return print_html(attest::testing::golden_input(), {}); }

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

json data_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const size_t from = page.find(begin) + begin.size();
  return json::parse(page.substr(from, page.find("</script>", from) - from));
}

TEST(Html, TextOfRecordsIsNoMarkup) {
  const std::string text = page();
  EXPECT_EQ(count(text, "<script"), 2u);
  EXPECT_EQ(count(text, "</script"), 2u);
  for (const char* part : {"<img", "<i>fill", "</details>"})
    EXPECT_THAT(text, Not(HasSubstr(part)));
}

TEST(Html, DataHoldsEveryRecord) {
  const Input input = attest::testing::golden_input();
  const json data = data_of(page());
  ASSERT_EQ(data["records"].size(), input.runs[0].records.size());
  for (size_t i = 0; i < data["records"].size(); ++i) {
    EXPECT_EQ(data["records"][i]["name"], input.runs[0].records[i].case_name);
    EXPECT_FALSE(data["records"][i].contains("samples_ns")) << "samples stay in the records";
  }
  EXPECT_EQ(data["runs"][0]["never_judged"]["flash_cpu"], (json{"VARLEN", "bf16"}));
  EXPECT_TRUE(data["reasons"].contains("fail:nan"));
}

// What a reader without a script still sees.
TEST(Html, TheHeadStandsWithoutTheScript) {
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("7 of 9 judged records are bad"));
  EXPECT_THAT(text, HasSubstr("Warning:</span> results.jsonl: the machine was busy"));
  EXPECT_THAT(text, HasSubstr("commit 0123456789ab"));
}

TEST(Html, ALargePageSaysSo) {
  EXPECT_THAT(page(), Not(HasSubstr("a browser may be slow")));
  Input input = attest::testing::golden_input();
  input.runs[0].records[0].notes = {std::string(size_t{11} << 20, 'x')};
  const std::string large = print_html(input, {});
  const std::string head = large.substr(0, large.find("id=\"data\""));
  EXPECT_THAT(head, HasSubstr("this page holds 11.0 MiB of data, and a browser may be slow"));
}

TEST(Html, NothingIsLoaded) {
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("content=\"default-src 'none'; style-src 'sha256-"));
  const std::string before_data = text.substr(0, text.find("id=\"data\""));
  EXPECT_THAT(before_data, Not(::testing::ContainsRegex("<[a-z]+[^>]*( src=| href=\"[^#])")));
  for (const char* part : {"@import", "url(", "fetch(", "eval(", "import("})
    EXPECT_THAT(text, Not(HasSubstr(part)));
}

}  // namespace
}  // namespace attest::reports
