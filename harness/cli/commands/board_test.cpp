// Runs on made-up boards: the header and the records of a results file, a power mode that changes
// while a case is timed, clocks that have to be locked, baselines of CI. No board has been seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/measure/testing/fake_board.hpp"
#include "testing/folder_test.hpp"

namespace attest::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class OnBoard : public testing::FolderTest {
 protected:
  OnBoard() {
    setenv("ATTEST_MACHINE_ROOT", board_.path().c_str(), 1);
    board_.lock_clocks();
  }
  ~OnBoard() override { unsetenv("ATTEST_MACHINE_ROOT"); }
  testing::Outcome repro(const std::string& options) const {
    return attest("repro --relations none --fill random --threads 1 --budget 0.05 " + options +
                  " 'softmax seq_len_q=61 head_dim=16'");
  }
  core::FakeBoard board_{"nx16", 6};
};

TEST_F(OnBoard, TheHeaderAndEachRecordSayItsState) {
  const testing::Outcome outcome = repro("--impl naive --require-locked-clocks -o r.jsonl");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const std::vector<json> all = lines("r.jsonl");
  const json &header = all.at(0)["environment"], &record = all.at(1);
  EXPECT_EQ(header["board"]["module"], "Jetson Orin NX 16GB");
  EXPECT_EQ(header["board"]["power_mode"], "0 (MAXN)");
  EXPECT_EQ(header["board"]["multiprocessors"], "8");
  EXPECT_EQ(header["board"]["gpu_cap_mhz"], "918");
  EXPECT_EQ(header["board"]["gpu_locked"], "yes");
  EXPECT_EQ(header["board_missing"]["celsius_cv0_thermal"],
            "temp: Resource temporarily unavailable");
  EXPECT_EQ(header["run"]["machine"], "made up");
  const json& board = record["board"];
  for (const char* when : {"before", "after"}) {
    EXPECT_EQ(board[when]["power_mode"], "0 (MAXN)");
    EXPECT_EQ(board[when]["memory_locked"], "yes");
    EXPECT_EQ(board[when]["celsius_cpu_thermal"], "48.25");
    EXPECT_FALSE(board[when].contains("module")) << "which does not change";
  }
  EXPECT_EQ(board["missing"]["celsius_cv0_thermal"], "temp: Resource temporarily unavailable");
  EXPECT_EQ(board["over_current"], json({{"1", 0}, {"2", 0}, {"3", 0}}));
  const testing::Outcome report = attest("report r.jsonl -f markdown");
  EXPECT_THAT(report.text, HasSubstr("Jetson Orin NX 16GB (8 multiprocessors), power mode 0"));
  EXPECT_THAT(report.text, HasSubstr("the state of its machine is made up"));
}

// Frames come after the samples, so that there are enough runs on a machine that is busy.
TEST_F(OnBoard, AModeThatChangesMeanwhileMakesTheCaseNoisy) {
  const std::string hostile = std::string(ATTEST_BINARY_DIR) + "/tests/plugins/hostile.so";
  const testing::Outcome outcome =
      repro("--plugin " + hostile +
            " --impl honest_mode --paced 50Hz --paced-for 400ms -o changed.jsonl");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const json record = lines("changed.jsonl").at(1);
  const std::string reason = "the power mode changed from 0 (MAXN) to 2 (15W)";
  EXPECT_THAT(record["noisy"].get<std::vector<std::string>>(), Contains(reason));
  EXPECT_THAT(record["notes"].get<std::vector<std::string>>(), Contains(reason));
  EXPECT_EQ(record["board"]["before"]["power_mode"], "0 (MAXN)");
  EXPECT_EQ(record["board"]["after"]["power_mode"], "2 (15W)");
  const testing::Outcome again =
      attest("compare --floor 5 --across-machines changed.jsonl changed.jsonl");
  EXPECT_THAT(again.text, HasSubstr("other-power-mode")) << "its times are of two modes";
}

// Frames are measured after the samples, and the hardware throttles in both.
TEST_F(OnBoard, ThrottlingIsToldOnceForAllThatWasMeasured) {
  const std::string hostile = std::string(ATTEST_BINARY_DIR) + "/tests/plugins/hostile.so";
  const testing::Outcome outcome = repro("--plugin " + hostile +
                                         " --impl honest_throttle --paced 50Hz --paced-for 200ms "
                                         "-o throttled.jsonl");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const json record = lines("throttled.jsonl").at(1);
  const int64_t times = record["board"]["over_current"]["2"];
  EXPECT_GT(times, 0);
  EXPECT_EQ(record["noisy"], json::array({"the mean current was too high: throttled " +
                                          std::to_string(times) + " times (OC2)"}));
}

TEST_F(OnBoard, TimesOfTwoModesAreNeverCompared) {
  ASSERT_EQ(repro("--impl naive -o maxn.jsonl").code, 0);
  board_.write("var/lib/nvpmodel/status", "pmode:0002\n");
  ASSERT_EQ(repro("--impl naive -o low.jsonl").code, 0);
  for (const char* options : {"", "--across-machines "}) {
    const testing::Outcome outcome =
        attest(std::string("compare --floor 5 ") + options + "maxn.jsonl low.jsonl");
    EXPECT_EQ(outcome.code, 4) << outcome.text;
    EXPECT_THAT(outcome.text, AllOf(HasSubstr("other-power-mode"),
                                    HasSubstr("attest: no time could be compared")));
  }
  EXPECT_THAT(attest("compare --floor 5 maxn.jsonl maxn.jsonl").text,
              Not(HasSubstr("other-power-mode")));
}

TEST_F(OnBoard, BaselinesAreKeptByBoardAndMode) {
  const auto kind = [&] {
    return testing::run_shell(folder_, "bash " ATTEST_SOURCE_DIR "/reports/ci/machine.sh").text;
  };
  EXPECT_THAT(kind(), ::testing::MatchesRegex("NVIDIA-Jetson-Orin-NX.*-mode-0-[0-9]+\n"));
  board_.write("var/lib/nvpmodel/status", "pmode:0002\n");
  EXPECT_THAT(kind(), HasSubstr("-mode-2-"));
}

TEST_F(OnBoard, ClocksThatAreNotLockedRefuseToStart) {
  board_.write("sys/class/devfreq/17000000.gpu/min_freq", "306000000\n");
  board_.refuse("sys/kernel/debug/bpmp/debug/clk/emc/rate");
  const testing::Outcome outcome = repro("--impl naive --require-locked-clocks -o r.jsonl");
  EXPECT_EQ(outcome.code, 64) << outcome.text;
  EXPECT_THAT(
      outcome.text,
      AllOf(
          HasSubstr("--require-locked-clocks: the clock of the GPU is not locked: 306 to 918 MHz"),
          HasSubstr("the clock of the memory cannot be seen (rate: Resource temporarily"),
          HasSubstr("sudo nvpmodel -m 0 && sudo jetson_clocks, and run attest as root"),
          Not(HasSubstr("CPUs"))));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "r.jsonl")) << "nothing was begun";
}

TEST_F(OnBoard, CpusThatThePowerModeSwitchedOffNeedNoLock) {
  for (const int jetpack : {6, 7}) {
    const core::FakeBoard agx("agx64", jetpack);
    agx.lock_clocks();
    setenv("ATTEST_MACHINE_ROOT", agx.path().c_str(), 1);
    const testing::Outcome outcome = repro("--impl naive --require-locked-clocks");
    EXPECT_EQ(outcome.code, 0) << outcome.text;
  }
}

TEST_F(OnBoard, TheDoctorSaysWhatToSetAndWhatIsNotBuilt) {
  board_.write("sys/class/devfreq/17000000.gpu/min_freq", "306000000\n");
  const testing::Outcome outcome = attest("doctor");
  for (const char* line :
       {"board                    Jetson Orin NX 16GB", "power mode               0 (MAXN)",
        "clocks                   the clock of the GPU is not locked: 306 to 918 MHz", "undone ",
        "fan ", "desktop                  gnome-shell", "swap ", "not read "})
    EXPECT_THAT(outcome.text, HasSubstr(line));
  EXPECT_THAT(outcome.text,
              ::testing::AnyOf(HasSubstr("no kernel for sm_87: no plugin is for CUDA"),
                               HasSubstr("kernels of ")));
}

TEST_F(OnBoard, OfAnotherMachineOnlyTheCpusAreSeen) {
  const core::FakeRoot desktop;
  setenv("ATTEST_MACHINE_ROOT", desktop.path().c_str(), 1);
  const testing::Outcome blind = repro("--impl naive --require-locked-clocks");
  EXPECT_EQ(blind.code, 64) << blind.text;
  EXPECT_THAT(blind.text, HasSubstr("the clock of the CPUs cannot be seen (cpufreq: no CPU has"));
  const std::string cpufreq = "sys/devices/system/cpu/cpu0/cpufreq/";
  desktop.write(cpufreq + "scaling_min_freq", "800000\n");
  desktop.write(cpufreq + "scaling_max_freq", "3000000\n");
  EXPECT_THAT(repro("--impl naive --require-locked-clocks").text,
              AllOf(HasSubstr("CPUs is not locked: 800 to 3000 MHz"), HasSubstr("sudo cpupower")));
  desktop.write(cpufreq + "scaling_min_freq", "3000000\n");
  EXPECT_EQ(repro("--impl naive --require-locked-clocks").code, 0);
}

}  // namespace
}  // namespace attest::cli
