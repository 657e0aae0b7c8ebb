// A session runs a plan: suites, spec lines and vectors alike, with what an earlier part of the run
// has, and with inputs that cannot be made.
#include "core/session/session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/measure/testing/fake_root.hpp"
#include "core/session/earlier_results.hpp"
#include "core/session/sweep_plan.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kSuite = R"({"name": "small", "summary": "s",
    "defaults": {"operation": "softmax", "dtypes": ["f32", "f16"], "head_dim": 16},
    "cases": [{"name": "a", "seq_len_q": 8, "quick": true}, {"name": "b", "seq_len_q": 9,
               "quick": ["f16"]},
              {"name": "c", "seq_len_q": 10, "fills": ["codebook"], "impls": ["naive"]}]})";

std::string label(const Job& job) { return job.suite + "/" + job.case_name + " " + job.dtype; }
std::vector<std::string> names(const Plan& plan) {
  std::vector<std::string> all;
  for (const Job& job : plan.jobs) all.push_back(label(job));
  return all;
}

/// Notes what a session says, and has some records already.
class Notes : public Sink {
 public:
  void starting(const std::string& what) override { started.push_back(what); }
  const Record* earlier(const CaseKey& key) override {
    return had && key_of(*had) == key ? had : nullptr;
  }
  void finished(const Job& job, const Registry::Entry* entry, Record& record) override {
    finished_jobs.push_back(label(job) + " " + (entry ? entry->implementation->name : record.impl));
    record.repro = "by the sink";
  }
  void tokens(const TokenPicture& picture) override {
    pictures.push_back(picture.inputs);
    finished_before.push_back(finished_jobs.size());
  }
  bool wants_more() const override { return finished_jobs.size() < most; }

  size_t most = SIZE_MAX;
  const Record* had = nullptr;
  std::vector<std::string> started, finished_jobs, pictures;
  std::vector<size_t> finished_before;  // for each picture
};

class Sessions : public ::testing::Test {
 protected:
  Sessions() {
    std::filesystem::create_directories(folder_);
    suite_ = folder_ / "small.json";
    std::ofstream(suite_) << kSuite;
  }
  ~Sessions() override { std::filesystem::remove_all(folder_); }

  Plan plan(const CaseFilter& filter = {}) const { return plan_suites({suite_}, filter); }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("attest_session_" + std::to_string(getpid()));
  std::filesystem::path suite_;
  const RunOptions options_{.limits = {.threads = 1}, .timed = false};
};

class RunSessions : public Sessions {
 protected:
  const Implementations implementations_{{.globs = {"naive"}}, options_.limits};
};

TEST_F(Sessions, SubjectsAreSuitesAndProblems) {
  const Plan both =
      plan_subjects({suite_, "softmax seq_len_q=8 head_dim=16", "softmax seq_len_q=4 head_dim=4"},
                    {.cases = {"a"}, .dtypes = {"f16"}});
  EXPECT_THAT(names(both), ElementsAre("small/a f16", "/problem1 f32", "/problem2 f32"));
  EXPECT_THROW(plan_subjects({"softmax seq_len_q=4 head_dim=4"}, {.quick = true}), Error);
  EXPECT_THROW(plan_subjects({"softmax seq_len_q=4 head_dim=4"}, {}, {"sweep.pcd"}), Error);
  EXPECT_THROW(plan_subjects({"softmax head_dims=4 seq_len_q=4"}, {}), Error);
}

TEST_F(Sessions, KeepsNamedRecordsInTheirOrder) {
  Plan kept = plan_subjects({suite_, "softmax seq_len_q=4 head_dim=4"}, {});
  const std::vector<std::string> unknown =
      keep_records(kept, {"small/c f32 flash_*", "problem1 f32 *", "small/d f32 naive",
                          "small/a f16 naive", "small/c f32 naive"});
  EXPECT_THAT(names(kept), ElementsAre("small/c f32", "/problem1 f32", "small/a f16"));
  EXPECT_THAT(kept.jobs[0].only_impls(), ElementsAre("flash_*", "naive"));
  EXPECT_THAT(unknown, ElementsAre("small/d f32 naive"));
  EXPECT_THROW(keep_records(kept, {"small/a f16"}), Error);
  EXPECT_THROW(keep_records(kept, {"small/a"}), Error);
}

TEST_F(Sessions, APlanHasWhatItsFilterKeeps) {
  EXPECT_THAT(names(plan({.dtypes = {"f32"}, .quick = true})), ElementsAre("small/a f32"));
  EXPECT_THAT(names(plan({.quick = true})),
              ElementsAre("small/a f32", "small/a f16", "small/b f16"));
  EXPECT_THAT(names(plan({.cases = {"b", "small/c"}})),
              ElementsAre("small/b f32", "small/b f16", "small/c f32", "small/c f16"));
}

TEST_F(Sessions, AJobHasItsCasesFillsUnlessOthersAreNamed) {
  EXPECT_THAT(plan({.cases = {"c"}}).jobs[0].fills, ElementsAre("codebook"));
  EXPECT_THAT(plan({.cases = {"c"}, .fills = {"random"}}).jobs[0].fills, ElementsAre("random"));
}

TEST_F(Sessions, APlanOfNothingIsAnErrorUnlessItIsToBePartOfAnother) {
  EXPECT_THROW(plan({.cases = {"z"}}), Error);
  EXPECT_THROW(plan({.fills = {"hug"}}), Error);
  Plan none = plan({.cases = {"z"}, .lenient = true});
  EXPECT_TRUE(none.jobs.empty());
  none.append(plan_spec({"softmax seq_len_q=8 head_dim=16"}, {}, "one"));
  EXPECT_THAT(names(none), ElementsAre("/one f32"));
  EXPECT_THAT(none.names, ::testing::Contains("small/a"));
}

TEST_F(Sessions, TwoPlansAreTheSameRunWhereFilesAndCasesAre) {
  EXPECT_EQ(plan().identity, plan().identity);
  EXPECT_NE(plan().identity, plan({.cases = {"a"}}).identity);
  EXPECT_NE(plan().identity, plan({.budget_s = 3}).identity);
  const Identity before = plan().identity;
  std::ofstream(suite_, std::ios::app) << "\n";
  EXPECT_NE(plan().identity, before);
}

TEST_F(RunSessions, EveryJobOfThePlanIsRunInOrder) {
  Session session(plan({.dtypes = {"f32"}}), implementations_, options_);
  EXPECT_EQ(session.most_records(), 3u);
  Notes notes;
  session.run(notes);
  EXPECT_THAT(notes.started,
              ElementsAre("small/a f32 naive", "small/b f32 naive", "small/c f32 naive"));
  EXPECT_EQ(notes.finished_jobs, notes.started);
  for (const Record& record : session.records()) {
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
    EXPECT_EQ(record.repro, "by the sink");
  }
  EXPECT_EQ(session.records()[2].fills.size(), 1u);
  EXPECT_GT(session.shares().implementations_s, 0);
  EXPECT_TRUE(session.never_judged().contains("naive"));
}

// Four tenths of a second of frames, alone and beside others, and three seconds for energy.
TEST_F(RunSessions, FramesAndWindowsOfEnergyAreNoTimeOfTheHarness) {
  const FakeRoot root;
  root.write("sys/class/powercap/intel-rapl:0/name", "package-0\n");
  root.write("sys/class/powercap/intel-rapl:0/energy_uj", "65532610987\n");
  root.write("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850\n");
  setenv("ATTEST_MACHINE_ROOT", root.path().c_str(), 1);
  RunOptions options = options_;
  options.relations = RelationChoice::kNone;
  options.energy = true;
  options.pace = PaceOptions{
      .period_ns = 20e6, .window_ns = 0.2e9, .neighbours = {parse_neighbours("compute:1")}};
  Session session(plan({.cases = {"a"}, .dtypes = {"f32"}}), implementations_, options);
  Notes notes;
  session.run(notes);
  ASSERT_TRUE(session.records().at(0).paced) << session.records().at(0).outcome.reason;
  const Shares& shares = session.shares();
  unsetenv("ATTEST_MACHINE_ROOT");
  EXPECT_EQ(session.records().at(0).energy.value().size(), 1u);
  EXPECT_GT(shares.pacing_s, 0.38 + 3);
  EXPECT_LT(shares.pacing_s, shares.total_s);
  EXPECT_LT(shares.harness_s(), 2) << "on a busy machine";
  Shares twice = shares;
  twice.add(shares);
  EXPECT_EQ(twice.pacing_s, 2 * shares.pacing_s);
  EXPECT_EQ(twice.harness_s(), 2 * shares.harness_s());
}

TEST_F(RunSessions, EndsWhereTheSinkWantsNoMore) {
  Session session(plan(), implementations_, options_);
  Notes notes;
  notes.most = 2;
  session.run(notes);
  EXPECT_THAT(notes.finished_jobs, ElementsAre("small/a f32 naive", "small/a f16 naive"));
  EXPECT_EQ(notes.started, notes.finished_jobs);
  EXPECT_EQ(session.records().size(), 2u);
  EXPECT_FALSE(session.completed());
}

TEST_F(RunSessions, AreCompletedByTheLastRecord) {
  Session session(plan({.cases = {"a"}}), implementations_, options_);
  Notes notes;
  notes.most = 2;  // all that there are
  session.run(notes);
  EXPECT_TRUE(session.completed());
}

TEST_F(RunSessions, WhatTheSinkHadEarlierIsNotDoneAgain) {
  Session first(plan({.cases = {"a"}, .dtypes = {"f16"}}), implementations_, options_);
  Notes notes;
  first.run(notes);
  notes = Notes();
  notes.had = &first.records().at(0);
  Session second(plan({.cases = {"a"}}), implementations_, options_);
  second.run(notes);
  EXPECT_THAT(notes.finished_jobs, ElementsAre("small/a f32 naive"));
  EXPECT_EQ(second.records().size(), 2u);
}

TEST_F(RunSessions, ACaseForOthersThanAreLoadedIsAnError) {
  const Implementations others({.plugins = {ATTEST_BINARY_DIR "/tests/plugins/mutants.so"},
                                .globs = {"mutant_zeros"},
                                .with_found = false},
                               options_.limits);
  try {
    Session session(plan(), others, options_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("case 'c': impls:"));
  }
}

TEST_F(RunSessions, WarnOfOneThatIsNotLoadedBesideOthers) {
  Plan some = plan_spec(
      {.spec = "softmax seq_len_q=8 head_dim=16", .only_impls = {"naive", "nave"}}, {}, "one");
  Session session(std::move(some), implementations_, options_);
  EXPECT_THAT(session.warnings(),
              ElementsAre(HasSubstr("'nave' is not loaded, did you mean 'naive'?")));
  EXPECT_TRUE(Session(plan(), implementations_, options_).warnings().empty());
}

TEST_F(RunSessions, OneThatNoCaseIsForIsNotCalledUnjudged) {
  const Implementations all({}, options_.limits);
  Session session(plan({.cases = {"c"}, .dtypes = {"f32"}}), all, options_);
  Notes notes;
  session.run(notes);
  EXPECT_TRUE(session.never_judged().contains("naive"));
  EXPECT_EQ(session.never_judged().size(), 1u);
}

TEST_F(RunSessions, OneOfAnotherOperationIsNotCalledUnjudged) {
  const Implementations all({}, options_.limits);
  Session session(plan_spec({.spec = "deformable seq_len_q=8 head_dim_v=16 num_points=1 "
                                     "level_height_0=4 level_width_0=4",
                             .only_impls = {"naive"}},
                            {}, "one"),
                  all, options_);
  Notes notes;
  session.run(notes);
  ASSERT_EQ(session.records().size(), 1u);
  EXPECT_EQ(session.records()[0].outcome.verdict(), Verdict::kUnsupported);
  EXPECT_TRUE(session.never_judged().empty());
}

// Two cases have the tokens of one sweep, one those of an image.
TEST_F(RunSessions, TheSinkSeesEachSweepOnceBeforeItsRecords) {
  const std::string sweep = "lidar:voxel_size=0.5,curve=z,first=40";
  Plan plan = plan_spec({"softmax seq_len_q=8 head_dim=16"}, {}, "first");
  plan.append(plan_spec({"softmax seq_len_q=40 head_dim=16", sweep}, {}, "a"));
  plan.append(plan_spec({"softmax seq_len_q=20 head_dim=16", sweep}, {}, "b"));
  plan.append(
      plan_spec({"softmax seq_len_q=4 head_dim=16", "image:width=32,height=32,patch=16"}, {}, "c"));
  Session session(std::move(plan), implementations_, options_);
  Notes notes;
  session.run(notes);
  ASSERT_EQ(session.records().size(), 4u);
  EXPECT_THAT(notes.pictures, ElementsAre(session.records()[1].inputs));
  EXPECT_EQ(session.records()[2].inputs, session.records()[1].inputs);
  EXPECT_THAT(notes.finished_before, ElementsAre(1u));
}

// Four tokens for a problem of 61.
TEST_F(RunSessions, InputsThatCannotBeMadeAreARecordAndTheRunGoesOn) {
  Plan plan = plan_spec({"softmax seq_len_q=61 head_dim=16", "image:width=32,height=32,patch=16"},
                        {}, "too_few");
  plan.append(plan_spec({"softmax seq_len_q=8 head_dim=16"}, {}, "good"));
  Session session(std::move(plan), implementations_, options_);
  Notes notes;
  session.run(notes);
  ASSERT_EQ(session.records().size(), 2u);
  EXPECT_EQ(session.records()[0].outcome.code, ReasonCode::kErrorInputs)
      << session.records()[0].outcome.reason;
  EXPECT_EQ(session.records()[1].outcome.verdict(), Verdict::kPass);
  EXPECT_EQ(session.run_one(0, &implementations_.chosen()[0]).outcome.code,
            ReasonCode::kErrorInputs);
}

// A sweep that cannot be read. Its records can be told apart and resumed.
TEST_F(RunSessions, AFileThatCannotBeReadIsARecordOfEachDtype) {
  std::ofstream(suite_) << R"({"name": "small", "summary": "s",
    "defaults": {"operation": "softmax", "dtypes": ["f32", "f16"], "head_dim": 16},
    "cases": [{"name": "a", "inputs": "lidar:voxel_size=0.1,file=missing.ply",
               "seq_len_q": "tokens"},
              {"name": "b", "seq_len_q": 8}]})";
  Session session(plan(), implementations_, options_);
  Notes notes;
  session.run(notes);
  const size_t each = session.records().size() / 4;
  ASSERT_EQ(session.records().size(), each * 4);
  const Implementation& first = *implementations_.chosen()[0].implementation;
  for (const auto& [at, dtype] : {std::pair(size_t(0), "f32"), {each, "f16"}}) {
    const Record& record = session.records()[at];
    EXPECT_EQ(record.outcome.code, ReasonCode::kErrorInputs) << record.outcome.reason;
    EXPECT_EQ(key_of(record), (CaseKey{.suite = "small",
                                       .case_name = "a",
                                       .dtype = dtype,
                                       .impl = first.name,
                                       .plugin_hash = hex(first.binary_hash),
                                       .threads = options_.limits.threads}));
    EXPECT_THAT(record.inputs, HasSubstr("missing.ply"));
  }
  EXPECT_EQ(session.records()[2 * each].outcome.verdict(), Verdict::kPass);
}

TEST_F(RunSessions, OneRecordByItselfIsThatOfARun) {
  Session session(plan({.cases = {"b"}}), implementations_, options_);
  Notes notes;
  session.run(notes);
  for (const size_t job : {0u, 1u, 0u}) {
    const Record alone = session.run_one(job, &implementations_.chosen()[0]);
    EXPECT_EQ(alone.fills[0].outputs_hash, session.records()[job].fills[0].outputs_hash);
    EXPECT_EQ(alone.dtype, session.records()[job].dtype);
  }
}

TEST_F(RunSessions, OptionsAreWhatMakesItAnotherRun) {
  const Session one(plan(), implementations_, options_);
  RunOptions longer = options_;
  longer.limits.timeout_s = 7;
  EXPECT_NE(one.identity(), Session(plan(), implementations_, longer).identity());
  EXPECT_EQ(one.identity(), Session(plan(), implementations_, options_).identity());
}

std::vector<Sweep> sweeps(const std::string& over) {
  return sweeps_of(scaling_of_spec("softmax head_dim=16", {over}));
}

TEST_F(Sessions, ASweepHasAJobForEachSizeAndItsSmallestProblemFirst) {
  const Plan plan = plan_sweeps(sweeps("seq_len_q=8,32"), {.threads = 2});
  EXPECT_THAT(names(plan),
              ElementsAre("/softmax/smallest/threads=2 f32", "/softmax/seq_len_q=8/threads=2 f32",
                          "/softmax/seq_len_q=32/threads=2 f32"));
  EXPECT_EQ(plan.jobs[0].point->over, "");
  EXPECT_EQ(plan.jobs[2].point->over, "seq_len_q");
  EXPECT_EQ(plan.jobs[2].point->value, 32);
  EXPECT_THAT(names(plan_sweeps(sweeps("seq_len_q=8"), {})),
              ElementsAre("/softmax/smallest f32", "/softmax/seq_len_q=8 f32"));
  EXPECT_THROW(plan_sweeps(sweeps("seq_len_q=8"), {.fills = {"hug"}}), Error);
}

TEST_F(Sessions, SweepsOfOneNameAreSetApart) {
  std::vector<Scaling> scalings(3, scaling_of_spec("linear head_dim=8", {"seq_len_q=8,16"}));
  number_names(scalings);
  EXPECT_EQ(scalings[0].base.name, "linear");
  EXPECT_EQ(scalings[2].base.name, "linear-3");
}

TEST_F(Sessions, SweepsComeFromSuites) {
  std::ofstream(folder_ / "s.json") << R"({"name": "s", "summary": "sizes",
      "defaults": {"operation": "softmax", "dtypes": ["f32", "f16"], "head_dim": 16},
      "scaling": [{"name": "a", "over": "seq_len_q=8,32", "quick": true, "deadline": "5ms"},
                  {"name": "b", "over": "batch=1,2", "seq_len_q": 9}]})";
  const std::string file = folder_ / "s.json";
  const auto read = [&](const SweepFilter& filter) {
    std::vector<std::string> all;
    for (const Scaling& scaling : read_scalings({file}, filter))
      all.push_back(scaling.base.name + " " + std::to_string(scaling.base.dtypes.size()));
    return all;
  };
  EXPECT_THAT(read({}), ElementsAre("a 2", "b 2"));
  EXPECT_THAT(read({.dtypes = {"f16"}, .quick = true}), ElementsAre("a 1"));
  EXPECT_THAT(read({.names = {"b*"}}), ElementsAre("b 2"));
  EXPECT_THROW(read({.names = {"c"}}), Error);
  EXPECT_THROW(read({.dtypes = {"f8"}}), Error);
  EXPECT_THROW(read_scalings({suite_}, {}), Error) << "it has no scaling";
  const Plan plan = plan_sweeps(sweeps_of(read_scalings({file}, {})[0]), {});
  EXPECT_EQ(plan.jobs[0].point->deadline_ns, 5e6);
  EXPECT_FALSE(plan.jobs[0].point->memory_bytes);
}

TEST_F(RunSessions, APlanGrowsWhileItsRecordsShowWhatIsMissing) {
  const std::vector<Sweep> all = sweeps("seq_len_q=8,32");
  Session session(plan_sweeps(all, {}), implementations_, options_);
  Notes notes;
  session.run(notes);
  EXPECT_EQ(session.records().size(), 3u);
  Plan more;
  add_point(all[0], 16, {}, more);
  session.extend(std::move(more));
  session.run(notes);
  ASSERT_EQ(session.records().size(), 4u);
  EXPECT_TRUE(session.completed());
  EXPECT_EQ(session.records()[3].case_name, "softmax/seq_len_q=16");
  EXPECT_EQ(session.records()[3].sweep->value, 16);
  EXPECT_EQ(session.records()[3].sweep->over, "seq_len_q");
  EXPECT_EQ(session.records()[3].outcome.code, ReasonCode::kPass);
  EXPECT_EQ(session.records()[3].spec, "softmax dtype=f32 seq_len_q=16 head_dim=16");
}

TEST_F(RunSessions, ASweepMayBeForSomeImplementations) {
  std::vector<Sweep> all = sweeps("seq_len_q=8,32");
  all[0].of.base.only_impls = {"nobody"};
  try {
    Session session(plan_sweeps(all, {}), implementations_, options_);
    FAIL() << "nobody is loaded";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("impls: nobody: matches none of"));
  }
}

}  // namespace
}  // namespace attest::core
