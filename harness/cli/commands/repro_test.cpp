// attest repro as somebody who looks for a bug meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/inputs/formats/bytes.hpp"
#include "core/vectors/formats/npy.hpp"
#include "testing/folder_test.hpp"

namespace attest::cli {
namespace {

using attest::testing::Outcome;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

const std::string kPlugins = ATTEST_BINARY_DIR "/tests/plugins/";

class Repro : public testing::FolderTest {
 protected:
  /// The first record of a results file.
  json record(const std::string& file = "r.jsonl") const {
    const std::vector<json> all = results(file);
    return all.empty() ? json() : all.front();
  }
  core::FileTensor array(const std::string& file) const {
    return core::parse_npy(core::read_bytes(folder_ / file), file);
  }
};

// A case may fail only because a variant of its problem does. The output names that variant and the
// mistake in it.
TEST_F(Repro, NamesTheVariantThatFailsByItself) {
  const Outcome outcome = attest("repro --judge-only --plugin " + kPlugins +
                                 "template_bugs.so --impl template_causal_off_by_one "
                                 "'softmax dtype=f32 num_heads=2 seq_len_q=61 head_dim=32'");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.text,
              HasSubstr("(of its variant 'window', which fails by itself: 'softmax dtype=f32 "
                        "num_heads=2 seq_len_q=61 head_dim=32 window_right=0')"));
  EXPECT_THAT(outcome.text, HasSubstr("on plan-reuse: o: "));
  EXPECT_THAT(outcome.text, HasSubstr("it is as if the diagonal were one key further to the right, "
                                      "so that a row sees one key too many\n"));
}

// The dump has the numbers that the record has, and is judged again as they were.
TEST_F(Repro, DumpsWhatTheJudgeSaw) {
  const std::string spec =
      "'softmax dtype=bf16 num_heads=4 num_kv_heads=2 seq_len_q=61 head_dim=32'";
  const Outcome outcome = attest("repro --plugin " + kPlugins +
                                 "mutants.so --impl mutant_gqa_tiled,naive --judge-only "
                                 "--fill random,codebook --dump dump -o r.jsonl " +
                                 spec);
  EXPECT_EQ(outcome.code, 1) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("dump: 3 runs below dump; attest run --vectors dump"));
  for (const char* name : {"mutant_gqa_tiled", "naive"})  // each block says whose it is
    EXPECT_THAT(outcome.text,
                HasSubstr(std::string("implementation:  ") + name + "\nspec:            softmax"));
  const json worst = record()["fills"][0]["judgement"]["worst"];
  const core::FileTensor rows = array("dump/mutant_gqa_tiled/random/o.rows.npy"),
                         error = array("dump/mutant_gqa_tiled/random/o.error.npy");
  const std::vector<int64_t> index = worst["index"];
  bool found = false;
  for (int64_t row = 0; row < rows.dims[0]; ++row) {
    if (rows.at(row * 3 + 1) != double(index[1]) || rows.at(row * 3 + 2) != double(index[2]))
      continue;
    found = true;
    EXPECT_NEAR(error.at(row * 32 + index[3]),
                worst["got"].get<double>() - worst["expected"].get<double>(), 1e-15);
  }
  EXPECT_TRUE(found);

  const Outcome again = attest("run --vectors dump --impl naive --relations none -o again.jsonl");
  EXPECT_EQ(again.code, 1) << again.text;
  EXPECT_THAT(again.text, HasSubstr("given          2 pass, 1 fail"));
  EXPECT_THAT(again.text, HasSubstr("naive          3 pass"));
  const json given = record("again.jsonl");
  EXPECT_EQ(given["impl"], "given");
  EXPECT_EQ(given["case"], "mutant_gqa_tiled/random");
  EXPECT_EQ(given["fills"][0]["inputs_hash"], record()["fills"][0]["inputs_hash"]);
  EXPECT_EQ(given["arithmetic"], record()["arithmetic"]);
  EXPECT_EQ(given["max_ratio"], record()["fills"][0]["judgement"]["max_ratio"]);
}

TEST_F(Repro, DumpsTheInputsOfACrash) {
  const Outcome outcome = attest("repro --plugin " + kPlugins +
                                 "hostile.so --impl hostile_segfault "
                                 "--judge-only --dump dump 'softmax seq_len_q=8 head_dim=8'");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(fs::exists(folder_ / "dump/hostile_segfault/random/q.npy"));
  EXPECT_TRUE(fs::exists(folder_ / "dump/hostile_segfault/random/o.expected.npy"));
  EXPECT_FALSE(fs::exists(folder_ / "dump/hostile_segfault/random/o.npy"));
}

TEST_F(Repro, DumpsIntoNewFoldersAlone) {
  fs::create_directories(folder_ / "kept");
  std::ofstream(folder_ / "kept/file") << "mine";
  const std::string spec = " --impl naive --judge-only 'softmax seq_len_q=8 head_dim=8'";
  const Outcome kept = attest("repro --dump kept" + spec);
  EXPECT_EQ(kept.code, 64);
  EXPECT_THAT(kept.text, HasSubstr("--dump kept: exists and is not empty; name a new folder"));
  EXPECT_EQ(attest("repro --dump kept/file" + spec).code, 64);
  const Outcome nowhere = attest("repro --dump /proc/nowhere" + spec);
  EXPECT_EQ(nowhere.code, 4);
  EXPECT_THAT(nowhere.text,
              AllOf(HasSubstr("/proc/nowhere/naive/random: cannot be made"), HasSubstr("1 pass")));
}

TEST_F(Repro, TakesALimitForTheCase) {
  const std::string spec =
      " --impl naive --judge-only -o r.jsonl --overwrite 'softmax seq_len_q=2500 head_dim=64'";
  EXPECT_EQ(attest("repro --case-limit 0.01" + spec).code, 4);
  EXPECT_EQ(record()["code"], "skipped:time");
  EXPECT_THAT(std::string(record()["repro"]), HasSubstr(" --case-limit 10ms "));
  EXPECT_EQ(attest("repro --fill random --relations none" + spec).code, 0);
  EXPECT_THAT(std::string(record()["repro"]), Not(HasSubstr("--case-limit")));
}

TEST_F(Repro, RepeatsARunAndJudgesWhatDiffers) {
  const std::string spec =
      " --judge-only --relations none --fill random --repeat 20 -o r.jsonl "
      "--overwrite 'softmax seq_len_q=61 head_dim=16'";
  const Outcome same = attest("repro --impl naive" + spec);
  EXPECT_EQ(same.code, 0);
  EXPECT_THAT(same.text, HasSubstr("19 reruns give the same bits"));
  EXPECT_THAT(std::string(record()["repro"]), HasSubstr(" --repeat 20 "));
  const Outcome race = attest("repro --plugin " + kPlugins + "races.so --impl race_barrier" + spec);
  EXPECT_EQ(race.code, 1);
  EXPECT_THAT(race.text,
              ContainsRegex("of 19 reruns give other bits: (race or )?uninitialised memory"));
  EXPECT_THAT(race.text, ContainsRegex("  1 x [0-9a-f]{16}: fail worst .*; largest error is"));
  EXPECT_TRUE(record()["fills"][0]["reruns"]["apart"]);
}

// On standard error, so that a table in a file stays a table. Other commands keep it away.
TEST_F(Repro, PassesOnWhatAPluginWrites) {
  const std::string options =
      " --plugin " + kPlugins + "hostile.so --judge-only --relations none --fill random ";
  const std::string spec = "'softmax seq_len_q=8 head_dim=8'";
  const auto apart = [&](const std::string& impl, const std::string& shown) {
    return attest("repro --impl " + impl + options + spec + " >table 2>said; cat " + shown).text;
  };
  EXPECT_EQ(apart("honest_prints", "said"), "a kernel says hello\n");
  EXPECT_THAT(apart("honest_prints", "table"), AllOf(HasSubstr("1 pass"), Not(HasSubstr("hello"))));
  const Outcome complains = attest("repro --impl hostile_complains" + options + spec + " 2>&1");
  EXPECT_EQ(complains.code, 1);
  EXPECT_THAT(complains.text, HasSubstr("a kernel says hello\nand goes\n"));
  EXPECT_THAT(complains.text, HasSubstr("SIGABRT in run; it said: a kernel says hello and goes"));
  EXPECT_THAT(apart("hostile_floods", "table"), HasSubstr("1 pass"));
  EXPECT_EQ(fs::file_size(folder_ / "said"), 128u << 16) << "nothing is cut";
  const Outcome run =
      attest("run smoke --case softmax/dense --dtype f32 --impl honest_prints" + options);
  EXPECT_EQ(run.code, 0) << run.text;
  EXPECT_THAT(run.text, Not(HasSubstr("hello")));
}

// The calls that led to a crash, on the screen and in the record, with the names that the plugin
// exports. What the process died of stays what it is.
TEST_F(Repro, ShowsTheCallsThatLedToACrash) {
  std::ofstream(folder_ / "named.cpp") << R"(#include "attest.hpp"
    extern "C" __attribute__((visibility("default"), noinline)) void crash_here(float* at) {
      *at = 1;
    }
    static __attribute__((noinline)) void hidden_caller(float* at) {
      crash_here(at);
      __builtin_unreachable();  // nothing of this function follows the call
    }
    struct Named {
      static constexpr attest::Info kInfo{.name = "named", .version = "1", .summary = "dies",
                                          .dtypes = ATTEST_BIT(ATTEST_F32), .features = 0};
      explicit Named(const attest_problem&) {}
      void run(void* const*, void*, void*) { hidden_caller(nullptr); }
    };
    ATTEST_PLUGIN(attest::table<Named>()))";
  const Outcome built = testing::run_shell(
      folder_, "c++ -std=c++17 -O1 -shared -fPIC -fvisibility=hidden -I" ATTEST_SOURCE_DIR
               "/harness/abi named.cpp -o named.so");
  ASSERT_EQ(built.code, 0) << built.text;
  const std::string spec = " --judge-only -o r.jsonl --overwrite 'softmax seq_len_q=8 head_dim=8'";
  const Outcome named = attest("repro --plugin named.so --impl named" + spec);
  EXPECT_THAT(
      named.text,
      ContainsRegex("\nstack: named.so\\+0x[0-9a-f]+ \\(crash_here\\) < named.so\\+0x[0-9a-f]+ "
                    "\\([a-zA-Z0-9_]*hidden_caller[a-zA-Z0-9_]*\\)"));
  EXPECT_EQ(record()["code"], "crash:signal");
  testing::run_shell(folder_, "strip named.so");
  EXPECT_THAT(attest("repro --plugin named.so --impl named" + spec).text,
              AllOf(HasSubstr(" (crash_here) < named.so+0x"), Not(HasSubstr("hidden_caller"))));
  EXPECT_THAT(std::string(record()["reason"]),
              AllOf(HasSubstr("SIGSEGV in run"), HasSubstr("(crash_here)"),
                    Not(HasSubstr(folder_.string()))));
  const std::pair<std::string, std::string> others[] = {{"stack", "crash:stack-overflow"},
                                                        {"heap", "crash:signal"},
                                                        {"divides", "crash:signal"},
                                                        {"thread_throws", "crash:exception"}};
  for (const auto& [name, code] : others) {
    const Outcome outcome =
        attest("repro --plugin " + kPlugins + "hostile.so --impl hostile_" + name + spec);
    EXPECT_EQ(record()["code"], code);
    EXPECT_THAT(outcome.text, HasSubstr("\nstack: ")) << name;
  }
}

// Before that nobody had asked for reruns.
TEST_F(Repro, SaysThatARerunGivesOtherBits) {
  const Outcome outcome = attest("repro --plugin " + kPlugins +
                                 "races.so --impl race_uninitialised --judge-only 'softmax "
                                 "seq_len_q=61 head_dim=16'");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.text,
              ContainsRegex("a rerun gives other bits and fails: (race or )?uninitialised memory"));
}

}  // namespace
}  // namespace attest::cli
