// Processes as the harness starts, hears and ends them. A shell stands for attest-worker: it runs
// the script that stands for the plugin.
#include "core/isolation/worker_process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr double kPatience_s = 20;

class WorkerProcess : public ::testing::Test {
 protected:
  WorkerProcess() {
    std::string path = fs::temp_directory_path() / "attest_worker_XXXXXX";
    folder_ = mkdtemp(path.data());
  }
  ~WorkerProcess() override { fs::remove_all(folder_); }

  fs::path script(const std::string& text) const {
    const fs::path path = folder_ / "script.sh";
    std::ofstream(path) << text;
    return path;
  }
  static WorkerOptions shell() { return {.executable = "/bin/sh", .cpus = "0,3", .limits = {}}; }

 private:
  fs::path folder_;
};

TEST_F(WorkerProcess, FindsItsArgumentsAndNothingToRead) {
  Worker worker(script("cat\necho \"$1 and $# more\"\n"), shell());
  ASSERT_TRUE(worker.ended(kPatience_s));
  EXPECT_EQ(worker.said(), "0,3 and 1 more");
}

// Whoever starts attest may have blocked or ignored signals. A worker that did so could not be
// interrupted, and would outlive what it should die of.
TEST_F(WorkerProcess, DiesOfSignalsThatAttestIgnores) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  const auto old = std::signal(SIGUSR1, SIG_IGN);
  for (const std::string name : {"TERM", "USR1"}) {
    Worker worker(script("echo before\nkill -" + name + " $$\necho after\n"), shell());
    EXPECT_TRUE(worker.ended(kPatience_s));
    EXPECT_EQ(worker.said(), "before") << name;
  }
  std::signal(SIGUSR1, old);
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

TEST_F(WorkerProcess, EndsWhenItIsDismissed) {
  Worker worker(script("echo waits\nread -r line <&5\necho \"was told '$line'\"\n"), shell());
  EXPECT_FALSE(worker.ended(0.05)) << "nobody has dismissed it";
  worker.dismiss();
  ASSERT_TRUE(worker.ended(kPatience_s));
  EXPECT_EQ(worker.said(), "waits was told ''");
}

// A supervisor that goes without a word takes its worker with it.
TEST_F(WorkerProcess, IsKilledByWhateverItsSupervisorDiedOf) {
  Worker worker(script("exit 3\n"), shell());
  const std::optional<int> how = worker.ended(kPatience_s);
  ASSERT_TRUE(how);
  EXPECT_EQ(*how, SIGKILL);
  EXPECT_EQ(worker.libraries_hash(), 0u);
  EXPECT_EQ(worker.resident_bytes(), 0u);
}

TEST_F(WorkerProcess, SaysItsLastWordsOnOneLine) {
  Worker worker(script("seq 1000\nprintf 'bell\\a tab\\t end  \\n\\n'\n"), shell());
  ASSERT_TRUE(worker.ended(kPatience_s));
  const std::string said = worker.said();
  EXPECT_LE(said.size(), 600u);
  EXPECT_THAT(said, HasSubstr(" 999 1000 bell  tab  end"));
  EXPECT_TRUE(said.ends_with("end"));
}

// A flood of output may not fill the memory.
TEST_F(WorkerProcess, LosesOutputBeyondAMegabyteAndSaysHowMuch) {
  Worker little(script("head -c 1000000 /dev/zero\n"), shell());
  ASSERT_TRUE(little.ended(kPatience_s));
  EXPECT_EQ(little.take_output(), 0u);
  const fs::path flooded = script("").parent_path() / "flooded";
  Worker flood(script("head -c 3000000 /dev/zero\n: >" + flooded.string() +
                      "\nread -r line <&5\necho end\n"),
               shell());
  for (int i = 0; i < 20'000 && !fs::exists(flooded); ++i) usleep(1000);
  EXPECT_EQ(flood.take_output(), 3000000u);
  flood.dismiss();
  ASSERT_TRUE(flood.ended(kPatience_s));
  EXPECT_EQ(flood.take_output(), 3000000u) << "what is written later begins at the front";
  EXPECT_EQ(flood.said(), "end");
}

int status_pages() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("attest-status") != line.npos;
  return count;
}

TEST_F(WorkerProcess, LeavesNothingWhereItCannotBeStarted) {
  WorkerOptions options = shell();
  options.executable = "/nowhere/attest-worker";
  try {
    const Worker worker(script(""), options);
    ADD_FAILURE() << "it was started";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cannot start /nowhere/attest-worker: No such file or directory");
  }
  EXPECT_EQ(status_pages(), 0);
}

TEST(Tidy, KeepsPrintableTextOfOneLine) {
  EXPECT_EQ(tidy("a\nb\x1b[31m\x7f", 100), "a b [31m ");
  EXPECT_EQ(tidy("\xc3\xa4 is kept", 100), "\xc3\xa4 is kept");
  EXPECT_EQ(tidy("too long", 3), "too");
}

}  // namespace
}  // namespace attest::core
