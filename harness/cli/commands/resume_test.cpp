// Going on with a run that was cut short: nothing is lost but the case at hand, nothing is done
// twice, nothing lives on.
#include <fcntl.h>
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
#include <random>
#include <thread>

#include "testing/folder_test.hpp"
#include "testing/json_schema.hpp"

namespace attest::cli {
namespace {

using attest::testing::Outcome;
using nlohmann::json;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr int kCases = 40;
const std::string kHostile = ATTEST_BINARY_DIR "/tests/plugins/hostile.so";

class Resume : public testing::FolderTest {
 protected:
  Resume() {
    std::string cases;
    for (int i = 0; i < kCases; ++i)
      cases += (i ? "," : "") + (R"({"name": "c)" + std::to_string(i) + R"(", "seq_len_q": )" +
                                 std::to_string(32 + i) + "}");
    std::ofstream(folder_ / "many.json") << R"({"name": "many", "summary": "s",
             "defaults": {"operation": "softmax", "head_dim": 16, "dtypes": ["f32"]}, "cases": [)"
                                         << cases << "]}";
  }

  // Two implementations, one of which dies each time, so that workers come and go.
  std::string arguments(const std::string& more) const {
    return " run many.json --judge-only --threads 1 --plugin " + kHostile +
           " --impl flash_cpu,hostile_segfault " + more;
  }
  Outcome run(const std::string& more) const { return attest(arguments(more)); }
  pid_t start(const std::string& more) const {
    const std::string command = "cd " + folder_.string() +
                                " && exec " ATTEST_BINARY_DIR "/bin/attest" + arguments(more) +
                                " >/dev/null 2>&1";
    const pid_t child = fork();
    if (child == 0) execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    return child;
  }
  // How many records each (case, implementation) has.
  std::map<std::string, int> counts() const {
    std::map<std::string, int> found;
    for (const json& line : results("r.jsonl"))
      ++found[line["case"].get<std::string>() + " " + line["impl"].get<std::string>()];
    return found;
  }
  void expect_whole_and_once() const {
    const auto found = counts();
    EXPECT_EQ(found.size(), size_t(2 * kCases));
    for (const auto& [name, times] : found) EXPECT_EQ(times, 1) << name;
    EXPECT_EQ(lines("r.jsonl").back()["type"], "end");
    EXPECT_EQ(lines("r.jsonl").back()["results"], 2 * kCases);
  }
};

// Processes with that mark in their environment: those that a run started.
std::vector<pid_t> processes_of(const std::string& mark) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    if (text.find("ATTEST_TEST_MARK=" + mark) != text.npos && std::atoi(name.c_str()) != getpid())
      found.push_back(pid_t(std::atoi(name.c_str())));
  }
  return found;
}

TEST_F(Resume, GoesOnAfterEveryKill) {
  setenv("ATTEST_TEST_MARK", folder_.c_str(), 1);
  std::mt19937 random(7);
  constexpr int kKills = 4;
  size_t kept = 0;
  for (int kill_count = 0; kill_count < kKills; ++kill_count) {
    const pid_t child = start("--resume r.jsonl");
    // Some records further, and then at any moment.
    const size_t wanted = std::min<size_t>(kept + 4, 2 * kCases);
    for (int i = 0; i < 2000 && counts().size() < wanted; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const size_t now = counts().size();
    EXPECT_GE(now, wanted);
    kept = now;
    for (int i = 0; i < 1000 && !processes_of(folder_).empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_THAT(processes_of(folder_), ::testing::IsEmpty()) << "workers outlive their harness";
  }
  std::ofstream(folder_ / "r.jsonl", std::ios::app) << R"({"type": "result", "sui)";  // torn
  EXPECT_EQ(run("--resume r.jsonl").code, 1);  // hostile_segfault is a crash each time
  expect_whole_and_once();
  const Outcome again = run("--resume r.jsonl -o ./r.jsonl");
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.text, HasSubstr("80 records of ./r.jsonl are kept, and it is complete"));
  expect_whole_and_once();
  unsetenv("ATTEST_TEST_MARK");
}

// Two GPUs behind CPUs of one name: their records are never in one file.
TEST_F(Resume, AnotherGpuIsAnotherRun) {
  const std::string command =
      "run many.json --case c0 --judge-only --host-golden --impl flash_cpu --resume r.jsonl";
  setenv("ATTEST_CUDA_DRIVER", ATTEST_BINARY_DIR "/tests/fake_cuda.so", 1);
  const Outcome first = attest(command);
  unsetenv("ATTEST_CUDA_DRIVER");
  EXPECT_EQ(first.code, 0) << first.text;
  const Outcome other = attest(command);
  EXPECT_EQ(other.code, 64) << other.text;
  EXPECT_THAT(other.text, HasSubstr("another run: cuda: '"));
}

// A worker killed from outside costs at most the record at hand.
TEST_F(Resume, OutlivesTheEndOfWorkers) {
  setenv("ATTEST_TEST_MARK", folder_.c_str(), 1);
  const pid_t child = start("-o r.jsonl");
  std::mt19937 random(8);
  int killed = 0;
  for (int i = 0; i < 400 && killed < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    for (const pid_t pid : processes_of(folder_)) {
      if (pid == child || counts().empty()) continue;
      kill(pid, SIGKILL);
      ++killed;
      break;
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  unsetenv("ATTEST_TEST_MARK");
  EXPECT_TRUE(WIFEXITED(status));
  expect_whole_and_once();
  int lost = 0;
  for (const json& line : lines("r.jsonl"))
    if (line["type"] == "result" && line["impl"] == "flash_cpu") lost += line["verdict"] != "pass";
  EXPECT_GT(killed, 0);
  EXPECT_LE(lost, killed);
}

// The picture of a sweep is kept with the records that have it.
TEST_F(Resume, WritesThePictureOfASweepOnce) {
  std::ofstream(folder_ / "many.json") << R"({"name": "many", "summary": "s",
      "defaults": {"operation": "softmax", "head_dim": 16, "dtypes": ["f32"],
                   "inputs": "lidar:first=64"},
      "cases": [{"name": "a", "seq_len_q": "tokens"}, {"name": "b", "seq_len_q": 32}]})";
  run("-o r.jsonl");
  const std::vector<json> all = lines("r.jsonl");
  ASSERT_EQ(all.size(), 7u) << "a header, the picture, two records of each case, the end";
  ASSERT_EQ(all[1]["type"], "tokens");
  std::ofstream cut(folder_ / "r.jsonl");
  for (size_t line = 0; line < 3; ++line) cut << all[line].dump() << "\n";
  cut.close();
  run("--resume r.jsonl");
  EXPECT_EQ(results("r.jsonl").size(), 4u);
  const std::vector<json> again = lines("r.jsonl");
  EXPECT_EQ(
      std::ranges::count(again, json("tokens"), [](const json& line) { return line["type"]; }), 1);
}

TEST_F(Resume, RefusesAnotherRun) {
  run("-o r.jsonl --case c1");
  EXPECT_THAT(run("--resume r.jsonl --case c2").text,
              HasSubstr("--resume r.jsonl: another run: cases"));
  const Outcome options = run("--resume r.jsonl --case c1 --timeout 7");
  EXPECT_EQ(options.code, 64);
  EXPECT_THAT(options.text, HasSubstr("another run: options: 'threads 1 timeout 60"));
  EXPECT_THAT(run("--resume r.jsonl --case c1 --relations none").text,
              HasSubstr("another run: options"));
  EXPECT_THAT(run("--resume r.jsonl --case c1 -o other.jsonl").text,
              HasSubstr("-o names another file"));
  std::ofstream(folder_ / "many.json", std::ios::app) << "\n";
  EXPECT_THAT(run("--resume r.jsonl --case c1").text, HasSubstr("another run: suites"));
  std::ofstream(folder_ / "r.jsonl") << "something else\n";
  EXPECT_THAT(run("--resume r.jsonl").text, HasSubstr("line 1 is no line of results"));
  EXPECT_EQ(fs::file_size(folder_ / "r.jsonl"), 15u) << "what is no results file is left alone";
  std::ofstream(folder_ / "r.jsonl") << "a line without an end";
  EXPECT_THAT(run("--resume r.jsonl").text, HasSubstr("--resume r.jsonl: holds no results"));
  EXPECT_EQ(fs::file_size(folder_ / "r.jsonl"), 21u);
}

TEST_F(Resume, EveryLineHoldsToTheSchema) {
  run("-o r.jsonl --case 'c1*'");
  fs::resize_file(folder_ / "r.jsonl", fs::file_size(folder_ / "r.jsonl") - 40);
  run("--resume r.jsonl --case 'c1*'");
  const attest::testing::JsonSchema schema("reports/results.schema.json");
  std::map<std::string, int> types;
  for (const json& line : lines("r.jsonl")) {
    EXPECT_EQ(schema.errors(line), "") << line;
    ++types[line["type"]];
  }
  EXPECT_EQ(types["header"], 1);
  EXPECT_EQ(types["resumed"], 1);
  EXPECT_EQ(types["end"], 1);
  EXPECT_EQ(types["result"], 22);
}

}  // namespace
}  // namespace attest::cli
