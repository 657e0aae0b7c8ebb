// Plans: jobs of suites, spec lines and folders, what a filter leaves of them, and what makes two
// runs the same.
#include "core/session/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using ::testing::ElementsAre, ::testing::HasSubstr, ::testing::IsEmpty;

constexpr const char* kDense = "softmax seq_len_q=8 head_dim=16";

// The message of what a call throws; "nothing" if it throws nothing.
template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

std::vector<std::string> job_names(const Plan& plan) {
  std::vector<std::string> found;
  for (const Job& job : plan.jobs) found.push_back(job.name());
  return found;
}

class Plans : public ::testing::Test {
 protected:
  Plans() {
    std::filesystem::create_directories(folder_);
    write("plans.json", R"({"name": "plans", "summary": "s", "budget": 0.25, "cases": [
      {"name": "a", "operation": "softmax", "dtypes": ["f32", "f16"], "quick": ["f16"],
       "seq_len_q": 8, "head_dim": 16, "impls": ["naive*"]},
      {"name": "b", "operation": "softmax", "dtypes": ["f32"], "seq_len_q": 4, "head_dim": 8,
       "fills": ["random"]}]})");
  }
  ~Plans() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  Plan suite(const CaseFilter& filter = {}) const {
    return plan_suites({(folder_ / "plans.json").string()}, filter);
  }

  std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("plans_" + std::to_string(getpid()));
};

TEST_F(Plans, ASuiteHasAJobForEachCaseAndDtype) {
  const Plan plan = suite();
  EXPECT_THAT(job_names(plan), ElementsAre("plans/a f32", "plans/a f16", "plans/b f32"));
  EXPECT_THAT(plan.names, ElementsAre("a", "plans/a", "b", "plans/b"));
  EXPECT_THAT(plan.dtypes, ElementsAre("f16", "f32"));
  EXPECT_EQ(plan.jobs[0].budget_s, 0.25);
  EXPECT_THAT(plan.jobs[0].fills, IsEmpty());
  EXPECT_THAT(plan.jobs[2].fills, ElementsAre("random"));
  EXPECT_THAT(plan.jobs[0].only_impls(), ElementsAre("naive*"));
  EXPECT_THAT(plan.jobs[2].only_impls(), IsEmpty());
  EXPECT_FALSE(plan.jobs[0].is_vector());
}

TEST_F(Plans, AFilterTakesCasesByEitherNameAndOverridesWhatTheySay) {
  EXPECT_THAT(job_names(suite({.cases = {"b"}})), ElementsAre("plans/b f32"));
  EXPECT_THAT(job_names(suite({.cases = {"*/a"}, .dtypes = {"f16"}})), ElementsAre("plans/a f16"));
  EXPECT_THAT(job_names(suite({.quick = true})), ElementsAre("plans/a f16"));
  const Plan own = suite({.fills = {"huge"}, .budget_s = 2});
  EXPECT_THAT(own.jobs[2].fills, ElementsAre("huge"));
  EXPECT_EQ(own.jobs[0].budget_s, 2);
}

TEST_F(Plans, WhatMatchesNothingIsNamed) {
  EXPECT_THAT(refusal([&] { suite({.cases = {"c"}}); }), HasSubstr("--case"));
  EXPECT_THAT(refusal([&] { suite({.dtypes = {"f64"}}); }), HasSubstr("--dtype"));
  EXPECT_THAT(refusal([&] { suite({.fills = {"hug"}}); }), HasSubstr("--fill"));
  EXPECT_THAT(refusal([&] { suite({.cases = {"b"}, .dtypes = {"f16"}}); }),
              HasSubstr("leave no case"));
  EXPECT_THAT(suite({.cases = {"c"}, .lenient = true}).jobs, IsEmpty());
  const std::string file = (folder_ / "plans.json").string();
  EXPECT_THAT(refusal([&] { plan_suites({file}, {}, {"sweep.pcd"}); }),
              HasSubstr("--tokens sweep.pcd"));
  const std::string tokens = write("tokens.json", R"({"name": "tokens", "summary": "s", "cases": [
      {"name": "t", "operation": "softmax", "dtypes": ["f32"], "seq_len_q": 4, "head_dim": 8,
       "inputs": "image:width=32,height=32,patch=15"}]})");
  EXPECT_THAT(refusal([&] { plan_suites({tokens}, {}); }),
              HasSubstr("suite 'tokens': case 't': inputs"));
}

TEST_F(Plans, IdentityChangesWithWhatIsRun) {
  const Identity first = suite().identity;
  EXPECT_EQ(suite().identity, first);
  EXPECT_NE(suite({.cases = {"a"}}).identity.at("cases"), first.at("cases"));
  EXPECT_NE(suite({.budget_s = 2}).identity.at("cases"), first.at("cases"));
  EXPECT_EQ(suite({.fills = {"huge", "random"}}).identity.at("fills"), "huge,random");
  EXPECT_EQ(first.at("tokens"), "none");
  std::ofstream(folder_ / "plans.json", std::ios::app) << " ";
  EXPECT_NE(suite().identity.at("suites"), first.at("suites"));
  EXPECT_EQ(suite().identity.at("cases"), first.at("cases"));
}

TEST(SpecPlans, HaveAJobForEachDtype) {
  const Plan plan =
      plan_spec({.spec = kDense, .only_impls = {"flash*"}}, {"random"}, "mine", {"f16", "bf16"});
  EXPECT_THAT(job_names(plan), ElementsAre("mine f16", "mine bf16"));
  EXPECT_THAT(plan.jobs[1].fills, ElementsAre("random"));
  EXPECT_THAT(plan.jobs[1].only_impls(), ElementsAre("flash*"));
  const Plan one = plan_spec({.spec = kDense, .only_impls = {"flash*"}}, {}, "mine");
  EXPECT_THAT(one.jobs[0].only_impls(), ElementsAre("flash*"));
  EXPECT_EQ(one.jobs[0].token_line(), "");
  EXPECT_EQ(plan_spec({kDense, "image:width=32,height=32,patch=16"}, {}, "t").jobs[0].token_line(),
            "image:width=32,height=32,patch=16");
  EXPECT_THAT(
      refusal([] { plan_spec({.spec = std::string(kDense) + " dtype=f16"}, {}, "mine", {"f32"}); }),
      HasSubstr("leave one out"));
  EXPECT_THAT(refusal([] { plan_spec({.spec = kDense}, {"hug"}, "mine"); }), HasSubstr("--fill"));
}

TEST(SpecPlans, AreToldFromNamesOfSuites) {
  EXPECT_TRUE(is_spec("softmax"));
  EXPECT_TRUE(is_spec(kDense));
  EXPECT_TRUE(is_spec("head_dim=4"));
  EXPECT_FALSE(is_spec("smoke"));
  EXPECT_FALSE(is_spec("suites/smoke.json"));
}

TEST_F(Plans, SubjectsAreSuitesThenProblemsByNumber) {
  const std::string file = (folder_ / "plans.json").string();
  const Plan plan =
      plan_subjects({kDense, file, "linear seq_len_q=8 head_dim=4"}, {.dtypes = {"f16"}});
  EXPECT_THAT(job_names(plan), ElementsAre("plans/a f16", "problem1 f32", "problem2 f32"));
  EXPECT_EQ(plan.identity.at("problems"), std::string(kDense) + "; linear seq_len_q=8 head_dim=4");
  EXPECT_EQ(plan.identity.at("suites"), suite().identity.at("suites"));
  EXPECT_FALSE(plan_subjects({file}, {}).identity.contains("problems"));
}

TEST_F(Plans, AppendedJobsStillHaveTheirCases) {
  Plan both = plan_spec({kDense}, {}, "first");
  both.append(suite());
  EXPECT_THAT(job_names(both),
              ElementsAre("first f32", "plans/a f32", "plans/a f16", "plans/b f32"));
  EXPECT_EQ(std::get<SuiteJob>(both.jobs[3].source).wanted, &both.suites[0].cases[1]);
  EXPECT_THAT(both.names, ElementsAre("a", "plans/a", "b", "plans/b"));
}

TEST_F(Plans, RecordsAreKeptInTheOrderOfTheirLines) {
  Plan plan = suite();
  EXPECT_THAT(keep_records(plan, {"plans/b f32 naive", "plans/c f32 x", "plans/a f32 flash*",
                                  "plans/b f32 linear"}),
              ElementsAre("plans/c f32 x"));
  EXPECT_THAT(job_names(plan), ElementsAre("plans/b f32", "plans/a f32"));
  EXPECT_THAT(plan.jobs[0].only_impls(), ElementsAre("naive", "linear"));
  EXPECT_THAT(plan.jobs[1].only_impls(), ElementsAre("flash*")) << "not those of the case";
  Plan other = suite();
  keep_records(other, {"plans/b f32 naive"});
  EXPECT_NE(plan.identity.at("records"), other.identity.at("records"));
  EXPECT_THAT(refusal([&] { keep_records(other, {"plans/b f32"}); }),
              HasSubstr("SUITE/CASE DTYPE IMPL"));
}

TEST_F(Plans, FilesAreHashedInOrder) {
  const std::string a = write("a", "1"), b = write("b", "2");
  EXPECT_EQ(hash_files({}), "none");
  EXPECT_EQ(hash_files({a, b}), hash_files({a}) + " " + hash_files({b}));
  const std::string before = hash_files({a});
  write("a", "3");
  EXPECT_NE(hash_files({a}), before);
}

}  // namespace
}  // namespace attest::core
