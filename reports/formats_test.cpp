// Formats: each prints the records and describes the machine of the file, not the one it runs on.
#include "reports/formats.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "core/tensor/error.hpp"

namespace attest::reports {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

core::Results one_result() {
  core::Results results{.complete = true};
  results.header.environment = {{"cpu", {{"model", "a CPU of nowhere"}, {"threads", "3"}}}};
  core::Record record;
  record.suite = "vit";
  record.case_name = "a/self";
  record.dtype = "f16";
  record.impl = "flash";
  record.outcome = {};
  results.records.push_back(record);
  return results;
}

TEST(Formats, EachPrintsEveryRecord) {
  std::set<std::string_view> names;
  for (const Format& format : formats()) {
    EXPECT_TRUE(names.insert(format.name).second);
    EXPECT_FALSE(format.summary.empty());
    const std::string text = format.print(one_result(), {});
    for (const char* part : {"a/self", "f16", "flash", "pass"})
      EXPECT_THAT(text, HasSubstr(part)) << format.name;
    EXPECT_EQ(&find_format(format.name), &format);
  }
}

TEST(Formats, EachSaysThatARunWasCutShort) {
  core::Results cut = one_result();
  cut.complete = false;
  for (const Format& format : formats()) {
    EXPECT_THAT(format.print(cut, {}), HasSubstr("The run was not completed")) << format.name;
    EXPECT_THAT(format.print(one_result(), {}), Not(HasSubstr("not completed"))) << format.name;
  }
}

TEST(Formats, MarkdownDescribesTheMachineOfTheFile) {
  EXPECT_THAT(find_format("markdown").print(one_result(), {}),
              HasSubstr("on a CPU of nowhere with 3 threads"));
}

TEST(Formats, ColourIsWhereItIsWanted) {
  const Format& terminal = find_format("terminal");
  EXPECT_EQ(terminal.print(one_result(), {}).find("\033"), std::string::npos);
  EXPECT_NE(terminal.print(one_result(), {.colour = true}).find("\033"), std::string::npos);
}

TEST(Formats, OneThatIsNotThereIsNamedWithThoseThatAre) {
  try {
    find_format("pdf");
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("pdf: no such format; choose one of terminal, bench, markdown"));
  }
}

}  // namespace
}  // namespace attest::reports
