// What --dry-run says of a run: how long one run of an implementation takes, how long a record, how
// long all of them, and the memory. The speeds are those of records that the tests write.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <regex>

#include "testing/folder_test.hpp"

namespace attest::cli {
namespace {

using attest::testing::Outcome;
using nlohmann::json;
using ::testing::HasSubstr;

// A line of the table: what would run, with the columns of the table.
struct Row {
  std::string impl, a_run, in_all, memory;
  bool operator==(const Row&) const = default;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.impl << " | " << row.a_run << " | " << row.in_all << " | " << row.memory;
}

std::vector<Row> rows_of(const std::string& text) {
  static const std::regex kLine(
      "(?:^|\n)  (\\S+) +run +([0-9.]+ \\S+) +([0-9.]+ \\S+) +([0-9.]+ \\S+)(?=\n)");
  std::vector<Row> rows;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), kLine);
       at != std::sregex_iterator(); ++at)
    rows.push_back({(*at)[1], (*at)[2], (*at)[3], (*at)[4]});
  return rows;
}

// Cases a, b and c, of which a is finished, and its run took as long as a test says. b is the same
// problem as a, and c is twice the problem.
class Forecast : public testing::FolderTest {
 protected:
  // `more`: options that a run which goes on has to have too.
  void begin(double run_ns, int64_t seq_len = 512, const std::string& more = "") {
    write("three.json", fmt::format(R"({{"name": "three", "summary": "s",
      "defaults": {{"operation": "softmax", "head_dim": 32, "seq_len_q": {}, "dtypes": ["f32"]}},
      "cases": [{{"name": "a"}}, {{"name": "b"}}, {{"name": "c", "batch": 2}}]}})",
                                    seq_len));
    const Outcome whole = attest(kRun + more + "--judge-only -o whole.jsonl --overwrite");
    ASSERT_EQ(whole.code, 0) << whole.text;
    rewrite_records("whole.jsonl", "begun.jsonl", [&](json& record) {
      for (json& fill : record["fills"]) fill["run_ns"] = run_ns;
    });
    std::vector<json> kept = lines("begun.jsonl");
    std::erase_if(kept, [](const json& line) {
      return line["type"] == "end" || (line["type"] == "result" && line["case"] != "a");
    });
    write_lines("begun.jsonl", kept);
  }
  // As if the run that was begun were to time what it judges.
  void make_timed() const {
    rewrite_header("begun.jsonl", "begun.jsonl", [](json& header) {
      header = json::parse(std::regex_replace(header.dump(), std::regex(" judge-only"), ""));
    });
  }
  std::string forecast(const std::string& more) const {
    const Outcome outcome = attest(kRun + more + " --dry-run");
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    return outcome.text;
  }
  std::string rest(const std::string& more = "") const {
    return forecast("--resume begun.jsonl " + more);
  }

  const std::string kRun =
      "run three.json --impl naive --threads 1 --fill random --relations none ";
};

// A record has half a second beside its runs: one for its fill, and ten more.
TEST_F(Forecast, TakesTheSpeedOfRunsThatWereSeen) {
  begin(1e9);
  const std::string text = rest("--judge-only");
  const std::vector<Row> rows = rows_of(text);
  ASSERT_EQ(rows.size(), 2u) << text;
  EXPECT_EQ(rows[0], (Row{"naive", "1.00 s", "11.5 s", rows[0].memory}));
  EXPECT_EQ(rows[1], (Row{"naive", "2.00 s", "22.5 s", rows[1].memory}));
  EXPECT_THAT(text, HasSubstr("\n2 would run; 1 finished in begun.jsonl\nabout 34.0 s in all; "
                              "at most " +
                              rows[1].memory + " of memory at a time\n"));
  EXPECT_NE(rows[0].memory, rows[1].memory);
  EXPECT_THAT(text, Not(HasSubstr("three/a ")));
}

TEST_F(Forecast, AddsTheTimeOfTimedRuns) {
  const auto of_b = [&](const std::string& more) { return rows_of(rest(more)).at(0).in_all; };
  begin(1e9, 512, "--budget 3 ");
  make_timed();
  EXPECT_EQ(of_b("--budget 3"), "14.5 s");
  begin(1e9, 512, "--budget 600 ");
  make_timed();
  EXPECT_EQ(of_b("--budget 600"), "10 min");
  // Slow runs are fewer: twice the limit for four of them is the most.
  begin(1e9, 512, "--case-limit 10 ");
  EXPECT_EQ(of_b("--judge-only --case-limit 10"), "11.5 s");
  begin(1e9, 512, "--case-limit 5 ");
  EXPECT_EQ(of_b("--judge-only --case-limit 5"), "10.5 s");
}

// Of an implementation that was not seen, the highest speed decides whether it is skipped, and a
// tenth of that is shown.
TEST_F(Forecast, TakesATenthOfTheHighestSpeedOfWhatWasNotSeen) {
  write("three.json", R"({"name": "three", "summary": "s", "cases": [{"name": "a",
    "operation": "softmax", "head_dim": 64, "seq_len_q": 4096, "dtypes": ["f32"]}]})");
  const std::string text = forecast("--judge-only");
  double value = 0;
  char unit[8] = "";
  ASSERT_EQ(rows_of(text).size(), 1u) << text;
  ASSERT_EQ(std::sscanf(rows_of(text)[0].a_run.c_str(), "%lf %7s", &value, unit), 2);
  ASSERT_STREQ(unit, "ms");
  const auto with_limit = [&](double runs) {
    return attest(
        kRun + fmt::format("--judge-only --dry-run --case-limit {:.9f}", value * 1e-3 / 10 * runs));
  };
  const Outcome enough = with_limit(4.1), too_little = with_limit(3.9);
  EXPECT_EQ(rows_of(enough.text).size(), 1u) << enough.text;
  EXPECT_EQ(rows_of(too_little.text).size(), 0u) << too_little.text;
  EXPECT_THAT(too_little.text, HasSubstr("naive           skipped "));
  EXPECT_THAT(too_little.text, HasSubstr("\n0 would run, 1 skipped\nabout 0"));
}

// So small a problem says nothing of an implementation's speed: it is as if it had not been seen.
TEST_F(Forecast, LearnsNothingFromATinyRun) {
  begin(1e9, 16);
  EXPECT_EQ(rows_of(rest("--judge-only")).at(0).a_run,
            rows_of(forecast("--judge-only --case b")).at(0).a_run);
}

}  // namespace
}  // namespace attest::cli
