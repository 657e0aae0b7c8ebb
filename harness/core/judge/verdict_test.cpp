// The table of reason codes: in order, every code is set somewhere, and the page says the same.
// run/runner_test.cpp has the relations' codes.
#include "core/judge/verdict.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Enumerators that are the first member of an outcome, the first argument, what is assigned, or a
// branch of ?:. What is only compared with, in a switch or in a set of codes, does not count.
std::set<std::string> codes_set_by(const std::string& source) {
  const std::string code = "(?:core::)?ReasonCode::";
  const std::regex set("(?:[{(]\\s*|[?:]\\s+|[^=!]=\\s+)" + code +
                       "(k[A-Za-z0-9]+)(?=\\s*(?:[;:]|,(?!\\s*" + code + ")))");
  std::set<std::string> found;
  for (std::sregex_iterator at(source.begin(), source.end(), set), end; at != end; ++at)
    found.insert((*at)[1]);
  return found;
}

// Those that the sources of the program set, and names of relations. Tests and test plugins may
// speak of others.
std::set<std::string> codes_in_sources() {
  const std::regex relation("\"([a-z]+-[a-z]+|repetition)\"");
  std::set<std::string> found;
  for (const char* folder : {"/harness/core", "/harness/cli", "/reports"}) {
    if (!fs::exists(std::string(ATTEST_SOURCE_DIR) + folder)) continue;
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(std::string(ATTEST_SOURCE_DIR) + folder)) {
      const std::string file = entry.path().filename();
      if (file == "verdict.hpp" || file.find("_test.") != file.npos) continue;
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
      const std::string text = read(entry.path());
      found.merge(codes_set_by(text));
      if (entry.path().string().find("/operations/") == std::string::npos) continue;
      for (std::sregex_iterator at(text.begin(), text.end(), relation), end; at != end; ++at)
        found.insert("fail:" + (*at)[1].str());
    }
  }
  return found;
}

// "kFailKeyPermutation" of "fail:key-permutation"; "kPass" of a pass.
std::string enumerator_of(const Reason& reason) {
  if (reason.name.empty()) return "kPass";
  std::string text = "k";
  bool starts = true;
  for (const char c : reason.name) {
    if (c != ':' && c != '-') text += starts ? char(std::toupper(c)) : c;
    starts = c == ':' || c == '-';
  }
  return text;
}

TEST(ReasonCodes, EachIsInItsPlaceAndStartsWithAVerdict) {
  std::set<std::string_view> seen;
  for (const Reason& reason : kReasons) {
    EXPECT_EQ(&reason - kReasons, std::ptrdiff_t(reason.code)) << reason.name;
    EXPECT_EQ(name(reason.code), reason.name);
    EXPECT_EQ(find_reason(reason.name), &reason);
    EXPECT_TRUE(seen.insert(reason.name).second) << reason.name;
    EXPECT_TRUE(reason.name.empty() == (verdict_of(reason.code) == Verdict::kPass)) << reason.name;
    EXPECT_TRUE(reason.name.empty() ||
                reason.name.substr(0, reason.name.find(':')) == name(verdict_of(reason.code)))
        << reason.name;
  }
  EXPECT_EQ(find_reason("fail:nothing"), nullptr);
}

TEST(ReasonCodes, AreNotSetByComparisons) {
  EXPECT_EQ(codes_set_by("r = {ReasonCode::kA, why}; find(\n    core::ReasonCode::kB, why);\n"
                         "code = ReasonCode::kC; code = wrong ? ReasonCode::kD : ReasonCode::kE;"),
            (std::set<std::string>{"kA", "kB", "kC", "kD", "kE"}));
  EXPECT_EQ(codes_set_by("case ReasonCode::kA: return code ==\n    core::ReasonCode::kB;\n"
                         "if (ReasonCode::kC == code || (ReasonCode::kD) != code) return;\n"
                         "set({ReasonCode::kE, core::ReasonCode::kF}).contains(code);"),
            std::set<std::string>());
}

TEST(ReasonCodes, SomethingSetsEach) {
  const std::set<std::string> sources = codes_in_sources();
  EXPECT_FALSE(sources.contains("kFailNothing"));
  for (const Reason& reason : std::span(kReasons).subspan(1))  // nobody sets a pass
    EXPECT_TRUE(sources.contains(enumerator_of(reason)) ||
                sources.contains(std::string(reason.name)))
        << reason.name << ": nothing sets it";
}

// Of a results file that a newer attest wrote.
TEST(ReasonCodes, ThatTheTableLacksKeepTheirNameAndVerdict) {
  const ReasonCode fail = read_reason_code("fail:later", "fail"),
                   suspect = read_reason_code("suspect:later", "suspect");
  EXPECT_TRUE(is_newer(fail) && is_newer(suspect));
  EXPECT_FALSE(is_newer(ReasonCode::kTimeoutRun));
  EXPECT_EQ(name(fail), "fail:later");
  EXPECT_EQ(verdict_of(fail), Verdict::kFail);
  EXPECT_EQ(name(suspect), "suspect:later");
  EXPECT_EQ(verdict_of(suspect), Verdict::kSuspect);
  EXPECT_EQ(read_reason_code("fail:later", "fail"), fail);
  EXPECT_NE(fail, suspect);
  EXPECT_EQ(find_reason("fail:later"), nullptr);
}

TEST(ReasonCodes, ThatContradictTheirVerdictAreErrors) {
  for (const auto& [code, verdict] : {std::pair("fail:nan", "suspect"),
                                      {"fail:later", "suspect"},
                                      {"later", "fail"},
                                      {"fail:", "fail"},
                                      {"pass:later", "pass"},
                                      {"", "fail"},
                                      {"later:x", "later"},
                                      {"fail:a b", "fail"}})
    EXPECT_THROW(read_reason_code(code, verdict), Error) << code << " " << verdict;
}

TEST(Outcomes, AreBadWhereTheirVerdictIs) {
  EXPECT_TRUE(Outcome{}.passes());
  EXPECT_FALSE(Outcome{}.is_bad());
  const Outcome failed{ReasonCode::kFailRange, "o[0]"}, skipped{ReasonCode::kSkippedTime, "slow"};
  EXPECT_EQ(failed.verdict(), Verdict::kFail);
  EXPECT_TRUE(failed.is_bad());
  EXPECT_FALSE(skipped.passes());
  EXPECT_FALSE(skipped.is_bad());
}

TEST(ReasonCodes, ThePageShowsTheTable) {
  std::string table = "| verdict | code | what happened |\n|---|---|---|\n";
  for (const Reason& reason : kReasons)
    table += "| " + std::string(name(verdict_of(reason.code))) + " | " +
             (reason.name.empty() ? "" : "`" + std::string(reason.name) + "` ") + "| " +
             std::string(reason.meaning) + " |\n";
  EXPECT_NE(read(ATTEST_SOURCE_DIR "/harness/core/run/README.md").find(table), std::string::npos)
      << "harness/core/run/README.md should hold\n"
      << table;
}

}  // namespace
}  // namespace attest::core
