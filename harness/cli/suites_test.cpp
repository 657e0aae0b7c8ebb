// The suites that come with attest: every case makes sense, says where it comes from, and agrees
// with the schema and the README.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/inputs/event_ledger.hpp"
#include "core/inputs/prepared.hpp"
#include "core/inputs/tokens.hpp"
#include "core/problem/glob.hpp"
#include "core/problem/spec.hpp"
#include "core/problem/suite.hpp"
#include "core/problem/suite_schema.hpp"

namespace attest::core {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(ATTEST_SOURCE_DIR) / "suites";
constexpr const char* kSchema = "suite.schema.json";

std::vector<std::filesystem::path> suite_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".json" && entry.path().filename() != kSchema)
      files.push_back(entry.path());
  return files;
}

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

TEST(Suites, AllAreThere) {
  std::set<std::string> names;
  for (const auto& file : suite_files()) {
    const Suite suite = read_suite(file);
    EXPECT_EQ(suite.name, file.stem().string());
    names.insert(suite.name);
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"vit", "bev", "lidar", "windows", "matching", "decode",
                                            "masks", "stress", "multiscale", "backward", "gpu",
                                            "smoke", "default"}));
}

TEST(Suites, EveryCaseHasALineAndReadableInputs) {
  for (const auto& file : suite_files())
    for (const Case& one : read_suite(file).cases) {
      if (one.inputs.from_tokens) {
        EXPECT_NO_THROW(parse_token_source(one.inputs.source)) << one.name;
      }
      for (const DType dtype : one.dtypes) {
        const Problem problem = one.problem(dtype, 123457);
        EXPECT_TRUE(parse_problem(print_problem(problem)) == problem) << print_problem(problem);
        EXPECT_GT(problem.operation->flops(problem), 0) << one.name;
      }
    }
}

TEST(Suites, ModelsHaveASourceOrANote) {
  for (const char* name : {"vit", "bev", "lidar", "windows", "matching", "gpu"})
    for (const Case& one : read_suite(kFolder / (std::string(name) + ".json")).cases)
      EXPECT_FALSE(one.source.empty() && one.note.empty() && one.operation == "softmax" &&
                   !one.inputs.from_tokens)
          << name << ": " << one.name;
}

TEST(Suites, SmokeMeetsEveryFeature) {
  uint64_t features = 0;
  for (const Case& one : read_suite(kFolder / "smoke.json").cases)
    for (const DType dtype : one.dtypes) features |= one.problem(dtype, 100).features;
  constexpr uint64_t kOwn = ATTEST_WITH_QUERY_MASK | ATTEST_WITH_DBIAS | ATTEST_WITH_DREL_BIAS |
                            ATTEST_WITH_DSINKS;  // of linear attention and of gradients
  EXPECT_EQ(print_features(features), print_features(((ATTEST_WITH_DESCALE << 1) - 1) | kOwn));
}

TEST(Suites, ReadmeCountsThem) {
  const std::string readme = text_of(kFolder / "README.md");
  for (const auto& file : suite_files()) {
    const Suite suite = read_suite(file);
    const auto quick = std::count_if(suite.cases.begin(), suite.cases.end(),
                                     [](const Case& one) { return !one.quick.empty(); });
    EXPECT_GT(quick, 0) << suite.name;
    const size_t row = readme.find("| `" + suite.name + "` |");
    ASSERT_NE(row, std::string::npos) << suite.name << " is missing in suites/README.md";
    EXPECT_THAT(readme.substr(row, readme.find('\n', row) - row),
                ::testing::HasSubstr("| " + std::to_string(suite.cases.size()) + " (" +
                                     std::to_string(quick) + ") |"));
  }
}

// The example of the README is a suite.
TEST(Suites, ReadmeExampleIsRead) {
  const std::string readme = text_of(kFolder / "README.md");
  const size_t begin = readme.find("```json\n") + 8;
  EXPECT_EQ(parse_suite(std::string_view(readme).substr(begin, readme.find("```", begin) - begin),
                        "README.md")
                .cases.size(),
            3u);
}

// The dtypes in which the events of a case are surveyed by the test below: all that it has. None:
// the case is large, or has tokens.
std::vector<DType> surveyed_dtypes(const Case& one) {
  constexpr double kMostFlops = 3e8, kMostBytes = 16 << 20;
  if (one.inputs.from_tokens) return {};
  const Problem problem = one.problem(one.dtypes.front(), 0);
  const bool small =
      problem.operation->flops(problem) <= kMostFlops && min_bytes(problem) <= kMostBytes;
  return small ? one.dtypes : std::vector<DType>{};
}

// Surveys of cases, one for each problem and choice of fills: suites have problems in common.
class Surveys {
 public:
  const EventSurvey& of(const Case& one, DType dtype) {
    const Problem problem = one.problem(dtype, 0);
    const std::string line = print_problem(problem);
    const std::vector<std::string> fills = fills_of(one, problem);
    std::string key = line;
    for (const std::string& fill : fills) key += " " + fill;
    auto at = known_.find(key);
    if (at == known_.end())
      at = known_.emplace(key, survey_events(problem, spec_seed(line), fills)).first;
    return at->second;
  }

 private:
  std::map<std::string, EventSurvey> known_;
};

// What the cases miss, as it was when somebody looked at it last.
const std::filesystem::path kMissed =
    std::filesystem::path(ATTEST_SOURCE_DIR) / "harness/cli/missed_events.json";

using Missed = std::map<std::string, std::vector<std::string>>;  // events, by case

void write_missed(const Missed& missed) {
  std::ofstream file(kMissed);
  for (const auto& [name, events] : missed)
    file << (name == missed.begin()->first ? "{" : ",\n ") << nlohmann::json(name).dump() << ": "
         << nlohmann::json(events).dump();
  file << "}\n";
}

// What the dtypes of one case miss, and what they could have.
struct OfDtypes {
  std::set<std::string> missed, possible;
  void add(const EventSurvey& survey) {
    for (const std::string& name : survey.missed()) missed.insert(name);
    for (const NumericEvent& event : survey.events)
      if (event.why_not.empty()) possible.insert(event.name);
  }
};

// "lane/64/7": "lane/64".
std::string family_of(const std::string& name) { return name.substr(0, name.rfind('/')); }

// A glob that excuses more than is missed would hide what is lost later. What a case says itself
// excuses single events; what a suite says of several cases excuses families of which each case
// misses some. Cases that choose their fills are not looked at.
void expect_narrow(const Case& one, const OfDtypes& found) {
  if (!one.fills.empty()) return;
  std::set<std::string> families;
  for (const std::string& name : found.missed) families.insert(family_of(name));
  for (const Excuse& excuse : one.misses)
    for (const std::string& name : found.possible)
      EXPECT_TRUE(!matches(name, {excuse.glob}) || found.missed.contains(name) ||
                  (excuse.shared && families.contains(family_of(name))))
          << one.suite << "/" << one.name << ": " << excuse.glob << " excuses " << name
          << ", which it does not miss";
}

// A case has to say which events it leaves out, in each of its dtypes, and to leave out no others
// than were known. The file has what each problem misses, so that a fill which is lost, or no
// longer causes an event in one dtype, shows here: "suite/case" has what the first dtype misses,
// "suite/case dtype" what another one does, if that differs. What misses nothing is not in it. Of
// cases that choose their fills it has the quick ones, in their first dtype.
// ATTEST_UPDATE=1 in the environment writes the file anew.
TEST(Suites, NoSmallCaseMissesAnEventUnsaid) {
  const bool update = std::getenv("ATTEST_UPDATE") != nullptr;
  const Missed known = update ? Missed() : nlohmann::json::parse(text_of(kMissed)).get<Missed>();
  Missed found;
  Surveys surveys;
  for (const auto& file : suite_files()) {
    EventLedger ledger;
    for (const Case& one : read_suite(file).cases) {
      const std::string of_case = one.suite + "/" + one.name;
      std::vector<std::string> of_first;
      OfDtypes of_dtypes;
      for (const DType dtype : surveyed_dtypes(one)) {
        const EventSurvey& survey = surveys.of(one, dtype);
        std::vector<std::string> missed = survey.missed();
        std::ranges::sort(missed);
        of_dtypes.add(survey);
        const bool first = dtype == one.dtypes.front();
        if (first) of_first = missed;
        const std::string name = of_case + " " + std::string(dtype_name(dtype));
        EXPECT_THAT(ledger.add(one, survey).unsaid, ::testing::IsEmpty()) << name;
        const bool is_listed = one.fills.empty() || (first && !one.quick.empty());
        if (is_listed && (first ? !missed.empty() : missed != of_first))
          found[first ? of_case : name] = missed;
      }
      expect_narrow(one, of_dtypes);
    }
    EXPECT_THAT(ledger.stale(), ::testing::IsEmpty()) << file;
  }
  if (update) return write_missed(found);
  for (const auto& [name, events] : known)
    EXPECT_TRUE(found.contains(name)) << name << " misses nothing, or as much as its first dtype";
  for (const auto& [name, events] : found) {
    const auto listed = known.find(name);
    EXPECT_EQ(events, listed == known.end() ? std::vector<std::string>() : listed->second) << name;
  }
}

// The check above sees a fill that is lost.
TEST(Suites, ALostFillIsAMissedEvent) {
  const Suite suite = read_suite(kFolder / "default.json");
  const auto one = std::ranges::find(suite.cases, "tiny/dense", &Case::name);
  ASSERT_NE(one, suite.cases.end());
  const Problem problem = one->problem(one->quick.front(), 0);
  const EventSurvey survey =
      survey_events(problem, spec_seed(print_problem(problem)), fills_of(*one, problem));
  for (const char* fill : {"rising", "wide", "wild"})
    EXPECT_GT(survey.missed(fill).size(), survey.missed().size()) << fill;
}

// The schema's words are those of the operations that come with attest: it is generated.
TEST(Suites, SchemaIsThatOfTheOperations) {
  EXPECT_EQ(text_of(kFolder / kSchema), suite_schema())
      << "ninja suite_schema && bin/suite_schema > suites/suite.schema.json";
}

TEST(Suites, SchemaKnowsEveryWord) {
  const auto schema = nlohmann::json::parse(suite_schema());
  std::set<std::string> listed, known{"name",   "operation", "dtypes", "quick", "inputs",
                                      "source", "note",      "impls",  "fills", "misses"};
  for (const auto& [key, value] : schema.at("definitions").at("case").at("properties").items())
    listed.insert(key);
  for (const Operation* operation : all_operations())
    for (const std::string& word : spec_words(*operation))
      if (word != "dtype") known.insert(word);
  EXPECT_EQ(listed, known);
}

}  // namespace
}  // namespace attest::core
