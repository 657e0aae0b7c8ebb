// Implementations whose tensors lie on a device, by a driver that has none: judged, timed and
// audited as on the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "core/device/testing/fake_elf.hpp"
#include "core/measure/machine/doctor/doctor.hpp"
#include "core/measure/machine/environment.hpp"
#include "core/measure/testing/fake_board.hpp"
#include "core/measure/testing/fake_root.hpp"
#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"
#include "testing/named.hpp"

namespace attest::core {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class OnDevice : public ::testing::Test {
 protected:
  // Looked at once in a process, and inherited by the workers.
  static void SetUpTestSuite() {
    setenv("ATTEST_CUDA_DRIVER", ATTEST_BINARY_DIR "/tests/fake_cuda.so", 1);
    setenv("ATTEST_NVML", ATTEST_BINARY_DIR "/tests/fake_nvml.so", 1);
  }
  void TearDown() override {
    unsetenv("ATTEST_FAKE_CUDA");
    unsetenv("ATTEST_FAKE_NVML");
  }

  static Record run(const std::string& name,
                    const std::string& spec = "softmax num_heads=2 seq_len_q=61 head_dim=16 lse",
                    bool timed = false, RelationChoice relations = RelationChoice::kNone,
                    std::vector<std::string> fills = {},
                    const std::optional<PaceOptions>& pace = std::nullopt) {
    Plugin plugin(
        ATTEST_BINARY_DIR "/tests/plugins/device.so",
        {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}});
    RunOptions options;
    options.limits.budget_s = 0.1;
    options.timed = timed;
    options.relations = relations;
    options.fills = std::move(fills);
    options.pace = pace;
    return testing::run_named(plugin, name, spec, options);
  }
};

constexpr const char* kBrief = "softmax num_heads=2 seq_len_q=7 head_dim=8";

TEST_F(OnDevice, IsJudged) {
  for (const char* spec : {"softmax num_heads=2 seq_len_q=61 head_dim=16 lse",
                           "softmax seq_len_q=33 head_dim=8 window_right=0",
                           "softmax num_heads=2 seq_len_q=61 head_dim=16 q.order=0213 o.order=0213",
                           "softmax batch=2 seq_len_q=5 head_dim=16 k.strides=[4194304,0,16,1]"}) {
    const Record record = run("device_none", spec);
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << spec << ": " << record.outcome.reason;
    EXPECT_EQ(record.device, "cuda");
    EXPECT_GE(record.fills.size(), 2u);
  }
}

// The driver's device is sm_90. Nothing is launched, nor is the implementation asked.
TEST_F(OnDevice, APluginWithoutKernelsForItIsUnsupported) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("attest_code_" + std::to_string(getpid())),
                 code = folder / "code";
  fs::create_directories(folder);
  const auto run_with = [&](const std::string& name, const std::vector<FakeEntry>& entries) {
    std::ofstream(code, std::ios::binary) << fake_container(entries);
    const fs::path plugin_file = folder / (name + ".so");
    const std::string command = "objcopy --add-section .nv_fatbin=" + code.string() + " " +
                                ATTEST_BINARY_DIR "/tests/plugins/device.so " +
                                plugin_file.string();
    if (std::system(command.c_str()) != 0) return Record();
    Plugin plugin(plugin_file, {.executable = find_worker(), .cpus = "", .limits = {.threads = 1}});
    return testing::run_named(plugin, "device_none", kBrief, {.timed = false});
  };
  const Record foreign = run_with("foreign", {{2, 87, 0x11}});
  EXPECT_EQ(foreign.outcome.code, ReasonCode::kUnsupportedKernel);
  EXPECT_EQ(foreign.outcome.reason, "no kernel for sm_90: it has sm_87");
  EXPECT_TRUE(foreign.fills.empty());
  const Record own = run_with("own", {{2, 87, 0x11}, {2, 90, 0x100011}});
  EXPECT_EQ(own.outcome.verdict(), Verdict::kPass) << own.outcome.reason;
  fs::remove_all(folder);
}

// On a Jetson what a case takes on the device comes from the host's memory.
TEST_F(OnDevice, SharedMemoryCountsForBoth) {
  Plugin plugin(ATTEST_BINARY_DIR "/tests/plugins/device.so",
                {.executable = find_worker(), .cpus = "", .limits = {.threads = 1}});
  const auto estimate = [&](uint64_t memory_bytes) {
    RunOptions options;
    options.limits.memory_bytes = memory_bytes;
    options.dry_run = true;
    return testing::run_named(plugin, "device_none", "softmax seq_len_q=16k head_dim=64", options);
  };
  constexpr uint64_t kTensors = 4 * (uint64_t{16384} * 64 * 4);
  EXPECT_NEAR(estimate(0).estimated_bytes, 5.0 * kTensors, 0.01 * kTensors);
  EXPECT_NE(estimate(6 * kTensors - 1).outcome.code, ReasonCode::kSkippedMemory);
  const FakeBoard board("nx16", 6);
  setenv("ATTEST_MACHINE_ROOT", board.path().c_str(), 1);
  EXPECT_NEAR(estimate(0).estimated_bytes, 6.0 * kTensors, 0.01 * kTensors);
  EXPECT_EQ(estimate(6 * kTensors - 1).outcome.code, ReasonCode::kSkippedMemory);
  unsetenv("ATTEST_MACHINE_ROOT");
}

TEST_F(OnDevice, IsTimedByTheDevice) {
  const Record record = run("device_none", "softmax seq_len_q=61 head_dim=16 lse", true);
  EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
  ASSERT_TRUE(record.time);
  EXPECT_GE(record.time->samples_ns.size(), 2u);
  EXPECT_GE(record.time->cold_samples_ns.size(), 2u);
  EXPECT_GE(record.time->audited_runs.value_or(0), 2);
}

// Frames arrive each 10 ms. attest's own copies take more than 20 ms a frame, to the device and
// back: no frame waits for them, and none is timed with them.
TEST_F(OnDevice, LatenciesAreWithoutAttestsOwnCopies) {
  setenv("ATTEST_FAKE_CUDA", "slow-copies", 1);
  const Record record = run("device_none", kBrief, false, RelationChoice::kNone, {},
                            PaceOptions{.period_ns = 10e6, .window_ns = 0.2e9, .neighbours = {}});
  ASSERT_TRUE(record.paced) << record.outcome.reason;
  const PhaseRecord& alone = record.paced->alone;
  EXPECT_GT(alone.clock_held_ns, 20 * 20e6 - 20 * 10e6);
  EXPECT_EQ(alone.policies[0].frames, 20);
  EXPECT_EQ(alone.policies[0].never_ran, 0);
  EXPECT_LT(alone.policies[0].percentiles[0].value_ns, 5e6) << "its latency";
  EXPECT_LT(alone.policies[0].missed, 10) << "on a busy machine";
}

// Frames that are held up last much longer than planned, and the neighbour works until the last.
TEST_F(OnDevice, NeighboursWorkUntilTheLastFrame) {
  setenv("ATTEST_FAKE_CUDA", "slow-copies", 1);
  const Record record =
      run("device_none", kBrief, false, RelationChoice::kNone, {},
          PaceOptions{
              .period_ns = 4e6, .window_ns = 0.1e9, .neighbours = {parse_neighbours("same:1")}});
  ASSERT_TRUE(record.paced && record.paced->contended) << record.outcome.reason;
  EXPECT_GT(record.paced->contended->clock_held_ns, 0.2e9);
  EXPECT_EQ(record.paced->contended->neighbours.at(0).remark, "");
}

// Judged runs get tensors at odd places, timed ones get them where frameworks allocate them.
TEST_F(OnDevice, TimedTensorsLieAsInFrameworks) {
  const char* spec = "softmax seq_len_q=61 head_dim=16";
  EXPECT_EQ(run("device_odd_places", spec).outcome.verdict(), Verdict::kPass);
  const Outcome timed = run("device_odd_places", spec, true).outcome;
  EXPECT_EQ(timed.code, ReasonCode::kFailTolerance);
  EXPECT_THAT(timed.reason, HasSubstr("in an audited timed run"));
  EXPECT_EQ(run("device_none", spec, true).outcome.verdict(), Verdict::kPass);
}

// As they come, and a replay is timed as the runs that it stands for.
TEST_F(OnDevice, BriefRunsAreReplayed) {
  setenv("ATTEST_FAKE_CUDA", "brief", 1);
  const Record record = run("device_none", kBrief, true);
  EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
  ASSERT_TRUE(record.time && record.time->device);
  EXPECT_GT(record.time->device->replayed_runs, 1);
  EXPECT_EQ(record.time->iterations_per_sample, record.time->device->replayed_runs);
  EXPECT_GT(record.time->device->launch_ns, 0);
  EXPECT_NEAR(record.time->device->clock_mhz, 2000, 1);
  EXPECT_LT(record.time->median_ns, 100 * record.time->cold_median_ns)
      << "of one run, not of all that a replay has";
  EXPECT_THAT(record.notes, ::testing::Not(::testing::Contains(HasSubstr("brief"))));
}

struct Unreplayable {
  const char *name, *why;
};
void PrintTo(const Unreplayable& one, std::ostream* out) { *out << one.name; }
class NotReplayed : public OnDevice, public ::testing::WithParamInterface<Unreplayable> {};

// No fault: its runs are launched one by one, and a note says why.
TEST_P(NotReplayed, IsTimedOneByOne) {
  setenv("ATTEST_FAKE_CUDA", "brief", 1);
  const Record record = run(GetParam().name, kBrief, true);
  EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
  ASSERT_TRUE(record.time && record.time->device);
  EXPECT_EQ(record.time->device->replayed_runs, 0);
  EXPECT_GE(record.time->samples_ns.size(), 2u);
  EXPECT_THAT(record.notes, ::testing::Contains(AllOf(HasSubstr("runs are brief, but"),
                                                      HasSubstr(GetParam().why))));
}

INSTANTIATE_TEST_SUITE_P(
    OnDevice, NotReplayed,
    ::testing::Values(Unreplayable{"device_waits", "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
                      Unreplayable{"device_allocates", "a run that is recorded fails"},
                      Unreplayable{"device_uncaptured", "a replay gives something else than a run"},
                      Unreplayable{"device_used_up", "a replay gave something else than a run"}),
    [](const auto& each) { return std::string(each.param.name).substr(7); });

TEST_F(OnDevice, LeavesOutWhatRanAtALowerClock) {
  const char* spec = "softmax num_heads=2 seq_len_q=61 head_dim=16";
  EXPECT_EQ(run("device_none", spec, true).time.value().device.value().discarded_samples, 0);
  setenv("ATTEST_FAKE_CUDA", "throttle", 1);
  const Record record = run("device_none", spec, true);
  ASSERT_TRUE(record.time && record.time->device) << record.outcome.reason;
  EXPECT_GT(record.time->device->discarded_samples, 0);
  // Every third comparison of clocks is slow; where samples are few, half of them may be.
  const size_t kept = record.time->samples_ns.size(),
               discarded = size_t(record.time->device->discarded_samples);
  EXPECT_GE(kept, discarded);
  EXPECT_NEAR(record.time->device->clock_mhz, 2000, kept + discarded > 4 ? 1 : 501);
}

TEST_F(OnDevice, ItsStateIsRecordedBeforeAndAfter) {
  const Record good = run("device_none", "softmax seq_len_q=61 head_dim=16", true);
  ASSERT_TRUE(good.time && good.time->device) << good.outcome.reason;
  const DeviceTimeRecord& device = *good.time->device;
  EXPECT_EQ(device.before.at("celsius"), "41");
  EXPECT_EQ(std::stod(device.before.at("energy_j")) + 5, std::stod(device.after.at("energy_j")));
  EXPECT_THAT(good.notes, ::testing::Not(::testing::Contains(HasSubstr("held down"))));
  setenv("ATTEST_FAKE_NVML", "hot", 1);
  const Record hot = run("device_none", "softmax seq_len_q=61 head_dim=16", true);
  EXPECT_THAT(hot.notes,
              ::testing::Contains("the device's clocks were held down: power cap, heat"));
}

/// Energy of runs on the fake device, on a machine whose files the test makes up.
class EnergyOnDevice : public OnDevice {
 protected:
  EnergyOnDevice() { setenv("ATTEST_MACHINE_ROOT", root_.path().c_str(), 1); }
  ~EnergyOnDevice() override { unsetenv("ATTEST_MACHINE_ROOT"); }

  /// By sensor.
  static std::map<std::string, EnergyRecord> measured() {
    Plugin plugin(
        ATTEST_BINARY_DIR "/tests/plugins/device.so",
        {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}});
    RunOptions options;
    options.timed = false;
    options.relations = RelationChoice::kNone;
    options.energy = true;
    const Record record = testing::run_named(plugin, "device_none", kBrief, options);
    EXPECT_TRUE(record.energy) << record.outcome.reason;
    std::map<std::string, EnergyRecord> by_sensor;
    for (const EnergyRecord& energy : record.energy.value_or(std::vector<EnergyRecord>()))
      by_sensor[energy.sensor] = energy;
    return by_sensor;
  }

  FakeRoot root_;
};

// The power rises steadily, so the mean of the idle power before and after is that of the runs:
// nothing is left for them. Either alone would be 110 W off.
TEST_F(EnergyOnDevice, IsCountedByNvmlBesideItsPower) {
  setenv("ATTEST_FAKE_NVML", "warms", 1);
  root_.write("sys/class/hwmon/hwmon0/name", "ina238");
  root_.write("sys/class/hwmon/hwmon0/power1_input", "31250000");
  std::map<std::string, EnergyRecord> energy = measured();
  ASSERT_EQ(energy.size(), 2u);
  const EnergyRecord& nvml = energy["NVML"];
  EXPECT_EQ(nvml.refusal, "");
  EXPECT_EQ(nvml.covers, "the first CUDA device");
  EXPECT_EQ(nvml.method, "counter");
  EXPECT_GE(nvml.window_ns, 1e9);
  EXPECT_GT(nvml.runs, 0);
  const double seconds = nvml.window_ns * 1e-9;
  EXPECT_GT(nvml.joules, (100 + 100 * (0.75 + seconds / 2)) * seconds * 0.95);
  EXPECT_NEAR(nvml.run_joules, nvml.joules / double(nvml.runs), 1e-9 * nvml.joules);
  EXPECT_NEAR(nvml.polled_joules.value_or(0), nvml.joules / 1.6, 0.02 * nvml.joules);
  EXPECT_GT(nvml.idle_watts_before, 100);
  EXPECT_GT(nvml.idle_watts_after, nvml.idle_watts_before + 150) << "1.5 s later at least";
  EXPECT_LT(std::abs(nvml.net_run_joules), 0.15 * nvml.run_joules);
  const EnergyRecord& board = energy["ina238"];
  EXPECT_EQ(board.method, "power");
  EXPECT_FALSE(board.polled_joules) << "it has one figure alone";
  EXPECT_NEAR(board.joules, 31.25 * board.window_ns * 1e-9, 1e-6);
  EXPECT_NEAR(board.idle_watts_before, 31.25, 1e-6);
}

TEST_F(EnergyOnDevice, HasAReasonWhereNvmlStartsAndRefuses) {
  setenv("ATTEST_FAKE_NVML", "refuses", 1);
  std::map<std::string, EnergyRecord> energy = measured();
  ASSERT_EQ(energy.size(), 1u);
  EXPECT_EQ(energy["NVML"].refusal, "it answers neither for energy nor for power");
  EXPECT_EQ(energy["NVML"].method, "");
}

// A Jetson's GPU has no NVML, or one that refuses what it is asked.
class OnDeviceOfABoard : public OnDevice {
 protected:
  OnDeviceOfABoard() {
    board_.lock_clocks();
    setenv("ATTEST_MACHINE_ROOT", board_.path().c_str(), 1);
  }
  ~OnDeviceOfABoard() override { unsetenv("ATTEST_MACHINE_ROOT"); }

  /// Why a timed record lacks something; "": it lacks nothing but the facts of NVML.
  static std::string timed_with(const std::vector<std::string>& facts_of_nvml) {
    const Record record = run("device_none", "softmax num_heads=2 seq_len_q=61 head_dim=16", true);
    if (!record.outcome.passes()) return record.outcome.reason;
    if (!record.time || !record.time->device) return "it was not timed by the device";
    const DeviceTimeRecord& device = *record.time->device;
    if (record.time->samples_ns.size() < 2) return "too few samples";
    if (device.clock_mhz < 1000) return "its clock was not seen";
    for (const auto* state : {&device.before, &device.after}) {
      std::vector<std::string> keys;
      for (const auto& [key, text] : *state) keys.push_back(key);
      if (keys != facts_of_nvml) return "NVML said " + ::testing::PrintToString(keys);
    }
    if (!record.board || record.board->before.at("gpu_locked") != "yes")
      return "the state of the board is not in its record";
    for (const std::string& note : record.notes)
      if (note.find("held down") != note.npos) return note;
    return {};
  }

  FakeBoard board_{"nx16", 6};
};

TEST_F(OnDeviceOfABoard, IsTimedWhereNvmlRefuses) {
  setenv("ATTEST_FAKE_NVML", "refuses", 1);
  EXPECT_EQ(timed_with({}), "");
  setenv("ATTEST_FAKE_NVML", "poor", 1);
  EXPECT_EQ(timed_with({"memory_mhz", "sm_mhz"}), "");
}

// In a process of its own, since a process loads NVML once.
TEST_F(OnDeviceOfABoard, IsTimedWithoutNvml) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("ATTEST_NVML", "/nowhere/libnvidia-ml.so.1", 1);
        const std::string lacks = timed_with({});
        std::fputs(lacks.empty() ? "timed" : lacks.c_str(), stderr);
        std::filesystem::remove_all(board_.path());
        std::_Exit(lacks.empty() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "timed");
}

TEST_F(OnDevice, WhatItTakesFromThePoolIsItsPeak) {
  EXPECT_EQ(run("device_pool").memory.pool_peak_bytes, uint64_t{1} << 20) << "at once, not in all";
  const Record past = run("device_allocates");
  EXPECT_EQ(past.memory.pool_peak_bytes, uint64_t{0});
  EXPECT_THAT(past.memory.unseen.value_or(""), HasSubstr("cudaMalloc"));
  EXPECT_FALSE(past.memory.peak_bytes) << "the host's growth is not the device's";
}

TEST_F(OnDevice, TheDoctorSaysWhatItIs) {
  const auto found = [](const char* what) {
    std::string text;
    for (const Finding& finding : diagnose_process())
      if (finding.what == what) text += finding.found + "; " + finding.advice;
    return text;
  };
  EXPECT_EQ(found("CUDA"),
            "Fake: sm_90, 4 multiprocessors, 8.0 GiB, 1 MiB of L2; the driver knows CUDA 12.4; ");
  EXPECT_THAT(found("CUDA goldens"), ::testing::AnyOf(HasSubstr("built without nvcc; optional"),
                                                      HasSubstr("at most 5.12e+11 float64")));
  EXPECT_THAT(found("NVML"),
              AllOf(HasSubstr("celsius 41"), HasSubstr("sm_mhz 1980, watts 120.5; ")));
  setenv("ATTEST_FAKE_NVML", "hot", 1);
  EXPECT_THAT(found("NVML"),
              AllOf(HasSubstr("held_down_by power cap, heat"), HasSubstr("cool it")));
  EXPECT_EQ(read_environment().at("cuda").at("architecture"), "sm_90");
}

TEST_F(OnDevice, IsTimedWithoutAClock) {
  setenv("ATTEST_FAKE_CUDA", "no-ptx", 1);
  const Record record = run("device_none", "softmax num_heads=2 seq_len_q=61 head_dim=16", true);
  ASSERT_TRUE(record.time && record.time->device) << record.outcome.reason;
  EXPECT_EQ(record.time->device->clock_mhz, 0);
  EXPECT_THAT(record.notes,
              ::testing::Contains(HasSubstr(
                  "clock is not known, so no sample is left out for it: cuModuleLoadData: "
                  "CUDA_ERROR_INVALID_PTX")));
}

TEST_F(OnDevice, IsSkippedWhereItsMemoryIsTooSmall) {
  const Record record = run("device_none", "softmax batch=33000 seq_len_q=1024 head_dim=16");
  EXPECT_EQ(record.outcome.code, ReasonCode::kSkippedMemory) << record.outcome.reason;
}

TEST_F(OnDevice, MayNotWriteBesideItsTensors) {
  const Record behind = run("device_behind");
  EXPECT_EQ(behind.outcome.code, ReasonCode::kCrashCanary);
  EXPECT_THAT(behind.outcome.reason, HasSubstr("o was written past its end, at byte 4 behind it"));
  const Record before = run("device_before");
  EXPECT_EQ(before.outcome.code, ReasonCode::kCrashCanary);
  EXPECT_THAT(before.outcome.reason,
              HasSubstr("workspace was written before its start, at byte 1 before it"));
}

// Canaries of inputs and of outputs differ, so that one copied onto the other shows.
TEST_F(OnDevice, MayNotCopyWhatLiesBesideItsTensors) {
  const Record record = run("device_tail", "softmax num_heads=2 seq_len_q=61 head_dim=16");
  EXPECT_EQ(record.outcome.code, ReasonCode::kCrashCanary) << record.outcome.reason;
  EXPECT_THAT(record.outcome.reason, HasSubstr("o was written past its end, at byte 0 behind it"));
}

TEST_F(OnDevice, MayNotWriteBetweenItsElements) {
  for (const char* spec :
       {"softmax batch=2 seq_len_q=5 head_dim=16 o.strides=[4194304,0,16,1]",  // copied run by run
        "softmax batch=2 seq_len_q=5 head_dim=16 o.strides=[96,0,16,1]"}) {
    EXPECT_EQ(run("device_none", spec).outcome.verdict(), Verdict::kPass);
    const Record record = run("device_gap", spec);
    EXPECT_EQ(record.outcome.code, ReasonCode::kCrashCanary) << record.outcome.reason;
    EXPECT_THAT(record.outcome.reason,
                HasSubstr("o was written between its elements, at byte 320"));
  }
}

TEST_F(OnDevice, MayNotReadWhatItsWorkspaceHeld) {
  const char* spec = "softmax num_heads=2 seq_len_q=61 head_dim=16";
  const Record once = run("device_leftover", spec, false, RelationChoice::kNone, {"random"});
  EXPECT_EQ(once.outcome.verdict(), Verdict::kPass) << "caught before it had another workspace";
  const Record record = run("device_leftover", spec, false, RelationChoice::kAll, {"random"});
  EXPECT_EQ(record.outcome.code, ReasonCode::kFailRepetition) << record.outcome.reason;
  EXPECT_EQ(run("device_none", spec, false, RelationChoice::kAll).outcome.verdict(),
            Verdict::kPass);
}

TEST_F(OnDevice, MayNotWriteBesideItsTensorsWhileItIsTimed) {
  const Record record = run("device_later", "softmax num_heads=2 seq_len_q=61 head_dim=16", true);
  EXPECT_EQ(record.outcome.code, ReasonCode::kCrashCanary) << record.outcome.reason;
  EXPECT_THAT(record.outcome.reason, HasSubstr("o was written past its end"));
  EXPECT_FALSE(record.time);
}

TEST_F(OnDevice, MayNotWriteItsInputs) {
  const Record record = run("device_input");
  EXPECT_EQ(record.outcome.code, ReasonCode::kCrashInputWritten);
  EXPECT_THAT(record.outcome.reason, HasSubstr("q was changed"));
}

TEST_F(OnDevice, IsAuditedWhileItIsTimed) {
  const Record record = run("device_stale", "softmax num_heads=2 seq_len_q=61 head_dim=16", true);
  EXPECT_EQ(record.outcome.code, ReasonCode::kFailStaleOutput) << record.outcome.reason;
}

TEST_F(OnDevice, MayWaitForTheStreamAndIsNotHeldUpForEver) {
  const Record record = run("device_waits", "softmax seq_len_q=61 head_dim=16", true);
  EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
  EXPECT_THAT(record.notes, ::testing::Contains(HasSubstr("waits for the stream")));
}

TEST_F(OnDevice, AFaultIsACrashInTheDriversWords) {
  setenv("ATTEST_FAKE_CUDA", "fault-in-run", 1);
  const Record record = run("device_none");
  EXPECT_EQ(record.outcome.code, ReasonCode::kCrashDevice);
  EXPECT_THAT(record.outcome.reason,
              HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"));
}

// Of work that the harness does not wait for before it copies.
TEST_F(OnDevice, AFaultThatShowsLaterIsACrashToo) {
  setenv("ATTEST_FAKE_CUDA", "fault-in-copy", 1);
  const Record record = run("device_none");
  EXPECT_EQ(record.outcome.code, ReasonCode::kCrashDevice) << record.outcome.reason;
  EXPECT_THAT(record.outcome.reason, HasSubstr("cuMemcpyDtoHAsync: CUDA_ERROR_ILLEGAL_ADDRESS"));
}

TEST_F(OnDevice, IsSkippedWhereOthersHaveItsMemory) {
  setenv("ATTEST_FAKE_CUDA", "no-room", 1);
  const Record record = run("device_none");
  EXPECT_EQ(record.outcome.code, ReasonCode::kSkippedMemory);
  EXPECT_THAT(record.outcome.reason,
              HasSubstr("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)"));
}

}  // namespace
}  // namespace attest::core
