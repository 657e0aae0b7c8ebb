// The page: hostile text stays data, and everything that the script needs is there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "reports/formats/printers.hpp"
#include "reports/html/assets.hpp"
#include "reports/input/shown.hpp"
#include "reports/testing/count.hpp"
#include "reports/testing/golden.hpp"
#include "reports/testing/records.hpp"

namespace attest::reports {
namespace {

using attest::testing::count;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

/// The page without Vega: what is in it is our own.
std::string page() { return print_html(attest::testing::golden_input(), {.charts = false}); }
std::string page_with_charts() { return print_html(attest::testing::golden_input(), {}); }

json data_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const size_t from = page.find(begin) + begin.size();
  return json::parse(page.substr(from, page.find("</script>", from) - from));
}

TEST(Html, TextOfRecordsIsNoMarkup) {
  const std::string text = page();
  EXPECT_EQ(count(text, "<script"), 2u);
  EXPECT_EQ(count(text, "</script"), 2u);
  EXPECT_EQ(count(text, "</details>"), 2u) << "those of hashes and words; records have more";
  for (const char* part : {"<img", "<i>fill"}) EXPECT_THAT(text, Not(HasSubstr(part)));
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

TEST(Html, AHistogramHasEverySample) {
  const Input input = attest::testing::golden_input();
  const json records = data_of(page())["records"];
  const core::TimeRecord& time = *input.runs[0].records[0].time;
  const json histogram = records[0]["time"]["histogram"];
  ASSERT_EQ(histogram["counts"].size(), 64u);
  size_t sum = 0;
  for (const json& count : histogram["counts"]) sum += count.get<size_t>();
  EXPECT_EQ(sum, time.samples_ns.size());
  EXPECT_EQ(histogram["to"], time.max_ns);
  EXPECT_EQ(histogram["counts"][63], 1u) << "the slowest, far from the others";
  EXPECT_EQ(records[0]["time"]["worst"], time.max_ns);
}

// Two bars of one place each would say less than the two times.
TEST(Html, FewSamplesStandForThemselves) {
  const Input input = attest::testing::golden_input();
  const json naive = data_of(page())["records"][1]["time"];
  EXPECT_EQ(naive["few"], json(input.runs[0].records[1].time->samples_ns));
  EXPECT_FALSE(naive.contains("histogram"));
}

// A record that passes on one fill, without relations, and one with both.
TEST(Html, TheHeadCountsWhatPassesInPart) {
  Input input = attest::testing::golden_input();
  const auto passes = [](const core::Record& record) { return record.outcome.passes(); };
  auto& records = input.runs[0].records;
  std::erase_if(records, std::not_fn(passes));
  ASSERT_EQ(records.size(), 2u);
  for (core::Record& record : records) {
    record.fills.resize(2, record.fills.at(0));
    for (core::FillRecord& fill : record.fills) {
      fill.judgement.exact_elements = 10;
      fill.judgement.method = "all rows";
    }
    record.relations.resize(1);
    record.relations[0].judgement.exact_elements = 10;
  }
  EXPECT_THAT(print_html(input, {.charts = false}), Not(HasSubstr("id=\"in-part\"")));
  records[1].relations.clear();
  EXPECT_THAT(print_html(input, {.charts = false}),
              HasSubstr("1 of those that pass was judged in"));
  records[0].fills.resize(1);
  EXPECT_THAT(print_html(input, {.charts = false}), HasSubstr("2 of those that pass were judged"));
}

TEST(Html, DataSaysWhetherARunEnded) {
  Input input = attest::testing::golden_input();
  EXPECT_EQ(data_of(page())["runs"][0]["complete"], true);
  input.runs[0].complete = false;
  EXPECT_EQ(data_of(print_html(input, {}))["runs"][0]["complete"], false);
}

// JSON has no such numbers: null would read as 0, the fastest of all.
TEST(Html, TimesThatAreNotFiniteAreWords) {
  Input input = attest::testing::golden_input();
  core::TimeRecord& time = *input.runs[0].records[0].time;
  time.median_ns = INFINITY;
  time.max_ns = NAN;
  time.cold_samples_ns = {NAN, 1};
  const json written = data_of(print_html(input, {}))["records"][0]["time"];
  EXPECT_EQ(written["median"], "inf");
  for (const char* key : {"max", "cold", "worst"}) EXPECT_EQ(written[key], "nan") << key;
}

/// `count` cases with two records each, made of the first two of the golden results.
Input many(size_t count) {
  Input input = attest::testing::golden_input();
  auto& records = input.runs[0].records;
  const std::vector<core::Record> pair(records.begin(), records.begin() + 2);
  records.clear();
  for (size_t i = 0; i < count; ++i)
    for (core::Record record : pair) {
      record.case_name = "c" + std::to_string(i);
      records.push_back(std::move(record));
    }
  return input;
}

TEST(Html, APageOf500RecordsHasTwoMebibytes) {
  EXPECT_LT(print_html(many(250), {}).size(), size_t{2} << 20);
}

TEST(Html, OfVeryManyRecordsItHoldsBadCasesFirst) {
  Input input = many(3);
  input.runs[0].records[5].outcome.code = core::ReasonCode::kFailNan;
  const auto& records = input.runs[0].records;
  EXPECT_EQ(shown_records(input, 6).size(), 6u);
  EXPECT_EQ(shown_records(input, 5),
            (std::set{&records[4], &records[5], &records[0], &records[1]}));
  EXPECT_EQ(shown_records(input, 1), (std::set{&records[4], &records[5]}));
}

TEST(Html, SaysWhatItLeavesOut) {
  EXPECT_EQ(data_of(page())["left_out"], 0u);
  const std::string text = print_html(many(2501), {.charts = false});
  EXPECT_THAT(text, HasSubstr("this page holds 5000 of 5002 records: whole cases"));
  EXPECT_THAT(text, HasSubstr("All 5002 judged records pass"));
  const json data = data_of(text);
  EXPECT_EQ(data["left_out"], 2u);
  EXPECT_EQ(data["records"].size(), 5000u);
}

TEST(Html, NothingIsLoaded) {
  const std::string text = page();
  EXPECT_THAT(text, HasSubstr("content=\"default-src 'none'; style-src 'sha256-"));
  const std::string before_data = text.substr(0, text.find("id=\"data\""));
  EXPECT_THAT(before_data, Not(::testing::ContainsRegex("<[a-z]+[^>]*( src=| href=\"[^#])")));
  for (const char* part : {"@import", "url(", "fetch(", "eval(", "import("})
    EXPECT_THAT(text, Not(HasSubstr(part)));
}

TEST(Html, RecordsHaveWhatChartsShow) {
  const json records = data_of(page())["records"];
  EXPECT_EQ(records[0]["tokens"], 197);
  EXPECT_EQ(records[0]["series"], records[1]["series"]) << "the same problem";
}

TEST(Html, CurvesJoinProblemsThatDifferInTokensAlone) {
  Input input = attest::testing::golden_input();
  auto& records = input.runs[0].records;
  const std::vector<std::string> specs{
      "softmax num_heads=1 seq_len_q=64 head_dim=8", "softmax num_heads=1 seq_len_q=128 head_dim=8",
      "softmax num_heads=2 seq_len_q=128 head_dim=8",
      "softmax num_heads=1 seq_len_q=64 seq_len_kv=128 head_dim=8",
      "softmax num_heads=1 seq_len_q=64 seq_len_kv=256 head_dim=8"};
  records.resize(specs.size(), records[0]);
  for (size_t i = 0; i < specs.size(); ++i) {
    records[i].suite = "s";
    records[i].spec = specs[i];
  }
  const json shown = data_of(print_html(input, {.charts = false}))["records"];
  EXPECT_EQ(shown[0]["series"], shown[1]["series"]);
  EXPECT_NE(shown[1]["series"], shown[2]["series"]) << "other heads";
  EXPECT_NE(shown[1]["series"], shown[3]["series"]) << "fewer queries than keys";
  EXPECT_EQ(shown[3]["series"], shown[4]["series"]) << "the same queries, more keys";
  EXPECT_EQ(shown[3]["tokens"], 128);
}

TEST(Html, NamesTheDeviceOfRecords) {
  core::Results gpu = core::read_results(ATTEST_SOURCE_DIR "/reports/published/device_h100.jsonl");
  gpu.records.resize(1);
  core::Results other = gpu;
  other.header.environment["cuda"]["name"] = "NVIDIA A100";
  const std::string one_page = print_html(make_input({gpu}), {.charts = false});
  EXPECT_THAT(one_page.substr(0, one_page.find("<nav")),
              HasSubstr("NVIDIA H100 80GB HBM3 (132 multiprocessors) with Intel"));
  const json one = data_of(one_page);
  EXPECT_EQ(one["runs"][0]["machine"], one["texts"][one["records"][0]["machine"].get<int>()]);
  const json two = data_of(print_html(make_input({gpu, other}), {.charts = false}));
  const json &first = two["records"][0], &second = two["records"][1];
  for (const char* key : {"machine", "own_machine", "family", "series"})
    EXPECT_NE(first[key], second[key]) << key;
  EXPECT_EQ(two["texts"][second["own_machine"].get<int>()], "NVIDIA A100 (132 multiprocessors)");
}

/// Text without what marks words of it up, in one line.
std::string plain(std::string text) {
  for (const auto& [mark, without] : {std::pair(R"(</?code>|`)", ""),
                                      {R"(\[([^\]]*)\]\([^)]*\))", "$1"},
                                      {R"(\s+)", " "},
                                      {"&lt;", "<"},
                                      {"&gt;", ">"},
                                      {"&amp;", "&"}})
    text = std::regex_replace(text, std::regex(mark), without);
  return text;
}

// One word for one thing: the page's words are those of the glossary.
TEST(Html, ExplainsItsWordsAsTheGlossaryDoes) {
  const std::string glossary =
      plain(attest::testing::file_text(ATTEST_SOURCE_DIR "/harness/core/GLOSSARY.md"));
  const std::string body(html::kBody);
  const std::regex entry(R"(<dt>([^<]*)</dt>\s*<dd>([\s\S]*?)</dd>)");
  std::set<std::string> words;
  for (std::sregex_iterator at(body.begin(), body.end(), entry), end; at != end; ++at) {
    words.insert((*at)[1]);
    EXPECT_THAT(glossary, HasSubstr("| " + plain((*at)[1]) + " | " + plain((*at)[2]) + " |"));
  }
  EXPECT_THAT(words, ::testing::IsSupersetOf({"gate", "fill", "relation", "event", "verdict"}));
}

TEST(Html, HoldsHowARunScales) {
  EXPECT_TRUE(data_of(page())["scaling"].empty());
  Input input = attest::testing::golden_input();
  core::Record base = input.runs[0].records[0];
  for (const int64_t value : {0, 512, 1024, 2048}) {
    base.sweep = core::SweepPoint{"<b>dense", value == 0 ? "" : "seq_len_q", value, 5e7, {}};
    base.time->median_ns = double(value * value + 10);
    input.runs[0].records.push_back(base);
  }
  const std::string text = print_html(input, {.charts = false});
  EXPECT_THAT(text, Not(HasSubstr("<b>dense")));
  const json tables = data_of(text)["scaling"];
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_THAT(tables[0]["title"].get<std::string>(), HasSubstr("<b>dense"));
  EXPECT_EQ(tables[0]["columns"].size(), tables[0]["rows"][0].size());
  EXPECT_THAT(tables[0]["rows"][0][1].get<std::string>(), HasSubstr("n^2.00"));
}

TEST(Html, RecordsHaveTheirEnergy) {
  Input input = attest::testing::golden_input();
  core::Record& record = input.runs[0].records[0];
  core::EnergyRecord refused{.sensor = "nvml", .covers = "GPU", .refusal = "no access"};
  core::EnergyRecord package{.sensor = "rapl", .covers = "package", .run_joules = 0.2};
  core::EnergyRecord device{.sensor = "nvml", .covers = "GPU", .run_joules = 1.5};
  package.net_run_joules = -0.1;
  device.net_run_joules = 1.2;
  record.energy = {refused, package, device};
  const json shown = data_of(print_html(input, {.charts = false}))["records"];
  EXPECT_EQ(shown[0]["energy"]["run"], 1.5) << "the device did the work";
  const json& sensors = shown[0]["energy"]["sensors"];
  ASSERT_EQ(sensors.size(), 2u);
  EXPECT_EQ(sensors[0]["covers"], "package");
  EXPECT_EQ(sensors[0]["net"], -0.1);
  EXPECT_DOUBLE_EQ(sensors[1]["token"], 1.5 / 197);
  record.energy = {refused};
  EXPECT_FALSE(data_of(print_html(input, {.charts = false}))["records"][0].contains("energy"));
}

// A mark can only show fields that its chart has columns for, or that every row has.
TEST(Html, ChartsUseTheFieldsOfTheirColumns) {
  const json data = data_of(page());
  ASSERT_GE(data["charts"].size(), 1u);
  for (const json& chart : data["charts"]) {
    std::set<std::string> known{"impl",  "title", "dtype", "panel", "series",
                                "label", "limit", "word",  "high",  // of limits
                                "share"},                           // of the transform
        used;
    for (const json& column : chart["columns"]) known.insert(column["field"]);
    for (const json& column : chart.value("optional", json::array())) known.insert(column["field"]);
    if (chart.contains("front")) known.insert("front");
    const json flat = chart["spec"].flatten();
    for (const auto& [key, value] : flat.items())
      if (key.ends_with("/field")) used.insert(value.get<std::string>());
    EXPECT_THAT(known, ::testing::IsSupersetOf(used)) << chart["id"];
    EXPECT_GE(used.size(), 4u) << chart["id"];
  }
}

TEST(Html, ThePolicyAllowsVegaOnlyWhereItIs) {
  const auto hashes = [](const std::string& text) {
    const size_t from = text.find("script-src");
    return count(text.substr(from, text.find('"', from) - from), "'sha256-");
  };
  EXPECT_EQ(hashes(page()), 1u);
  EXPECT_THAT(page(), Not(HasSubstr("id=\"licences\"")));
  if (html::kVega.script.empty()) GTEST_SKIP() << "this build has no Vega (scripts/charts.sh)";
  const std::string text = page_with_charts();
  EXPECT_EQ(hashes(text), 2u);
  EXPECT_EQ(count(text, "<script"), 3u);
  EXPECT_EQ(count(text, "</script"), 3u);
  for (const char* holder : {"University of Washington Interactive Data Lab", "Mike Bostock",
                             "Jon Mease", "BSD 3-Clause License", "ISC License", "MIT License"})
    EXPECT_THAT(text, HasSubstr(holder));
  EXPECT_LT(text.size() - page().size(), size_t{1000} << 10);
}

/// A comparison of three cases: one as before, one slower, one with hostile text that now fails.
Comparison worse_comparison() {
  using attest::testing::passed;
  std::vector<core::Record> before{passed("same"), passed("slower"), passed("<img>")};
  std::vector<core::Record> after{passed("same"), passed("slower", 2e6), passed("<img>")};
  after[2].outcome = {core::ReasonCode::kFailNan, "a NaN"};
  before.push_back(passed("gone"));
  return compare({attest::testing::file(before)}, {attest::testing::file(after)},
                 {.rule = {.floor = 0.03}});
}

TEST(Html, AComparisonShowsWhatGotWorseFirst) {
  Input input = attest::testing::golden_input();
  EXPECT_THAT(print_html(input, {.charts = false}), Not(HasSubstr("id=\"comparison\"")));
  input.comparison = worse_comparison();
  const std::string page = print_html(input, {.charts = false});
  const std::string text = page.substr(page.find("<section id=\"comparison\""));
  EXPECT_THAT(text, HasSubstr("Comparison with an earlier build: 2 of 3 cases got worse"));
  EXPECT_THAT(text, HasSubstr("Changed or undecided: 2"));
  EXPECT_THAT(text, HasSubstr("<td>SLOWER x2.0"));
  EXPECT_THAT(text, HasSubstr("<td>pass -&gt; fail</td>"));
  EXPECT_THAT(text, HasSubstr("<summary>Did not change: 1</summary>"));
  EXPECT_LT(text.find("slower (same binary)"), text.find("<td>same (same binary)"));
  EXPECT_THAT(text, HasSubstr("<summary>Only before: 1</summary>"));
  EXPECT_THAT(text, HasSubstr("x: after / before, with its interval"));
  EXPECT_THAT(page, Not(HasSubstr("<img>")));
}

}  // namespace
}  // namespace attest::reports
