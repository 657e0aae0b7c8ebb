// The program as a user meets it: what it prints, what it writes, how it exits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "core/operations/operation.hpp"
#include "core/problem/spec.hpp"
#include "core/problem/suite.hpp"
#include "testing/folder_test.hpp"

namespace attest::cli {
namespace {

using attest::testing::Outcome;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

const std::string kAttest = ATTEST_BINARY_DIR "/bin/attest";
const std::string kHostile = ATTEST_BINARY_DIR "/tests/plugins/hostile.so";
const std::string kMinimal = ATTEST_BINARY_DIR "/tests/plugins/naive_minimal.so";

class Cli : public testing::FolderTest {
 protected:
  std::string small_suite() const {
    return write("small.json", R"({
      "name": "small", "summary": "two",
      "defaults": {"operation": "softmax", "dtypes": ["f32", "f16"]},
      "cases": [
        {"name": "a/self", "seq_len_q": 61, "head_dim": 32, "quick": true},
        {"name": "b/causal", "seq_len_q": 100, "head_dim": 64, "window_right": 0}
      ]})");
  }
};

TEST_F(Cli, RunsASuiteIntoAFile) {
  const Outcome outcome =
      attest("run " + small_suite() + " --impl flash_cpu --budget 0.02 -o results.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("small/a/self f32"));
  EXPECT_THAT(outcome.text, HasSubstr("results: results.jsonl"));
  const std::vector<json> found = lines("results.jsonl");
  ASSERT_EQ(found.size(), 6u);
  EXPECT_EQ(found[0]["type"], "header");
  EXPECT_EQ(found[5]["type"], "end");
  EXPECT_EQ(found[5]["verdicts"]["pass"], 4);
  for (size_t i = 1; i < 5; ++i) EXPECT_EQ(found[i]["verdict"], "pass");
  std::ifstream in(folder_ / "results.jsonl");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_THAT(text, Not(HasSubstr(folder_.string())));
  EXPECT_THAT(text, Not(HasSubstr(ATTEST_BINARY_DIR)));
}

// The environment that it was started with last, seen while it waits for a file's first byte.
TEST_F(Cli, BoundsTheSpinningOfItsOwnThreads) {
  const std::string seen =
      testing::run_shell(folder_,
                         "mkfifo pipe; env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT " + kAttest +
                             " report pipe & n=0; while [ $n -lt 500 ]; do "
                             "tr '\\0' '\\n' </proc/$!/environ | grep GOMP_SPINCOUNT && break; "
                             "sleep 0.01; n=$((n + 1)); done; kill $!; wait")
          .text;
  EXPECT_THAT(seen, HasSubstr("GOMP_SPINCOUNT=20000\n"));
}

TEST_F(Cli, FiltersByCaseDtypeAndQuick) {
  attest("run " + small_suite() +
         " --quick --dtype f16 --impl flash_cpu --judge-only -o one.jsonl");
  ASSERT_EQ(lines("one.jsonl").size(), 3u);
  EXPECT_EQ(lines("one.jsonl")[1]["case"], "a/self");
  EXPECT_EQ(lines("one.jsonl")[1]["dtype"], "f16");
  EXPECT_FALSE(lines("one.jsonl")[1].contains("time"));
}

TEST_F(Cli, RepeatsARecordHashForHash) {
  attest("run " + small_suite() +
         " --case 'b*' --dtype f16 --impl flash_cpu --judge-only -o first.jsonl");
  const json first = lines("first.jsonl").at(1);
  const std::string repro = first["repro"];
  ASSERT_THAT(repro, ::testing::StartsWith("attest repro "));
  const Outcome outcome =
      attest(repro.substr(std::string("attest ").size()) + " --judge-only -o again.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  const json again = lines("again.jsonl").at(1);
  ASSERT_EQ(again["fills"].size(), first["fills"].size());
  for (size_t i = 0; i < first["fills"].size(); ++i) {
    EXPECT_EQ(again["fills"][i]["inputs_hash"], first["fills"][i]["inputs_hash"]);
    EXPECT_EQ(again["fills"][i]["outputs_hash"], first["fills"][i]["outputs_hash"]);
  }
}

// From the file, what the run itself has shown.
TEST_F(Cli, ReportsAResultsFileInEveryFormat) {
  const Outcome ran = attest("run " + small_suite() +
                             " --impl flash_cpu --judge-only -o r.jsonl --table verdicts.md");
  const std::string results = text("r.jsonl");
  EXPECT_THAT(attest("report r.jsonl").text, HasSubstr("a/self"));
  EXPECT_EQ(attest("report r.jsonl -o table.txt").code, 0);
  EXPECT_THAT(ran.text, HasSubstr(text("table.txt")));
  EXPECT_THAT(text("table.txt"), HasSubstr("a/self"));
  EXPECT_EQ(attest("report r.jsonl --format markdown -o again.md").code, 0);
  EXPECT_EQ(text("again.md"), text("verdicts.md"));
  const Outcome several = attest("report r.jsonl -f junit,gbench -f csv -o out");
  EXPECT_EQ(several.code, 0);
  EXPECT_THAT(several.text, HasSubstr("out.xml\nout.gbench.json\nout.csv\n"));
  EXPECT_EQ(attest("report r.jsonl -o by_name.csv").code, 0);
  EXPECT_EQ(text("by_name.csv"), text("out.csv"));
  EXPECT_THAT(attest("report r.jsonl -f md,csv").text, HasSubstr("several formats need -o BASE"));
  EXPECT_THAT(attest("report r.jsonl -o report.pdf").text,
              HasSubstr("no format ends so; name one by -f, or end the name in one of .txt, "));
  EXPECT_EQ(attest("report r.jsonl --format pdf").code, 64);
  EXPECT_EQ(attest("report missing.jsonl").code, 64);
  EXPECT_EQ(attest("report r.jsonl -o r.jsonl").code, 64);
  EXPECT_EQ(text("r.jsonl"), results);
}

// Files that are no whole results files, and one that is there twice.
TEST_F(Cli, ReportsSayWhatIsWrongWithResults) {
  ASSERT_EQ(attest("run " + small_suite() + " --impl flash_cpu --judge-only -o r.jsonl").code, 0);
  const std::string whole = text("r.jsonl");
  write("empty.jsonl", "");
  write("header.jsonl", whole.substr(0, whole.find('\n') + 1));
  write("cut.jsonl", whole.substr(0, whole.size() * 3 / 4));
  std::string newer = whole;
  newer.replace(newer.find("\"schema\":1"), 10, "\"schema\":2");
  write("newer.jsonl", newer);
  const std::tuple<const char*, int, const char*> all[] = {
      {"empty.jsonl", 64, "empty.jsonl: holds no results"},
      {"header.jsonl -f md", 0, "# There are no records."},
      {"cut.jsonl -f md", 0, "cut.jsonl: the run did not end; it has "},
      {"r.jsonl newer.jsonl", 64, "newer.jsonl: line 1: is of schema 2; this attest reads"},
      {"r.jsonl r.jsonl -f json", 0, "r.jsonl and r.jsonl hold the same run"},
  };
  for (const auto& [arguments, code, message] : all) {
    const Outcome outcome = attest(std::string("report ") + arguments);
    EXPECT_EQ(outcome.code, code) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(message));
  }
}

/// The records of results with every verdict, and their header.
std::vector<json> golden_lines() {
  std::ifstream in(ATTEST_SOURCE_DIR "/reports/golden/results.jsonl");
  std::vector<json> found;
  for (std::string line; std::getline(in, line);) found.push_back(json::parse(line));
  return found;
}

// Warnings and endings name records. These names come from plugins and files.
TEST_F(Cli, NamesInWarningsCannotSteerATerminal) {
  const std::string clear = "\x1b[2J\x1b]0;mine\x07";
  std::vector<json> all = golden_lines();
  for (json& line : all) {
    if (!line.value("impl", "").starts_with("=HYPERLINK")) continue;
    const auto timed =
        std::ranges::find_if(all, [](const json& one) { return one.contains("time"); });
    line["time"] = timed->at("time");
    line["impl"] = "gone" + clear;
    line["case"] = "wiped" + clear;
    line["noisy"] = {"melted" + clear};
  }
  write_lines("hostile.jsonl", all);
  for (const char* command : {"report hostile.jsonl", "choose hostile.jsonl"}) {
    const Outcome outcome = attest(command);
    EXPECT_THAT(outcome.text, HasSubstr("attest: warning: 2 of 3 times are noisy"));
    EXPECT_THAT(outcome.text, HasSubstr("wiped?[2J?]0;mine? f16 gone?"));
    EXPECT_THAT(outcome.text, Not(HasSubstr("\x1b"))) << command;
  }

  attest("run " + small_suite() + " --impl flash_cpu --budget 0.02 -o whole.jsonl");
  all = lines("whole.jsonl");
  ASSERT_EQ(all.back()["type"], "end");
  all.pop_back();
  for (json& line : all)
    if (line["type"] == "result") line["noisy"] = {"melted" + clear};
  write_lines("r.jsonl", all);
  const Outcome resumed =
      attest("run " + small_suite() + " --impl flash_cpu --budget 0.02 --resume r.jsonl");
  EXPECT_THAT(resumed.text, HasSubstr("as notes say: melted?[2J"));
  EXPECT_THAT(resumed.text, Not(HasSubstr("\x1b")));
}

// Cases of the suite lidar have "tokens" for seq_len_kv, and their records a number.
TEST_F(Cli, TheCoverageOfTokensIsTheirNumber) {
  std::vector<json> all = golden_lines();
  std::erase_if(
      all, [](const json& line) { return line["type"] == "result" && line["verdict"] != "pass"; });
  for (json& line : all)
    if (line["type"] == "result")
      line["spec"] = "softmax dtype=f16 seq_len_q=1024 seq_len_kv=32768 head_dim=64";
  write_lines("lidar.jsonl", all);
  ASSERT_EQ(attest("report lidar.jsonl --no-charts -o page.html").code, 0);
  const std::string page = text("page.html"), before = "id=\"data\">";
  const size_t begin = page.find(before) + before.size();
  const json data = json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  size_t found = 0;
  for (const json& axis : data["axes"]) {
    if (axis["axis"] != "seq_len_kv") continue;
    ++found;
    EXPECT_THAT(axis["only_in_suites"].dump(), HasSubstr("\"300\"")) << "the suites are known";
    EXPECT_THAT(axis["only_in_suites"].dump(), Not(HasSubstr("tokens")));
  }
  EXPECT_EQ(found, 1u);
}

// Each option that changes what is judged or how, and the line of that run's own record.
TEST_F(Cli, ARecordOfReproHasTheLineThatItIsOf) {
  fs::copy(kMinimal, folder_ / "mine.so");
  const std::string line =
      "repro --impl naive_minimal --plugin mine.so --threads 1 --timeout 7s --memory 2GiB "
      "--min-arithmetic acc=f32 --host-golden --relations none --fill random,codebook 'softmax "
      "dtype=f32 seq_len_q=61 head_dim=32'";
  attest(line + " --judge-only -o first.jsonl");
  const json first = lines("first.jsonl").at(1);
  EXPECT_EQ(first["repro"], "attest " + line);
  EXPECT_EQ(first["fills"].size(), 2u);
  EXPECT_EQ(first["threads"], 1);
}

// The token file is named as it was given. Without it the inputs could not be made again.
TEST_F(Cli, TheLineOfARecordNamesItsTokenFile) {
  fs::create_directory(folder_ / "data");
  std::ofstream(folder_ / "data/sweep.ply")
      << "ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\nproperty float y\n"
         "property float z\nend_header\n0 0 0\n1 0 0\n0 1 0\n1 1 0\n";
  const std::string line = "repro --impl naive --inputs lidar:voxel_size=0.1,file=sweep.ply";
  const std::string session = " --threads 1 'softmax seq_len_q=4 head_dim=16'";
  attest(line + " --tokens data/sweep.ply" + session + " --judge-only -o first.jsonl");
  EXPECT_EQ(lines("first.jsonl").at(1)["type"], "tokens");
  const json first = lines("first.jsonl").at(2);
  EXPECT_EQ(first["verdict"], "pass") << first;
  EXPECT_THAT(std::string(first["repro"]),
              HasSubstr("--inputs lidar:voxel_size=0.1,curve=z,stage=0,first=0,file=sweep.ply "));
  EXPECT_THAT(std::string(first["repro"]), HasSubstr(" --tokens data/sweep.ply --threads 1"));
  const std::string repro = first["repro"];
  EXPECT_EQ(attest(repro.substr(std::string("attest ").size()) + " --judge-only").code, 0);
}

TEST_F(Cli, LinearAttentionSaysHowFarItIsFromSoftmax) {
  attest("repro --impl linear_cpu --judge-only 'linear seq_len_q=61 head_dim=16' -o linear.jsonl");
  const json linear = lines("linear.jsonl").at(1);
  EXPECT_EQ(linear["verdict"], "pass") << linear;
  EXPECT_GT(linear["softmax_distance"], 0.1);
  EXPECT_LT(linear["softmax_distance"], 2);
  attest("repro --impl naive --judge-only 'softmax seq_len_q=61 head_dim=16' -o softmax.jsonl");
  EXPECT_FALSE(lines("softmax.jsonl").at(1).contains("softmax_distance"));
}

TEST_F(Cli, ExitsWithOneOnAPlantedBug) {
  const Outcome outcome =
      attest("repro --plugin " ATTEST_BINARY_DIR
             "/tests/plugins/mutants.so --impl mutant_zeros --judge-only 'softmax "
             "seq_len_q=61 head_dim=32'");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.text, HasSubstr("suspect"));
}

// A failure names the part of the output that is wrong, and the command that repeats it.
TEST_F(Cli, SaysWhereAnOutputIsWrong) {
  const auto judged = [&](const std::string& impl) {
    return attest("repro --plugin " ATTEST_BINARY_DIR "/tests/plugins/mutants.so --impl " + impl +
                  " --judge-only 'softmax num_heads=8 num_kv_heads=2 seq_len_q=61 head_dim=32'")
        .text;
  };
  EXPECT_THAT(judged("mutant_gqa_tiled"), HasSubstr("; head: 4 of 8: 1, 3, 4, 6\n"));
  EXPECT_THAT(judged("mutant_last_row"),
              AllOf(HasSubstr("in 8 of 488 rows"), HasSubstr("; query: 60\n"),
                    HasSubstr("attest repro --impl mutant_last_row")));
}

// One problem in two dtypes, in words that the shell has split.
TEST_F(Cli, ComparesImplementationsOnOneProblem) {
  const Outcome both = attest(
      "bench softmax num_heads=2 seq_len_q=0.125k head_dim=16 --dtype f32,f16 --budget 20ms "
      "--relations none --impl 'naive,flash_cpu,linear_*' -o b.jsonl");
  EXPECT_EQ(both.code, 0) << both.text;
  for (const char* part :
       {"softmax dtype=f32 num_heads=2 seq_len_q=128 head_dim=16: 2.10 MFLOP, 64.0 KiB of tensors",
        "softmax dtype=f16 num_heads=2 seq_len_q=128", "  flash_cpu       pass ",
        "do not take it:\n  linear_cpu      is not an implementation of softmax\n",
        "fastest that passes: ", "GFLOP/s of float32 multiply-adds, "})
    EXPECT_THAT(both.text, HasSubstr(part));
  const std::vector<json> found = lines("b.jsonl");
  ASSERT_EQ(found.size(), 8u);
  EXPECT_EQ(found[1]["case"], "bench");
  EXPECT_EQ(found[6]["dtype"], "f16");
  EXPECT_THAT(attest("report b.jsonl --format bench").text, HasSubstr("fastest that passes: "));
  const Outcome mutant = attest("bench --plugin " ATTEST_BINARY_DIR
                                "/tests/plugins/mutants.so --impl mutant_zeros "
                                "--relations none 'softmax seq_len_q=61 head_dim=32'");
  EXPECT_EQ(mutant.code, 1);
  EXPECT_THAT(mutant.text, HasSubstr("none passes"));
  EXPECT_THAT(attest("bench 'softmax seq_len_q=256k num_heads=64 head_dim=64' --impl naive "
                     "--case-limit 10ms")
                  .text,
              HasSubstr("naive           skipped"));
}

TEST_F(Cli, WritesAnImplementationThatBuildsAndPasses) {
  EXPECT_EQ(attest("new my_kernel").code, 0);
  EXPECT_EQ(attest("new my_kernel").code, 64);  // never over a file
  EXPECT_EQ(attest("new 9lives").code, 64);
  const std::string build =
      "cd " + folder_.string() +
      " && c++ -std=c++17 -O2 -shared -fPIC -fvisibility=hidden -I" ATTEST_SOURCE_DIR
      "/harness/abi my_kernel.cpp -o my_kernel.so 2>&1";
  ASSERT_EQ(std::system(build.c_str()), 0);
  const Outcome outcome =
      attest("run " + small_suite() + " --plugin ./my_kernel.so --impl my_kernel --judge-only");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("4 pass"));
}

TEST_F(Cli, WritesAnImplementationInCThatBuildsAndPasses) {
  const Outcome written = attest("new in_c --c");
  ASSERT_EQ(written.code, 0) << written.text;
  EXPECT_THAT(text("in_c.c"), AllOf(HasSubstr("-o in_c.so in_c.c"), Not(HasSubstr("plugin_c"))));
  // The command that it prints.
  const size_t at = written.text.find("cc -O2"), end = written.text.find('\n', at);
  const Outcome built = testing::run_shell(folder_, written.text.substr(at, end - at));
  ASSERT_EQ(built.code, 0) << built.text;
  const Outcome judged = attest("run " + small_suite() +
                                " --dtype f32 --plugin ./in_c.so --impl in_c "
                                "--judge-only --threads 1");
  EXPECT_EQ(judged.code, 0) << judged.text;
  EXPECT_THAT(judged.text, HasSubstr("2 pass"));
}

// What it declares is in the tiny cases of its operation, and it passes them.
TEST_F(Cli, WritesGradientsThatBuildAndPass) {
  const Outcome written = attest("new slopes --operation softmax_backward");
  ASSERT_EQ(written.code, 0) << written.text;
  EXPECT_THAT(text("slopes.cpp"), AllOf(HasSubstr("struct Slopes {"), Not(HasSubstr("inimal"))));
  EXPECT_THAT(attest("new slopes --operation softmax_backward").text,
              HasSubstr("slopes.cpp exists already"));
  const size_t at = written.text.find("c++ -std"), end = written.text.find('\n', at);
  const Outcome built = testing::run_shell(folder_, written.text.substr(at, end - at));
  ASSERT_EQ(built.code, 0) << built.text;
  const Outcome judged = attest(
      "run --plugin ./slopes.so --case 'tiny/backward*' --dtype f32 --fill random --judge-only "
      "--relations none --threads 1");
  EXPECT_EQ(judged.code, 0) << judged.text;
  EXPECT_THAT(judged.text, ::testing::ContainsRegex("\n1[0-9] pass, "));
  EXPECT_THAT(judged.text, HasSubstr("\nslopes: declared, never judged: f16, bf16\n"));
}

TEST_F(Cli, WritesAnImplementationOfAnOperationByItsName) {
  EXPECT_EQ(attest("new forward --operation softmax").code, 0);
  EXPECT_THAT(text("forward.cpp"), HasSubstr("online softmax"));
  EXPECT_THAT(attest("new other --operation linear").text,
              HasSubstr("--operation linear: there is a template of softmax and of "
                        "softmax_backward"));
  EXPECT_FALSE(fs::exists(folder_ / "other.cpp"));
  EXPECT_EQ(attest("new other --c --operation softmax_backward").code, 64);
  EXPECT_EQ(attest("new --operation softmax_backward before").code, 0);
  EXPECT_THAT(text("before.cpp"), HasSubstr("ATTEST_SOFTMAX_BACKWARD"));
  EXPECT_EQ(attest("new --operation own").code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "own/own_operation.cpp"));
}

// Without a device it is compiled for an architecture by name, and loads.
TEST_F(Cli, WritesACudaKernelThatNvccCompiles) {
  const Outcome written = attest("new kernel --cuda");
  ASSERT_EQ(written.code, 0) << written.text;
  const char* nvcc = "PATH=$PATH:/usr/local/cuda/bin && ";
  if (testing::run_shell(folder_, nvcc + std::string("command -v nvcc")).code != 0)
    GTEST_SKIP() << "NOT TESTED: no nvcc";
  std::string command = written.text.substr(written.text.find("nvcc -std"));
  command.resize(command.find('\n'));
  command.replace(command.find("native"), 6, "sm_80");
  const Outcome built = testing::run_shell(folder_, nvcc + command);
  ASSERT_EQ(built.code, 0) << built.text;
  EXPECT_THAT(built.text, Not(HasSubstr("warning"))) << built.text;
  EXPECT_THAT(attest("list --plugin ./kernel.so --impl kernel").text,
              HasSubstr("one thread for each query, in float32 (kernel.so, version 1)"));
}

TEST_F(Cli, WritesAnOperationNeverOverAFolder) {
  const Outcome written = attest("new mine --operation");
  EXPECT_EQ(written.code, 0) << written.text;
  EXPECT_THAT(written.text, HasSubstr("-DATTEST_OPERATIONS=" + (folder_ / "mine").string()));
  EXPECT_THAT(text("mine/mine_operation.cpp"),
              AllOf(HasSubstr("#include \"mine_operation.hpp\""), HasSubstr("class MineOperation"),
                    Not(HasSubstr("cale")), Not(HasSubstr("testing"))));
  EXPECT_THAT(text("mine/CMakeLists.txt"), HasSubstr("attest_plugin(mine_cpu SOURCES mine_cpu.c)"));
  EXPECT_THAT(attest("new mine --operation").text, HasSubstr("mine exists already"));
  EXPECT_THAT(attest("new softmax --operation").text, HasSubstr("is an operation of attest"));
  EXPECT_EQ(attest("new other --c --cuda").code, 64);
}

TEST_F(Cli, WritesWhatTheReadmeShows) {
  ASSERT_EQ(attest("new mine").code, 0);
  const auto text = [](const fs::path& path) {
    std::ifstream in(path);
    return std::string((std::istreambuf_iterator<char>(in)), {});
  };
  ASSERT_FALSE(text(folder_ / "mine.cpp").empty());
  EXPECT_THAT(text(ATTEST_SOURCE_DIR "/README.md"), HasSubstr(text(folder_ / "mine.cpp")));
}

// Without a suite a slow kernel has little time, unless it is given more.
TEST_F(Cli, TakesTheTimeThatItIsGiven) {
  const std::string least = "run --impl naive --case dense/61 --dtype f32 --judge-only -o r.jsonl";
  for (const auto& [option, said] :
       {std::pair("", "case-limit 1 "), std::pair(" --case-limit 7", "case-limit 7 ")}) {
    ASSERT_EQ(attest(least + " --overwrite" + option).code, 0);
    EXPECT_THAT(lines("r.jsonl").at(0)["environment"]["identity"]["options"].get<std::string>(),
                HasSubstr(said));
  }
}

// Named or not, the default suite judges a plugin of one's own by itself, with one limit.
TEST_F(Cli, TheDefaultSuiteIsTheSameByName) {
  const auto identity = [&](const std::string& suite, const std::string& more) {
    EXPECT_EQ(attest("run " + suite + " --plugin " + kMinimal + more +
                     " --case dense/61 --dtype f32 --judge-only --relations none -o r.jsonl "
                     "--overwrite")
                  .code,
              0);
    return lines("r.jsonl").at(0)["environment"]["identity"];
  };
  const json unnamed = identity("", "");
  EXPECT_EQ(unnamed, identity("default", ""));
  EXPECT_THAT(std::string(unnamed["implementations"]), ::testing::StartsWith("naive_minimal:"));
  EXPECT_THAT(std::string(unnamed["implementations"]), Not(HasSubstr(" ")));
  const json both = identity("default", " --impl 'naive*'");
  EXPECT_THAT(std::string(both["implementations"]), HasSubstr(" naive:"));
}

// Two plugins with one name: none is judged in the other's place, and none is left out.
TEST_F(Cli, SaysWhoseNameIsWhose) {
  small_suite();
  fs::copy(kMinimal, folder_ / "first.so");
  fs::copy(kMinimal, folder_ / "second.so");
  const std::string both =
      "run small.json --quick --dtype f32 --judge-only --plugin ./first.so --plugin ./second.so ";
  const Outcome outcome = attest(both + "--impl naive_minimal -o both.jsonl");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(
      outcome.text,
      HasSubstr(
          "2 implementations are called naive_minimal: naive_minimal is that of first.so, "
          "naive_minimal@second.so is that of second.so; --impl naive_minimal takes all of them"));
  const std::vector<json> found = lines("both.jsonl");
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0]["environment"]["shared_names"],
            (json{{"naive_minimal", "naive_minimal of first.so"},
                  {"naive_minimal@second.so", "naive_minimal of second.so"}}));
  EXPECT_EQ(found[1]["plugin"], "first.so");
  EXPECT_EQ(found[2]["plugin"], "second.so");
  EXPECT_THAT(found[1]["repro"], HasSubstr("--impl naive_minimal@first.so "));
  for (const char* one : {"first", "second"}) {
    ASSERT_EQ(attest(both + "--impl naive_minimal@" + one + ".so -o " + one + ".jsonl").code, 0);
    ASSERT_EQ(lines(std::string(one) + ".jsonl").size(), 3u);
    EXPECT_EQ(lines(std::string(one) + ".jsonl")[1]["plugin"], std::string(one) + ".so");
  }
  // One that has the name of a built-in one takes neither its place nor its name.
  fs::copy(ATTEST_BINARY_DIR "/plugins/flash_cpu.so", folder_ / "mine.so");
  const Outcome built_in = attest(
      "run small.json --quick --dtype f32 --judge-only --plugin ./mine.so --impl flash_cpu -o "
      "mine.jsonl");
  EXPECT_THAT(built_in.text,
              HasSubstr("flash_cpu@mine.so is that of mine.so, flash_cpu is that of flash_cpu.so"));
  EXPECT_EQ(lines("mine.jsonl").size(), 4u);
}

TEST_F(Cli, KeepsResultsFromBeingReplaced) {
  small_suite();
  const std::string arguments =
      "run small.json --quick --impl flash_cpu --judge-only --relations none -o kept.jsonl";
  ASSERT_EQ(attest(arguments).code, 0);
  const Outcome again = attest(arguments + " --case a/self");
  EXPECT_EQ(again.code, 64);
  EXPECT_THAT(again.text, HasSubstr("-o kept.jsonl: holds 2 results; --overwrite replaces the "
                                    "file, --resume kept.jsonl goes on"));
  EXPECT_EQ(lines("kept.jsonl").size(), 4u);
  EXPECT_EQ(
      attest("repro 'softmax seq_len_q=8 head_dim=8' --impl naive --judge-only -o kept.jsonl").code,
      64);
  EXPECT_EQ(attest(arguments + " --dtype f32 --overwrite").code, 0);
  EXPECT_EQ(lines("kept.jsonl").size(), 3u);

  const std::string rest = "run small.json --quick --impl flash_cpu --judge-only --relations none ";
  write("junk.txt", "a poem");
  const Outcome junk = attest(rest + "-o junk.txt");
  EXPECT_EQ(junk.code, 64);
  EXPECT_THAT(junk.text, AllOf(HasSubstr("holds something that is no results; name another file"),
                               Not(HasSubstr("--resume"))));
  const Outcome table = attest(rest + "--table junk.txt");
  EXPECT_EQ(table.code, 64);
  EXPECT_THAT(table.text, HasSubstr("--table junk.txt: the file exists; name another"));
  EXPECT_EQ(text("junk.txt"), "a poem");
  EXPECT_EQ(attest(rest + "--table junk.txt --overwrite").code, 0);
  EXPECT_THAT(text("junk.txt"), HasSubstr("flash_cpu"));
}

// On a terminal one line moves; elsewhere there is a line for each record and nothing else.
TEST_F(Cli, ShowsProgressOnATerminalAlone) {
  const std::string command =
      kAttest + " run " + small_suite() + " --impl naive --judge-only --relations none --threads 1";
  const std::string line = "[##########----------] 2/4 ";
  EXPECT_THAT(testing::run_shell(folder_, command).text,
              AllOf(Not(HasSubstr("\r")), Not(HasSubstr("2/4")), HasSubstr("4 pass")));
  if (testing::run_shell(folder_, "script -qec true log").code != 0)
    GTEST_SKIP() << "NOT TESTED: script, which plays a terminal, does not work here";
  const std::string shown = testing::run_shell(folder_, "script -qec '" + command + "' log").text;
  EXPECT_THAT(shown, AllOf(HasSubstr("\r\033[K" + line), HasSubstr("4 pass")));
}

// The last lines name commands that exist.
TEST_F(Cli, SaysWhatToDoNext) {
  const std::string arguments =
      "run " + small_suite() + " --impl naive --judge-only --relations none --threads 1";
  const auto commands = [](const std::string& text) {
    std::istringstream lines(text.substr(text.find("\nnext:\n") + 7));
    std::vector<std::string> found;
    for (std::string line; std::getline(lines, line) && line.starts_with("  ");)
      found.push_back(line.substr(2, line.find(" #") - 2));
    return found;
  };
  const std::vector<std::string> without = commands(attest(arguments).text);
  EXPECT_THAT(without, ::testing::Contains(::testing::StartsWith("-o results.jsonl")));
  const std::vector<std::string> with = commands(attest(arguments + " -o r.jsonl").text);
  ASSERT_EQ(with.size(), 3u);
  EXPECT_THAT(with[0], ::testing::StartsWith("attest report r.jsonl -o report.html"));
  fs::copy(folder_ / "r.jsonl", folder_ / "later.jsonl");
  for (const std::string& command : with) {
    ASSERT_THAT(command, ::testing::StartsWith("attest "));
    EXPECT_EQ(attest(command.substr(7)).code, 0) << command;
  }
  const Outcome bad = attest(arguments + " --plugin " ATTEST_BINARY_DIR
                                         "/tests/plugins/mutants.so --impl mutant_zeros");
  EXPECT_THAT(commands(bad.text),
              ::testing::Contains(::testing::StartsWith("attest explain suspect:zeros")));
}

// After the first bad record nothing more runs, and the file says that there was more to come.
TEST_F(Cli, StopsAtTheFirstBadRecordIfAsked) {
  const std::string arguments =
      "run " + small_suite() +
      " --judge-only --plugin " ATTEST_BINARY_DIR
      "/tests/plugins/mutants.so --impl naive,mutant_zeros --relations none --threads 1 ";
  const Outcome stopped = attest(arguments + "--fail-fast -o r.jsonl --table r.md");
  EXPECT_EQ(stopped.code, 1);
  EXPECT_THAT(stopped.text, HasSubstr("attest: stopped after the first bad record (--fail-fast); "
                                      "what was measured is kept, and --resume r.jsonl without"));
  EXPECT_THAT(attest(arguments + "--fail-fast").text,
              HasSubstr("(--fail-fast); nothing of it is kept: -o FILE would keep it\n"));
  EXPECT_THAT(text("r.md"), HasSubstr("r.jsonl: the run did not end"));
  EXPECT_THAT(attest("report r.jsonl").text, HasSubstr("The run was not completed"));
  const std::vector<json> kept = lines("r.jsonl");
  ASSERT_GE(kept.size(), 2u);
  ASSERT_LT(kept.size(), 9u);  // of 8 records and a header
  EXPECT_EQ(kept.back()["verdict"], "suspect");
  // A record that a resumed run finds counts as one that it makes.
  EXPECT_EQ(attest(arguments + "--fail-fast --resume r.jsonl").code, 1);
  EXPECT_EQ(lines("r.jsonl").size(), kept.size() + 1) << "and a line that says it was resumed";
  const Outcome whole = attest(arguments + "--resume r.jsonl");
  EXPECT_EQ(whole.code, 1);
  EXPECT_EQ(lines("r.jsonl").back()["type"], "end");
  EXPECT_THAT(attest("report r.jsonl").text, Not(HasSubstr("not completed")));
}

// Nothing runs and nothing is written, and the lines are those of the run that would follow.
TEST_F(Cli, ShowsWhatWouldRunWithoutRunningIt) {
  const std::string arguments = "run " + small_suite() + " --plugin " + kHostile +
                                " --impl 'naive,hostile_hangs,linear_cpu' --threads 1 ";
  const Outcome dry = attest(arguments + "--dry-run -o r.jsonl --table r.md");
  EXPECT_EQ(dry.code, 0) << dry.text;
  EXPECT_FALSE(fs::exists(folder_ / "r.jsonl"));
  EXPECT_FALSE(fs::exists(folder_ / "r.md"));
  EXPECT_THAT(dry.text,
              ::testing::ContainsRegex("small/a/self f32  1x1x61x32\n  hostile_hangs +run .*\n"
                                       "  naive +run +[0-9.]+ [mu]s +[0-9.]+ s +[0-9.]+ "
                                       "KiB\n"));
  EXPECT_THAT(dry.text, HasSubstr("linear_cpu       4: is not an implementation of softmax (4)"));
  EXPECT_THAT(dry.text, ::testing::ContainsRegex("\n[0-9]+ would run, [0-9]+ unsupported\nabout "
                                                 "[0-9.]+ s in all; at most [0-9.]+ KiB"));
  const Outcome large =
      attest("run " + write("large.json", R"({"name": "large", "summary": "s", "cases": [
        {"name": "a", "operation": "softmax", "dtypes": ["f32"], "num_heads": 64,
         "seq_len_q": 262144, "head_dim": 128}]})") +
             " --impl naive --threads 1 --dry-run");
  EXPECT_EQ(large.code, 4) << "nothing would run";
  EXPECT_THAT(large.text, ::testing::ContainsRegex("naive +skipped +(needs|[0-9.e+]+ GFLOP take)"));
  // With the speeds of a run that was begun, what it has finished is not listed again.
  ASSERT_EQ(
      attest("run small.json --impl naive --dtype f32 --judge-only --relations none -o b.jsonl")
          .code,
      0);
  const Outcome rest = attest(
      "run small.json --impl naive --dtype f32 --judge-only --relations none --dry-run --resume "
      "b.jsonl");
  EXPECT_EQ(rest.code, 0) << rest.text;
  EXPECT_THAT(rest.text, HasSubstr("0 would run; 2 finished in b.jsonl"));
  const Outcome other =
      attest("run small.json --impl naive --judge-only --dry-run --resume b.jsonl");
  EXPECT_EQ(other.code, 64) << "as the run itself";
}

// What a table lists and no case judged is said, recorded and, where asked, no success.
TEST_F(Cli, SaysWhatWasNeverJudged) {
  small_suite();
  const std::string arguments =
      "run small.json --dtype f32 --impl flash_cpu --judge-only --relations none";
  const Outcome outcome = attest(arguments + " -o some.jsonl");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.text,
              HasSubstr("flash_cpu: declared, never judged: GQA, HEAD_DIM_V, WINDOW"));
  const json never = lines("some.jsonl").back()["never_judged"]["flash_cpu"];
  EXPECT_THAT(never, ::testing::Contains("f16"));
  EXPECT_THAT(never, Not(::testing::Contains("CAUSAL")));
  EXPECT_EQ(attest(arguments + " --strict").code, 3);
}

// A typo beside a name that is right; what else the case is not for is not said to be unjudged.
TEST_F(Cli, WarnsOfAnImplementationThatACaseNamesInVain) {
  write("typo.json", R"({"name": "t", "summary": "s", "cases": [
    {"name": "a", "operation": "softmax", "dtypes": ["f32", "f16"], "seq_len_q": 8, "head_dim": 8,
     "impls": ["naive", "flsh_cpu"]}]})");
  const Outcome outcome = attest("run typo.json --judge-only --relations none");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  const std::string warning =
      "typo.json: case 'a': impls: 'flsh_cpu' is not loaded, did you mean 'flash_cpu'?\n";
  const size_t at = outcome.text.find(warning);
  EXPECT_NE(at, std::string::npos) << outcome.text;
  EXPECT_EQ(outcome.text.find(warning, at + 1), std::string::npos) << "once for both dtypes";
  EXPECT_THAT(outcome.text, HasSubstr("naive: declared, never judged: "));
  EXPECT_THAT(outcome.text, Not(HasSubstr("flash_cpu: declared")));
}

TEST_F(Cli, SaysInOneLineWhatIsWrong) {
  small_suite();
  write("twice.json", R"({"name": "t", "summary": "s", "cases": [
    {"name": "a", "seq_len_q": 8, "head_dim": 8}, {"name": "a", "seq_len_q": 8, "head_dim": 8}]})");
  write("typo.json", R"({"name": "t", "summary": "s", "cases": [
    {"name": "a", "operation": "softmax", "dtypes": ["f32"], "seq_len_q": 8, "head_dims": 8}]})");
  write("nobody.json", R"({"name": "n", "summary": "s", "cases": [
    {"name": "a", "operation": "softmax", "dtypes": ["f32"], "seq_len_q": 8, "head_dim": 8,
     "impls": ["flash"]}]})");
  for (const char* file : {"mine.cpp", "mine.c", "mine.cu", "mine.hpp"}) write(file, "");
  write("empty.pcd", "");
  write("no.png", "this is no image");
  write("tokens.json", R"({
    "name": "t", "summary": "s", "defaults": {"operation": "softmax", "dtypes": ["f32"]},
    "cases": [
      {"name": "a", "inputs": "lidar:first=64", "seq_len_q": "tokens", "head_dim": 16},
      {"name": "b", "inputs": "image:width=32,height=32,patch=16", "seq_len_q": "tokens",
       "head_dim": 16}
    ]})");
  const std::tuple<std::string, int, std::string> cases[] = {
      {"run nowhere.json", 64, "nowhere.json: no such suite file"},
      {"run twice.json", 64, "twice.json"},
      {"run typo.json", 64, "head_dim"},
      {"run small.json --impl 'nobody*'", 64, "matches none of"},
      {"run small.json --impl flash_cuda_sm999", 64, "; these are loaded, --plugin FILE loads"},
      {"run small.json --case b", 64, "small/b/causal, did you mean 'b/causal'?"},
      {"list --events backward --case vit_ti", 64, ", did you mean 'vit_ti"},
      {"run default --quick --case nothing", 64, "--quick --case nothing: matches none of: "},
      {"run nobody.json", 64, "nobody.json: case 'a': impls: flash: matches none of: "},
      {"run nobody.json", 64, "did you mean 'flash_cpu'?"},
      {"repro 'softmax dtype=f8e4m3 seq_len_q=8 head_dim=8'", 64,
       "f8e4m3 is not judged here; must be f32, f16, bf16 or f64, that of the outputs; 8 bits are "
       "those of single tensors: dtype=f16 q=f8e4m3 k=f8e4m3 v=f8e4m3"},
      {"repro 'softmax_backward seq_len_q=8 head_dim=8 descale_block_q=3'", 64,
       "descale_block_q: without q_descale there are no factors"},
      {"run small.json --case 'nothing*'", 64, "matches none of: small/a/self, small/b/causal"},
      {"run small.json --dtype 'f16,f64'", 64, "--dtype f64: matches none of: f16, f32"},
      {"run small.json --impl flash_cpu -o /proc/nowhere/x.jsonl", 4,
       "/proc/nowhere/x.jsonl: cannot be written"},
      {"run small.json --impl flash_cpu --judge-only -o /dev/full", 4, "No space left on device"},
      {"run small.json --plugin nothing.so", 64, "nothing.so: no such plugin file"},
      {"run small.json --min-arithmetic acc=f33", 64, "--min-arithmetic"},
      {"run small.json --timeout 5m", 64,
       "--timeout: '5m': must be a time such as 50ms, 2s or 5min (units: ns us ms s min h"},
      {"run small.json --budget 1us", 64, "--budget: '1us': must be from 1ms to 1000000s"},
      {"run small.json --memory 1G", 64,
       "--memory: '1G': must be a size such as 512MiB, 1GiB or 2GB"},
      {"run small.json --memory 1KiB", 64, "--memory: '1KiB': must be at least 1MiB"},
      {"bench 'softmax seq_len_q=8 head_dim=8' --dtype f32,f33", 64,
       "'dtype=f33': must be f32, f16"},
      {"bench 'softmax dtype=f32 seq_len_q=8 head_dim=8' --dtype f16", 64,
       "--dtype: the problem has dtype= too; leave one out"},
      {"repro 'softmax seq_len_q=4q head_dim=8'", 64,
       "'seq_len_q=4q': seq_len_q must be a whole number, or one with k (1,024)"},
      {"explain fail:tolerence", 64, "did you mean 'fail:tolerance'?"},
      {"run small.json --impl flash_cpu --fill random,codebok", 64,
       "--fill codebok: matches none of: cancelling, codebook"},
      {"repro 'softmax seq_len_q=8 head_dim=8' --impl naive --fill hug", 64,
       "--fill hug: matches none of: random, codebook"},
      {"run tokens.json --tokens small.json", 64, "a sweep ends in .pcd"},
      {"run small.json --tokens empty.pcd", 64, "no case takes tokens"},
      {"run small.json --bogus", 64, "--bogus"},
      {"run tokens.json --case a --impl flash_cpu --tokens empty.pcd", 64, "empty.pcd"},
      {"run tokens.json --case b --impl flash_cpu --tokens no.png", 64, "no.png"},
      {"run tokens.json --tokens missing.pcd", 64, "missing.pcd: no such file"},
      {"repro 'softmax seq_len_q=8'", 64, "head_dim"},
      {"repro 'softmax seq_len_q=8 seq_len_kv=0 head_dim=8'", 64, "seq_len_kv"},
      {"repro 'softmax seq_len_q=8 num_heads=3 num_kv_heads=2 head_dim=8'", 64, "num_kv_heads"},
      {"repro 'softmax seq_len_q=8 head_dim=100000'", 64, "head_dim"},
      {"repro 'sotfmax seq_len_q=8 head_dim=8'", 64, "softmax"},
      {"", 64, "attest: no command was named; there are run, bench, list"},
      {"run small.json --pace 12Hz", 64,
       "attest: --pace: no such option, did you mean '--paced'? attest run --help says"},
      {"run small.json --pace=12Hz", 64, "attest: --pace: no such option, did you mean '--paced'?"},
      {"run small.json --pace 12Hz --bogus", 64, "attest: --pace: no such option"},
      {"--pace run small.json", 64, "attest: --pace: no such option; attest --help says what"},
      {"run small.json --plugin mine.cpp", 64,
       "mine.cpp: is a source file, and --plugin takes the library that is built from it: c++ "
       "-std=c++17 -O3 -shared -fPIC -fvisibility=hidden -IFOLDER_OF_ATTEST_H mine.cpp -o "
       "mine.so"},
      {"run small.json --plugin mine.c", 64, "-IFOLDER_OF_ATTEST_H mine.c -o mine.so -lm"},
      {"run small.json --plugin mine.cu", 64, "nvcc -std=c++17 -O3 -arch=native "},
      {"run small.json --plugin mine.hpp", 64,
       "mine.hpp: is a header, and --plugin takes a library, e.g. ./mine.so"},
      {"run small.json --plugin nothing.so", 64, "name a shared library, e.g. ./mine.so"},
      {"new mine", 64, "mine.cpp exists already; choose another name, or remove it first"},
      {"scale 'softmax head_dim=8' --over seq_len_q=4k..1k", 64,
       "values such as 1k,3k,8k, the smallest first"},
      {"scale 'softmax head_dim=8' --over foo=", 64,
       "over 'foo=': softmax has no such field with whole numbers; it has batch, num_heads"},
      {"report nowhere.jsonl", 64,
       "nowhere.jsonl: cannot be read: No such file or directory; it must be a file that `attest "
       "run -o FILE` wrote"},
      {"doctor nothing", 64, "'nothing': the command takes no such argument; attest doctor --help"},
      {"doctor -- nothing more", 64, "'nothing': the command takes no such argument; attest"},
      {"frob --impl naive", 64, "attest: no command 'frob', but run, bench, list, repro"},
  };
  for (const auto& [arguments, code, words] : cases) {
    const Outcome outcome = attest(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(words)) << arguments;
    EXPECT_EQ(std::ranges::count(outcome.text, '\n'), 1) << arguments << "\n" << outcome.text;
  }
}

TEST_F(Cli, EveryCommandHasHelpWithAnExample) {
  for (const char* command : {"run", "bench", "list", "repro", "doctor", "new"}) {
    const Outcome outcome = attest(std::string(command) + " --help");
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.text, HasSubstr(std::string("Example: attest ") + command));
  }
  EXPECT_THAT(attest("--help").text, HasSubstr("130 interrupted"));
  for (const char* command : {"run", "bench", "list", "repro"})
    EXPECT_THAT(attest(std::string(command) + " --help").text, HasSubstr("k (1,024)"));
}

TEST_F(Cli, ListsCapabilitiesWithReasons) {
  const Outcome outcome =
      attest("list --plugin " + kMinimal +
             " --for 'softmax seq_len_q=64 head_dim=16 grid_height=8 grid_width=8 "
             "window_height=4 window_width=4'");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.text, ::testing::ContainsRegex("\nflash_cpu +no: does not support GRID"));
  EXPECT_THAT(outcome.text, ::testing::ContainsRegex("\nnaive_minimal +yes, fits: needs 80.0 KiB, "
                                                     "0 of it workspace; qk=f32"));
  EXPECT_THAT(outcome.text, ::testing::ContainsRegex(
                                "16.0 KiB of tensors\nestimate: a run takes at least [0-9.]+ "
                                "[nu]s, as [0-9]+ threads? of this machine reach"));
  EXPECT_EQ(attest("list --for ''").code, 64);
  EXPECT_THAT(attest("list small.json vit").text, HasSubstr("no such suite file"));
  EXPECT_THAT(attest("list " + small_suite()).text, HasSubstr("b/causal"));
  const Outcome doctor = attest("doctor");
  EXPECT_EQ(doctor.code, 0);
  EXPECT_THAT(doctor.text, ::testing::ContainsRegex("ok    peak rates +[0-9.]+ GFLOP/s of float32 "
                                                    "multiply-adds, [0-9.]+ GB/s of reads on one"));
}

TEST_F(Cli, ListsWhatDoesNotFit) {
  const std::string problem = "softmax num_heads=8 seq_len_q=4k head_dim=64";
  const Outcome outcome = attest("list --impl naive --memory 64MiB --for " + problem);
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.text, ::testing::ContainsRegex(
                                "naive          yes, does not fit: needs [0-9]+ MiB \\([0-9.]+ "
                                "MiB of it declared workspace\\); --memory allows 64 MiB\n"));
  EXPECT_THAT(
      attest("list --impl naive --memory 1GiB --for " + problem).text,
      ::testing::ContainsRegex("yes, fits: needs [0-9]+ MiB, [0-9.]+ MiB of it workspace; "));
  EXPECT_THAT(attest("list --impl naive --threads 1 --for softmax num_heads=1k seq_len_q=1m "
                     "head_dim=64 --memory 1TiB")
                  .text,
              HasSubstr("naive          yes, "));
}

TEST_F(Cli, ListsSuites) {
  const Outcome outcome = attest("list --suites");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.text, HasSubstr("\nvit            27 cases,"));
  EXPECT_EQ(attest("list --suites vit").code, 64);
}

// A case that needs more than the user allows is skipped; one that needs less is judged.
TEST_F(Cli, SkipsWhatNeedsMoreMemoryThanIsAllowed) {
  write("sizes.json", R"({"name": "sizes", "summary": "two",
    "defaults": {"operation": "softmax", "dtypes": ["f32"], "head_dim": 64},
    "cases": [{"name": "small", "seq_len_q": "1k"}, {"name": "large", "seq_len_q": "64k"}]})");
  const Outcome outcome = attest(
      "run sizes.json --impl flash_cpu --judge-only --relations none "
      "--memory 64MiB -o r.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  ASSERT_EQ(lines("r.jsonl").size(), 4u);
  EXPECT_EQ(lines("r.jsonl")[1]["verdict"], "pass");
  EXPECT_EQ(lines("r.jsonl")[2]["code"], "skipped:memory");
  EXPECT_THAT(lines("r.jsonl")[2]["reason"], HasSubstr("--memory allows 64 MiB"));
  EXPECT_THAT(
      attest("bench softmax seq_len_q=64k head_dim=64 --impl flash_cpu --memory 64MiB").text,
      AllOf(::testing::ContainsRegex("skipped      needs 32[0-9] MiB"),
            HasSubstr("none was run\n")));
}

TEST_F(Cli, DoctorNamesADeviceThatNobodyRunsOn) {
  setenv("ATTEST_CUDA_DRIVER", ATTEST_BINARY_DIR "/tests/fake_cuda.so", 1);
  const bool built = attest("list").text.find(" on cuda;") != std::string::npos;
  const Outcome outcome = attest("doctor");
  unsetenv("ATTEST_CUDA_DRIVER");
  EXPECT_EQ(outcome.text.find("none  CUDA implementations") == std::string::npos, built)
      << outcome.text;
  EXPECT_EQ(attest("doctor").text.find("none  CUDA implementations"), std::string::npos)
      << "without a device nobody misses them";
}

// A reader that goes away after the first line does not end what is measured.
TEST_F(Cli, GoesOnWhenNobodyReads) {
  const std::string command =
      kAttest + " run " + small_suite() +
      " --judge-only --impl 'flash_cpu,naive' -o unread.jsonl --table unread.md";
  testing::run_shell(folder_, "(" + command + "; echo $? > status) | head -n 1");
  std::ifstream status(folder_ / "status");
  int code = 0;
  status >> code;
  EXPECT_EQ(code, 4);
  const std::vector<json> kept = lines("unread.jsonl");
  ASSERT_GE(kept.size(), 4u);
  EXPECT_EQ(kept.back()["type"], "end");
  EXPECT_GT(fs::file_size(folder_ / "unread.md"), 0u);
}

// Ctrl-C in the middle: 130, and the lines written before are whole. The table has grown while the
// run went on, and has its end all the same.
TEST_F(Cli, KeepsWhatWasMeasuredWhenInterrupted) {
  std::string cases;
  for (int i = 0; i < 400; ++i)
    cases += (i ? "," : "") +
             (R"({"name": "c)" + std::to_string(i) + R"(", "seq_len_q": 512, "head_dim": 64})");
  write("long.json", R"({"name": "long", "summary": "s",
    "defaults": {"operation": "softmax", "dtypes": ["f32"]}, "cases": [)" +
                         cases + "]}");
  const pid_t child = fork();
  if (child == 0) {
    if (chdir(folder_.c_str()) != 0 || !std::freopen("shown.txt", "w", stdout) ||
        !std::freopen("/dev/null", "w", stderr))
      _exit(99);
    execl(kAttest.c_str(), "attest", "run", "long.json", "--impl", "flash_cpu", "-o", "cut.jsonl",
          nullptr);
    _exit(99);
  }
  const auto shown = [&] {
    std::ifstream in(folder_ / "shown.txt");
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  for (int i = 0; i < 1000 && lines("cut.jsonl").size() < 3; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_THAT(shown(), ::testing::ContainsRegex("long/c0 f32  [0-9x]+\n  flash_cpu       pass"));
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  const std::vector<json> kept = lines("cut.jsonl");  // throws on half a line
  EXPECT_GE(kept.size(), 3u);
  EXPECT_LT(kept.size(), 401u);
  EXPECT_THAT(shown(), HasSubstr(std::to_string(kept.size() - 1) + " pass\nworst, rms:"));
}

TEST_F(Cli, ExplainsReasonCodes) {
  const Outcome one = attest("explain crash:canary");
  EXPECT_EQ(one.code, 0);
  for (const char* part :
       {"crash:canary", "Memory beside an output or the workspace was written.",
        "Likely causes:", "A store runs past the end", "What to do:", "-fsanitize=address"})
    EXPECT_THAT(one.text, HasSubstr(part));
  std::istringstream lines(one.text + attest("explain fail:tolerance").text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  const std::string failures = attest("explain fail").text, all = attest("explain").text;
  EXPECT_THAT(failures, HasSubstr("fail:split-merge"));
  EXPECT_THAT(failures, Not(HasSubstr("crash:")));
  EXPECT_THAT(all, AllOf(HasSubstr("fail:split-merge"), HasSubstr("timeout:run")));
  EXPECT_THAT(attest("explain pass").text, HasSubstr("Within the tolerance"));
}

// A record names fills, and somebody may ask about any of them.
TEST_F(Cli, ExplainsFills) {
  const Outcome one = attest("explain huge");
  EXPECT_EQ(one.code, 0);
  EXPECT_THAT(one.text, HasSubstr("huge, a fill\n  Its inputs: logits near 30,000"));
  EXPECT_THAT(one.text, HasSubstr("a maximum that starts too high"));
  EXPECT_THAT(attest("explain rising_2").text,
              HasSubstr("rising_2, a further round of the fill rising\n  Its inputs: a maximum"));
  EXPECT_THAT(
      attest("explain repeated").text,
      HasSubstr("\n  Problems that have it: gradients in which every query sees every key"));
  for (const char* word : {"hug", "huge_2", "rising_1", "rising_", "rising_x"})
    EXPECT_EQ(attest(std::string("explain ") + word).code, 64) << word;
  EXPECT_THAT(attest("explain hug").text, HasSubstr("did you mean 'huge'?"));
  const std::string all = attest("explain").text;
  for (const core::Operation* operation : core::all_operations()) {
    const std::string sizes = operation->name() == "deformable"
                                  ? " head_dim_v=16 level_height_0=5 level_width_0=7"
                                  : " head_dim=16";
    const core::Problem problem =
        core::parse_problem(std::string(operation->name()) + " seq_len_q=37" + sizes);
    for (const std::string& fill : operation->fills(problem))
      if (!fill.starts_with("rising_"))
        EXPECT_THAT(all, HasSubstr("\n" + fill + " "));
      else
        EXPECT_EQ(attest("explain " + fill).code, 0) << fill;
    for (const std::string& fill : operation->more_fills(problem))
      EXPECT_THAT(all, HasSubstr("\n" + fill + " "));
  }
}

// One mistake in many cases is one line.
TEST_F(Cli, SaysWhatMostFailuresHaveInCommon) {
  const Outcome outcome = attest(
      "run smoke --dtype f32 --case 'softmax/causal*' "
      "--judge-only --plugin " ATTEST_BINARY_DIR
      "/tests/plugins/mutants.so --impl mutant_scale_twice");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.text, ::testing::ContainsRegex(
                                "\nmutant_scale_twice: in [0-9]+ of [0-9]+ bad records it is "
                                "as if softmax_scale were"));
}

// The promise that a right kernel never fails, on every feature: each implementation passes each
// case that it supports. The smaller suite alone has relations.
class CliSuite : public Cli, public ::testing::WithParamInterface<const char*> {};

// The options of the runs of a suite. Cases of "default" are judged in each dtype: tiny ones on
// every fill, larger ones on random inputs. On every fill, each larger case is judged in one dtype,
// which takes half the time; each dtype has dense, causal or banded ones and other features.
std::vector<std::string> runs_of(const std::string& suite) {
  if (suite == "smoke") return {"smoke"};
  const std::string run = "default --relations none --case ";
  return {run + "'tiny/*'", run + "'[!t]*' --fill random",
          run +
              "'dense/4099,causal/decode,causal/1021,patches/*,lse/*,linear/4099,strides/*' "
              "--dtype f32",
          run +
              "'cross/900x4224,window/4099,varlen/*,dense/61,dense/197,linear/masked_1021,"
              "deformable/*' --dtype bf16",
          run +
              "'dense/1021,dense/head_dim_*,cross/1x40000,window/causal_1021,gqa/*,head_dim_v/*,"
              "softcap/*,mask/*,bias/*,key_padding/*,grid/*,many/*' --dtype f16"};
}

TEST_P(CliSuite, EveryImplementationPasses) {
  std::map<std::string, int> passes;
  std::set<std::string> cases;
  for (const std::string& run : runs_of(GetParam())) {
    const Outcome outcome =
        attest("run " + run +
               " --judge-only --threads 1 --case-limit 1 --impl '*' -o all.jsonl --overwrite");
    EXPECT_EQ(outcome.code, 0) << run
                               << outcome.text.substr(
                                      outcome.text.size() > 4000 ? outcome.text.size() - 4000 : 0);
    for (const json& line : lines("all.jsonl")) {
      if (line["type"] != "result") continue;
      if (line["verdict"] == "pass") ++passes[line["impl"]];
      if (line["verdict"] != "skipped" && run.find("--fill") == std::string::npos)
        cases.insert(line["case"]);
    }
  }
  for (const core::Case& one :
       core::read_suite(ATTEST_SOURCE_DIR "/suites/" + std::string(GetParam()) + ".json").cases)
    EXPECT_TRUE(cases.contains(one.name)) << one.name << " is not judged on every fill";
  for (const char* impl : {"naive", "flash_cpu", "window_cpu", "linear_cpu", "naive_deformable",
                           "deformable_cpu", "naive_backward", "flash_backward_cpu"})
    EXPECT_GE(passes[impl], 2) << impl;
}
// What `attest new` writes is slow.
TEST_F(Cli, TheTemplateOfAnImplementationPassesSmoke) {
  const Outcome outcome = attest("run smoke --judge-only --threads 1 --case-limit 1 --plugin " +
                                 kMinimal + " --impl naive_minimal -o all.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  int passes = 0;
  for (const json& line : lines("all.jsonl"))
    passes += line["type"] == "result" && line["verdict"] == "pass";
  EXPECT_GT(passes, 50);
}

INSTANTIATE_TEST_SUITE_P(Suites, CliSuite, ::testing::Values("smoke", "default"),
                         [](const auto& suite) { return std::string(suite.param); });

// Whatever an implementation does to its process, or says of itself, is a record; the run goes on
// and says so.
TEST_F(Cli, OutlivesImplementationsThatDie) {
  const Outcome outcome =
      attest("run " + small_suite() + " --dtype f32 --timeout 1 --judge-only --plugin " + kHostile +
             " --impl 'hostile_aborts,hostile_exits,hostile_hangs,hostile_boasts,flash_cpu' -o "
             "died.jsonl");
  EXPECT_EQ(outcome.code, 1) << outcome.text;
  std::map<std::string, std::vector<std::string>> codes;
  for (const json& line : lines("died.jsonl"))
    if (line["type"] == "result") codes[line["impl"]].push_back(line["code"]);
  const std::map<std::string, std::string> expected = {{"hostile_aborts", "crash:signal"},
                                                       {"hostile_exits", "crash:exit"},
                                                       {"hostile_hangs", "timeout:run"},
                                                       {"hostile_boasts", "error:declaration"},
                                                       {"flash_cpu", ""}};
  for (const auto& [impl, code] : expected)
    EXPECT_EQ(codes[impl], std::vector<std::string>(2, code)) << impl;
  EXPECT_THAT(outcome.text, HasSubstr("next:\n  attest explain error:declaration "));
}

// A record of tokens, of a plugin from elsewhere: its line gives the same inputs and outputs again.
TEST_F(Cli, RepeatsARecordOfTokensAndOfAPlugin) {
  fs::copy(kMinimal, folder_ / "mine.so");
  write("tokens.json",
        R"({"name": "t", "summary": "s", "defaults": {"operation": "softmax", "dtypes": ["f32"]},
    "cases": [{"name": "a", "inputs": "lidar:first=64", "seq_len_q": "tokens", "head_dim": 16}]})");
  attest("run tokens.json --plugin mine.so --impl naive_minimal --judge-only -o first.jsonl");
  const json first = lines("first.jsonl").at(2);  // behind the tokens
  const std::string repro = first["repro"];
  const Outcome outcome =
      attest(repro.substr(std::string("attest ").size()) + " --judge-only -o again.jsonl");
  ASSERT_EQ(outcome.code, 0) << repro << "\n" << outcome.text;
  const json again = lines("again.jsonl").at(2);
  for (size_t i = 0; i < first["fills"].size(); ++i) {
    EXPECT_EQ(again["fills"][i]["inputs_hash"], first["fills"][i]["inputs_hash"]);
    EXPECT_EQ(again["fills"][i]["outputs_hash"], first["fills"][i]["outputs_hash"]);
  }
}

}  // namespace
}  // namespace attest::cli
