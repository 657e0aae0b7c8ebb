// What scripts/orin.sh does before its steps, on made-up boards: it looks at the board, its memory,
// the bundle, or builds in a source tree. No board has been seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "testing/project/orin_folder.hpp"

namespace attest::testing {
namespace {

namespace fs = std::filesystem;
using core::FakeBoard;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Orin, RefusesWhatIsNoBoardForIt) {
  const auto refusal = [&](const core::FakeRoot& board) { return refused(board, "vit"); };
  EXPECT_THAT(refusal(core::FakeRoot()), AllOf(HasSubstr("no Jetson"), Not(HasSubstr("No such"))));
  EXPECT_THAT(refusal(FakeBoard("agx64", 5)),
              AllOf(HasSubstr("JetPack 5"), HasSubstr("install JetPack 6 or 7.2"),
                    HasSubstr("one would need g++ 11")));
  FakeBoard board("nx16", 6);
  board.write("proc/device-tree/compatible", std::string("nvidia,tegra194\0", 16));
  EXPECT_THAT(refusal(board), HasSubstr("tegra194: attest knows Orin"));
  board.remove("proc/device-tree/compatible");  // its release says that it is a Jetson
  EXPECT_THAT(refusal(board), HasSubstr("a chip without a name: attest knows Orin"));
  EXPECT_FALSE(fs::exists(folder_ / "orin-results")) << "nothing was written";
}

TEST_F(Orin, RefusesABundleThatCannotRunHere) {
  const FakeBoard board("nx16", 6);
  write("bundle/cuda", "13.0.88\n");
  EXPECT_THAT(refused(board, "vit"), HasSubstr("this bundle has CUDA 13.0.88, for JetPack 7.2"));
  write("play", "exit 0");
  EXPECT_EQ(orin(FakeBoard("nx16", 7), "-o seven vit").code, 0);
  write("bundle/cuda", "12.6.68\n");
  EXPECT_EQ(orin(board, "-o six vit").code, 0);
  // The same program for another processor
  std::string elf = FakeBoard::text_of("/proc/self/exe").substr(0, 4096);
  elf[18] = char(0x7f);
  elf[19] = 0;
  script("bundle/bin/attest", elf);
  EXPECT_THAT(refused(board, "vit"), HasSubstr("a bundle has to be built for aarch64"));
  write("no.tar.gz", "no archive");
  EXPECT_THAT(refused(board, "--bundle no.tar.gz"), HasSubstr("cannot be unpacked"));
  run_shell(folder_, "tar czf empty.tar.gz bundle/scripts");
  EXPECT_THAT(refused(board, "--bundle empty.tar.gz"), HasSubstr("is no bundle"));
}

TEST_F(Orin, SaysHowItIsCalled) {
  const Outcome help = orin(core::FakeRoot(), "--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.text, AllOf(HasSubstr("The first hour on a Jetson board"),
                               HasSubstr("Exit codes: 0;"), Not(HasSubstr("set -euo"))));
}

TEST_F(Orin, RefusesWrongArguments) {
  const FakeBoard board("nx16", 6);
  write("file", "");
  for (const auto& [wrong, why] :
       {std::pair{"--fast", "--fast: unknown; -o FOLDER"},
        {"--seconds 0", "--seconds 0: not a number of seconds"},
        {"--seconds 10000000", "--seconds 10000000: not a number of seconds"},
        {"-o", "-o needs a value"},
        {"--bundle nowhere.tar.gz", "--bundle nowhere.tar.gz: is not there"},
        {"-o file vit", "-o file: is no folder that can be written to"}}) {
    const Outcome outcome = orin(board, wrong);
    EXPECT_EQ(outcome.code, 64) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(why));
  }
}

TEST_F(Orin, WorksWhereTheReleaseIsNotKnown) {
  const FakeBoard board("nx16", 6);
  board.remove("etc/nv_tegra_release");
  write("play", "exit 0");
  const Outcome outcome = orin(board, "-o results vit");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("release: not known: /etc/nv_tegra_release names none"));
}

TEST_F(Orin, GivesAttestNoMoreThanIsFree) {
  FakeBoard board("nano8", 6);
  write("play", "exit 0");
  const auto with_free = [&](int mib) {
    board.write("proc/meminfo",
                "MemTotal: 7802880 kB\nMemAvailable: " + std::to_string(mib * 1024) + " kB\n");
    return orin(board, "-o results vit");
  };
  EXPECT_THAT(with_free(4096).text, HasSubstr("attest may take 1152 MiB"));  // (4096 - 1024) * 3/8
  EXPECT_THAT(with_free(3400).text, HasSubstr("attest may take 1152 MiB"));
  const Outcome less = with_free(3000);
  EXPECT_EQ(less.code, 4) << less.text;
  EXPECT_THAT(less.text, AllOf(HasSubstr("gave attest 1152 MiB"), HasSubstr("may have 988:"),
                               HasSubstr("with another folder (-o)")))
      << less.text;
  const Outcome none = with_free(1400);
  EXPECT_EQ(none.code, 4) << none.text;
  EXPECT_THAT(none.text, AllOf(HasSubstr("376 MiB of memory are left"),
                               HasSubstr("sudo systemctl isolate multi-user.target")));
  for (const char* garbage : {"", "0", "a[$(touch ran)]", "010"}) {
    write("results/memory", garbage);
    const Outcome outcome = with_free(4096);
    EXPECT_EQ(outcome.code, 4) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("results/memory has no number of MiB"));
  }
  EXPECT_FALSE(fs::exists(folder_ / "ran"));
  board.write("proc/meminfo", "MemTotal: garbage\n");
  EXPECT_THAT(orin(board, "vit").text, HasSubstr("does not say how much memory is free"));
}

TEST_F(Orin, UnpacksABundle) {
  const FakeBoard board("thor", 7);
  write("play", "exit 0");
  run_shell(folder_, "tar czf packed.tar.gz bundle && rm bundle/bin/attest");
  const Outcome outcome = orin(board, "-o results --bundle packed.tar.gz vit");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_TRUE(fs::exists(folder_ / "results.bundle/bin/attest"));
  // Into a fresh folder, since attest loads all plugins that it finds.
  script("results.bundle/lib/attest/plugins/old.so", "");
  EXPECT_EQ(orin(board, "-o results/ --bundle packed.tar.gz vit").code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "results.bundle/bin/attest"));
  EXPECT_FALSE(fs::exists(folder_ / "results.bundle/lib"));
  EXPECT_FALSE(fs::exists(folder_ / "results.bundle.new"));
  script("mine.bundle/file", "");
  EXPECT_THAT(orin(board, "-o mine --bundle packed.tar.gz vit").text,
              HasSubstr("mine.bundle is there and is no bundle"));
  EXPECT_TRUE(fs::exists(folder_ / "mine.bundle/file"));
}

/// A source tree with stand-ins for what sets up, nvcc and CMake.
class OrinTree : public Orin {
 protected:
  OrinTree() {
    copy_scripts("tree");
    for (const char* name : {"setup", "charts", "cuda_packages"}) stand_in(name, "exit 0");
    script("tools/nvcc", "#!/bin/bash\n");
    script("tools/cmake", R"(#!/bin/bash
echo "cmake $*" >>"$TEST_FOLDER/called"
case $1 in
  --preset | -S) eval "${CONFIGURE:-true}" || exit ;;&
  --preset) mkdir -p "build/$2" && touch "build/$2/build.ninja" ;;
  --build)
    eval "${BUILD:-true}" || exit
    mkdir -p "$2/bin"
    cp "$TEST_FOLDER/bundle/bin/attest" "$2/bin" ;;
esac
)");
    write("play", "exit 0");
    board_.write("proc/meminfo", "MemTotal: 7802880 kB\nMemAvailable: 3000000 kB\n");
  }
  void stand_in(const std::string& name, const std::string& command) const {
    script("tree/scripts/" + name + ".sh", command + "\n");
  }
  Outcome build(const std::string& variables = "", const std::string& options = "",
                const std::string& path = "$PWD/tools:/usr/bin:/bin") const {
    return orin(board_, "-o results " + options + " vit",
                "CUDA_HOME=/nowhere PATH=" + path + " " + variables, "tree");
  }

  core::FakeBoard board_{"nano8", 6};
};

TEST_F(OrinTree, IsBuiltForTheBoard) {
  EXPECT_EQ(build().code, 0);
  const std::string options = "-DATTEST_CUDA=on -DATTEST_CUDA_ARCHITECTURES=87\n";
  // The memory that is free suffices for one compiler
  EXPECT_THAT(text("called"),
              AllOf(HasSubstr("cmake --preset aarch64-native -DATTEST_TESTS=OFF " + options),
                    HasSubstr("/tree/build/aarch64-native --parallel 1\n")));
  // As scripts/run.sh leaves a tree: configured without CUDA.
  fs::remove(folder_ / "called");
  fs::remove(folder_ / "tree/build/aarch64-native/bin/attest");
  EXPECT_EQ(build().code, 0);
  EXPECT_THAT(text("called"), AllOf(HasSubstr("/tree/build/aarch64-native " + options),
                                    Not(HasSubstr("--preset"))));
}

TEST_F(OrinTree, SaysWhatStopsTheBuild) {
  const auto stopped = [&](const Outcome& outcome, const std::string& why) {
    EXPECT_EQ(outcome.code, 4) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(why));
    EXPECT_THAT(text("results/log.txt"), HasSubstr(why));
  };
  const Outcome no_nvcc = build("", "", "/usr/bin:/bin");
  stopped(no_nvcc, "nvcc is neither in PATH nor in /nowhere/bin");
  EXPECT_THAT(no_nvcc.text, HasSubstr("sudo apt-get install nvidia-jetpack"));
  stopped(build("CONFIGURE='echo no Highway; false'"), "no Highway\norin.sh: cmake failed");
  stopped(build("BUILD='echo no such type; false'"), "no such type\norin.sh: the build failed");
  stopped(build("CONFIGURE='echo no fmt; false'"), "no fmt\norin.sh: cmake failed");
  // Killed while time is left, as when memory runs out.
  stopped(build("BUILD='kill -9 $$'"), "orin.sh: the build failed");
  stand_in("setup", "exit 4");
  stopped(build(), "set-up failed");
}

TEST_F(OrinTree, KeepsTheTimeWhereverItIsSpent) {
  const auto cut = [&](const Outcome& outcome, const std::string& what) {
    EXPECT_EQ(outcome.code, 3) << outcome.text;
    EXPECT_THAT(outcome.text,
                HasSubstr("time was over while it " + what + "; the same call again goes on"));
  };
  // This copy of the scripts kills a step that ignores SIGTERM after one second instead of ten.
  std::string steps = text("tree/scripts/steps.sh");
  const std::string kill_after = "\nkill_after=10\n";
  ASSERT_NE(steps.find(kill_after), std::string::npos);
  write("tree/scripts/steps.sh",
        steps.replace(steps.find(kill_after), kill_after.size(), "\nkill_after=1\n"));
  stand_in("setup", "exec sleep 60");
  cut(build("", "--seconds 1"), "set up");
  stand_in("setup", "exit 0");
  cut(build("CONFIGURE='exec sleep 60'", "--seconds 1"), "configured");
  cut(build("BUILD='exec sleep 60'", "--seconds 1"), "built");
  // The time is over when this build is killed, so it was cut.
  cut(build(R"(BUILD='trap "" TERM; sleep 60')", "--seconds 2"), "built");
  // What is only useful is left out.
  for (const auto& [name, said] : {std::pair{"charts", "goes on without charts"},
                                   {"cuda_packages", "goes on without cudnn_cuda"}}) {
    stand_in(name, "exec sleep 60");
    EXPECT_THAT(build("", "--seconds 1").text, HasSubstr(said));
    stand_in(name, "exit 0");
  }
}

}  // namespace
}  // namespace attest::testing
