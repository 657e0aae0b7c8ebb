// Counters of the processor, by calls of the kernel that the test plays: most machines of a build
// server have none.
#include "core/measure/hardware_counters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <set>

#include "core/measure/usage.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

/// A kernel that counts what run() says while its groups are on.
class Kernel {
 public:
  struct Counter {
    uint64_t config = 0;
    pid_t thread = 0;
    int group = -1;
    bool on = false;
    CounterSystem::Reading reading;
  };

  CounterSystem system() {
    return {.open = [this](const perf_event_attr& event, pid_t thread,
                           int group) { return open(event, thread, group); },
            .read =
                [this](int counter, CounterSystem::Reading& reading) {
                  reading = counters.at(counter).reading;
                  return readable;
                },
            .turn = [this](int counter, bool on) { counters.at(counter).on = on; },
            .close = [this](int counter) { closed.insert(counter); },
            .paranoid = [] { return 4; }};
  }
  /// A thread runs for `ns`, of which its group is on the processor for `share`.
  void run(pid_t thread, uint64_t ns, uint64_t cycles, double share = 1) {
    for (auto& [fd, one] : counters) {
      const Counter& leader = one.group < 0 ? one : counters.at(one.group);
      if (one.thread != thread || !leader.on) continue;
      const uint64_t each = one.config == PERF_COUNT_HW_CPU_CYCLES     ? cycles
                            : one.config == PERF_COUNT_HW_INSTRUCTIONS ? cycles * 2
                                                                       : cycles / 100;
      one.reading.value += uint64_t(double(each) * share);
      one.reading.enabled_ns += ns;
      one.reading.running_ns += uint64_t(double(ns) * share);
    }
  }

  std::map<uint64_t, int> errors;  // by event
  std::map<pid_t, int> thread_errors;
  std::map<int, Counter> counters;
  std::set<int> closed;
  bool readable = true;

 private:
  int open(const perf_event_attr& event, pid_t thread, int group) {
    EXPECT_EQ(event.type, uint32_t(PERF_TYPE_HARDWARE));
    EXPECT_TRUE(event.exclude_kernel && event.inherit);
    EXPECT_EQ(bool(event.disabled), group < 0) << "the leader alone is turned on and off";
    if (const auto at = thread_errors.find(thread); at != thread_errors.end()) return -at->second;
    if (const auto at = errors.find(event.config); at != errors.end()) return -at->second;
    const int fd = 100 + int(counters.size());
    counters[fd] = {
        .config = event.config, .thread = thread, .group = group, .on = false, .reading = {}};
    return fd;
  }
};

class Counters : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* thread : {"12", "13"}) fs::create_directories(proc_ / "task" / thread);
  }
  void TearDown() override { fs::remove_all(proc_); }
  std::string refusal() {
    std::string reason;
    const HardwareCounters counters(kernel_.system(), proc_);
    EXPECT_FALSE(counters.counts(reason));
    return reason;
  }

  Kernel kernel_;
  const fs::path proc_ =
      fs::path(::testing::TempDir()) / ("attest_counters_" + std::to_string(getpid()));
  std::string reason_;
};

TEST_F(Counters, CountAllThreadsDuringSamplesAlone) {
  HardwareCounters counters(kernel_.system(), proc_);
  kernel_.run(12, 1000, 7777);  // before
  counters.begin();
  kernel_.run(12, 1000, 3000);
  kernel_.run(13, 1000, 1000);
  counters.end();
  kernel_.run(13, 1000, 7777);  // between
  counters.begin();
  kernel_.run(13, 1000, 1000);
  counters.end();
  const auto counts = counters.counts(reason_);
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->cycles, 5000);
  EXPECT_EQ(counts->instructions, 10000);
  EXPECT_EQ(counts->cache_misses, 50);
  EXPECT_EQ(counts->counted_share, 1);
  EXPECT_EQ(reason_, "");
}

TEST_F(Counters, AreScaledWhereTheyTookTurns) {
  HardwareCounters counters(kernel_.system(), proc_);
  counters.begin();
  kernel_.run(12, 1000, 4000, 0.25);
  kernel_.run(13, 1000, 2000);
  counters.end();
  const auto counts = counters.counts(reason_);
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->cycles, 6000);
  EXPECT_EQ(counts->counted_share, 0.625);
}

TEST_F(Counters, SayNothingIfAThreadWasNeverCounted) {
  HardwareCounters counters(kernel_.system(), proc_);
  counters.begin();
  kernel_.run(12, 1000, 4000);
  kernel_.run(13, 1000, 2000, 0);
  counters.end();
  EXPECT_FALSE(counters.counts(reason_));
  EXPECT_THAT(reason_, HasSubstr("of a thread were never free"));
}

TEST_F(Counters, OfOneGroupAreTogether) {
  const HardwareCounters counters(kernel_.system(), proc_);
  ASSERT_EQ(kernel_.counters.size(), 6u);
  for (const auto& [fd, one] : kernel_.counters) {
    EXPECT_EQ(one.group < 0, one.config == PERF_COUNT_HW_CPU_CYCLES);
    if (one.group >= 0) {
      EXPECT_EQ(kernel_.counters.at(one.group).thread, one.thread);
    }
  }
}

TEST_F(Counters, SayWhyThereAreNone) {
  kernel_.errors[PERF_COUNT_HW_CPU_CYCLES] = EACCES;
  EXPECT_THAT(refusal(), HasSubstr("not allowed (kernel.perf_event_paranoid is 4)"));
  kernel_.errors[PERF_COUNT_HW_CPU_CYCLES] = EPERM;
  EXPECT_THAT(refusal(), HasSubstr("not allowed"));
  kernel_.errors[PERF_COUNT_HW_CPU_CYCLES] = ENOENT;
  EXPECT_THAT(refusal(), HasSubstr("shows no counters"));
  kernel_.errors[PERF_COUNT_HW_CPU_CYCLES] = ENOSYS;
  EXPECT_THAT(refusal(), HasSubstr("no perf_event_open"));
  kernel_.errors[PERF_COUNT_HW_CPU_CYCLES] = EMFILE;
  EXPECT_THAT(refusal(), HasSubstr("Too many open files"));
  kernel_.errors.clear();
  EXPECT_THAT(refusal(), HasSubstr("no thread that is counted ran")) << "there was no sample";
  kernel_.readable = false;
  EXPECT_THAT(refusal(), HasSubstr("could not be read"));
  fs::remove_all(proc_);
  EXPECT_THAT(refusal(), HasSubstr("names no threads"));
}

TEST_F(Counters, OneEventMayBeMissing) {
  kernel_.errors[PERF_COUNT_HW_CACHE_MISSES] = ENOENT;
  HardwareCounters counters(kernel_.system(), proc_);
  counters.begin();
  kernel_.run(12, 1000, 3000);
  counters.end();
  const auto counts = counters.counts(reason_);
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->cycles, 3000);
  EXPECT_FALSE(counts->cache_misses);
}

TEST_F(Counters, AThreadThatHasEndedIsLeftOut) {
  kernel_.thread_errors[13] = ESRCH;
  HardwareCounters counters(kernel_.system(), proc_);
  counters.begin();
  kernel_.run(12, 1000, 3000);
  counters.end();
  const auto counts = counters.counts(reason_);
  ASSERT_TRUE(counts) << reason_;
  EXPECT_EQ(counts->cycles, 3000);
}

TEST_F(Counters, AreAllClosedAlsoAfterARefusal) {
  {
    const HardwareCounters counters(kernel_.system(), proc_);
  }
  EXPECT_EQ(kernel_.closed.size(), 6u);
  kernel_.closed.clear();
  kernel_.thread_errors[13] = EACCES;
  EXPECT_NE(refusal(), "");
  EXPECT_EQ(kernel_.closed.size(), 3u);
}

TEST_F(Counters, AreInTheUsageOfSamples) {
  UsageMeter meter(read_usage, proc_, kernel_.system());
  meter.begin();
  kernel_.run(12, 1000, 3000);
  meter.end();
  kernel_.run(12, 1000, 3000);
  ASSERT_TRUE(meter.usage().counters);
  EXPECT_EQ(meter.usage().counters->cycles, 3000);
  EXPECT_EQ(meter.usage().no_counters, "");
}

TEST(HostCounters, CountOrSayWhyNot) {
  UsageMeter meter;
  meter.begin();
  volatile unsigned sum = 0;
  for (unsigned i = 0; i < 1'000'000; ++i) sum = sum + i;
  meter.end();
  const HostUsage usage = meter.usage();
  EXPECT_NE(usage.counters.has_value(), !usage.no_counters.empty());
  if (usage.counters) {  // an addition takes a cycle, and at least one instruction
    EXPECT_GT(usage.counters->cycles.value_or(0), 0.9e6);
    if (usage.counters->instructions) {
      EXPECT_GT(*usage.counters->instructions, 0.9e6);
    }
  }
}

}  // namespace
}  // namespace attest::core
