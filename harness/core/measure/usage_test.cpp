// What is counted beside samples: by a reader that the test plays, by recorded files, and by a
// process that wants the same core.
#include "core/measure/usage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

TEST(Usage, CountsWhatLiesInSamplesAlone) {
  UsageCounts now;
  UsageMeter meter([&now] { return now; });
  const auto sample = [&](const UsageCounts& more) {
    meter.begin();
    now.minor_faults += more.minor_faults;
    now.major_faults += more.major_faults;
    now.voluntary_switches += more.voluntary_switches;
    now.preemptions += more.preemptions;
    meter.end();
  };
  sample({.minor_faults = 3});
  now.preemptions += 10;
  now.minor_faults += 100;  // between samples
  sample({.voluntary_switches = 2, .preemptions = 1});
  sample({});
  sample({.major_faults = 4, .preemptions = 2});
  const HostUsage usage = meter.usage();
  EXPECT_EQ(usage.minor_faults, 3);
  EXPECT_EQ(usage.major_faults, 4);
  EXPECT_EQ(usage.voluntary_switches, 2);
  EXPECT_EQ(usage.preemptions, 3);
  EXPECT_THAT(usage.preempted_samples, ElementsAre(1, 3));
}

class Migrations : public ::testing::Test {
 protected:
  ~Migrations() override { fs::remove_all(proc_); }
  void write(const char* thread, const std::string& text) const {
    fs::create_directories(proc_ / "task" / thread);
    std::ofstream(proc_ / "task" / thread / "sched") << text;
  }
  const fs::path proc_ =
      fs::path(::testing::TempDir()) / ("attest_usage_" + std::to_string(getpid()));
};

TEST_F(Migrations, AreThoseOfAllThreads) {
  write("12", "attest-worker (12, #threads: 2)\nse.nr_migrations      :         40\n");
  write("13", "attest-worker (13, #threads: 2)\nse.nr_migrations      :          2\n");
  const UsageMeter meter(read_usage, proc_);
  write("13", "attest-worker (13, #threads: 2)\nse.nr_migrations      :          7\n");
  EXPECT_EQ(meter.usage().migrations, 5);
  fs::remove_all(proc_ / "task" / "12");
  EXPECT_EQ(meter.usage().migrations, 0) << "a thread has ended";
}

TEST_F(Migrations, HaveAReasonWhereTheKernelDoesNotCount) {
  write("12", "attest-worker (12, #threads: 1)\n");
  const HostUsage usage = UsageMeter(read_usage, proc_).usage();
  EXPECT_EQ(usage.migrations, std::nullopt);
  EXPECT_THAT(usage.no_migrations, HasSubstr("/task/*/sched has none"));
}

TEST(Usage, SeesFaultsAndWaitsOfThisProcess) {
  UsageMeter meter;
  meter.begin();
  constexpr size_t kBytes = 4 << 20;
  char* const fresh = static_cast<char*>(
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(fresh, MAP_FAILED);
  madvise(fresh, kBytes, MADV_NOHUGEPAGE);
  for (size_t at = 0; at < kBytes; at += 4096) fresh[at] = 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  meter.end();
  munmap(fresh, kBytes);
  EXPECT_GE(meter.usage().minor_faults, 500);
  EXPECT_GE(meter.usage().voluntary_switches, 1);
}

// Two processes on one core: the system lets them take turns.
TEST(Usage, SeesAnotherProcessOnTheCore) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const pid_t other = fork();
  if (other == 0) {
    alarm(10);
    for (;;) asm volatile("");
  }
  UsageMeter meter;
  meter.begin();
  for (const auto start = Clock::now();
       nanoseconds_since(start) < 2e9 && (meter.end(), meter.usage().preemptions == 0);)
    meter.begin();
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  sched_setaffinity(0, sizeof(before), &before);
  EXPECT_GE(meter.usage().preemptions, 1);
}

}  // namespace
}  // namespace attest::core
