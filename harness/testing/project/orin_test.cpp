// scripts/orin.sh on made-up boards: every branch of it, with stand-ins for what takes long. No
// board has been seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/measure/testing/fake_board.hpp"
#include "testing/folder_test.hpp"

namespace attest::testing {
namespace {

namespace fs = std::filesystem;
using core::FakeBoard;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Stands in for attest in a bundle. `play` is what it does for a run, with $file the results file;
// without that it is attest itself, with one implementation on tiny suites.
constexpr const char* kAttest = R"(#!/bin/bash
case $1 in
  --version) exit ;;
  list)
    printf '%s  sums up\n               more of it\n' $(cat "$TEST_FOLDER/has")
    exit ;;
  doctor) cat "$TEST_FOLDER/doctor.txt"; exit ;;
  report) if [[ -e $TEST_FOLDER/play_report ]]; then . "$TEST_FOLDER/play_report"; fi ;;
esac
words=()
for word; do
  case ${last:-} in
    --resume) file=$word ;;
    --impl) [[ -e $TEST_FOLDER/play ]] || word=flash_cpu ;;
    --case) word=${word%%,*} ;;
  esac
  case $word in smoke | vit | bev | lidar) word=$TEST_FOLDER/$word.json ;; esac
  last=$word words+=("$word")
done
if [[ $1 == run ]]; then
  echo "$*" >>"$TEST_FOLDER/asked"
  if [[ -e $TEST_FOLDER/play ]]; then . "$TEST_FOLDER/play"; exit; fi
fi
exec "$TEST_ATTEST" "${words[@]}"
)";

constexpr const char* kAll =
    "naive naive_deformable naive_backward flash_cpu window_cpu linear_cpu deformable_cpu "
    "flash_backward_cpu naive_cuda flash_cuda window_cuda linear_cuda cudnn_cuda";

class Orin : public FolderTest {
 protected:
  Orin() {
    setenv("TEST_FOLDER", folder_.c_str(), 1);
    setenv("TEST_ATTEST", attest_program().c_str(), 1);
    script("bundle/bin/attest", kAttest);
    copy_scripts("bundle");
    write("doctor.txt", "ok    plugins   2 implementations\n");
    write("has", kAll);
    for (const auto& [suite, name, quick] : {std::tuple{"smoke", "tiny", "true"},
                                             {"vit", "vit_b_16_224/self", "true"},
                                             {"bev", "tiny", "true"},
                                             {"lidar", "tiny", "true"}})
      write(std::string(suite) + ".json",
            std::string(R"({"name": ")") + suite + R"(", "summary": "s", "cases": [{"name": ")" +
                name + R"(", "operation": "softmax", "dtypes": ["f16"], "seq_len_q": 64,
                "head_dim": 16, "quick": )" +
                quick + "}]}");
  }
  ~Orin() override {
    for (const char* name : {"TEST_FOLDER", "TEST_ATTEST", "ATTEST_MACHINE_ROOT"}) unsetenv(name);
  }

  void script(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    write(name, text);
    fs::permissions(folder_ / name, fs::perms(0755));
  }
  void copy_scripts(const std::string& tree) const {
    fs::create_directories(folder_ / tree / "scripts");
    for (const char* name : {"orin.sh", "steps.sh"})
      fs::copy_file(fs::path(ATTEST_SOURCE_DIR) / "scripts" / name,
                    folder_ / tree / "scripts" / name, fs::copy_options::overwrite_existing);
  }
  // `before`: what stands before the command, such as variables.
  Outcome orin(const core::FakeRoot& board, const std::string& arguments,
               const std::string& before = "", const std::string& tree = "bundle") const {
    setenv("ATTEST_MACHINE_ROOT", board.path().c_str(), 1);
    return run_shell(folder_, before + " " + tree + "/scripts/orin.sh " + arguments);
  }
  // A results file with a record of `impl` with that verdict.
  void write_results(const std::string& name, const std::string& impl, const std::string& verdict,
                     const std::string& code) const {
    if (!fs::exists(folder_ / "ran.jsonl")) {
      const Outcome ran = attest(
          "repro --impl flash_cpu --judge-only --relations none --fill random "
          "'softmax seq_len_q=61 head_dim=16' -o ran.jsonl");
      EXPECT_EQ(ran.code, 0) << ran.text;
    }
    rewrite_records("ran.jsonl", name, [&](json& record) {
      record["impl"] = impl, record["verdict"] = verdict, record["code"] = code;
    });
  }
};

TEST_F(Orin, RunsEveryStepAndGoesOnWithThem) {
  FakeBoard board("nx16", 6);
  board.lock_clocks();
  const Outcome first = orin(board, "-o results --seconds 120");
  ASSERT_EQ(first.code, 0) << first.text;
  // 3/8 of what is free but for an eighth of all
  EXPECT_THAT(first.text,
              AllOf(HasSubstr("attest may take 4410 MiB for a case"), Not(HasSubstr("lacks:"))));
  EXPECT_THAT(text("asked"), AllOf(HasSubstr("vit --quick --dtype f16"), HasSubstr("--energy"),
                                   HasSubstr("--memory 4410MiB"),
                                   HasSubstr("naive,naive_deformable,naive_backward,flash_cpu,")));
  for (const char* step : {"conformance", "vit", "bev", "lidar", "energy"}) {
    const std::vector<json> found = results(std::string("results/") + step + ".jsonl");
    ASSERT_EQ(found.size(), 1u) << step;
    EXPECT_EQ(found[0]["verdict"], "pass");
    EXPECT_EQ(found[0].contains("time"), std::string(step) != "conformance");
  }
  const json energy = results("results/energy.jsonl").at(0)["energy"];
  EXPECT_NE(std::ranges::find_if(energy,
                                 [](const json& one) {
                                   return one["sensor"] == "ina3221 VDD_IN" &&
                                          one["run_joules"].get<double>() > 0;
                                 }),
            energy.end())
      << energy;
  EXPECT_THAT(text("results/report.md"), HasSubstr("Jetson Orin NX 16GB (8 multiprocessors)"));
  EXPECT_TRUE(fs::exists(folder_ / "results/report.html"));

  board.write("var/lib/nvpmodel/status", "pmode:0002\n");
  const Outcome other_mode = orin(board, "-o results vit");
  EXPECT_EQ(other_mode.code, 1) << other_mode.text;
  EXPECT_THAT(other_mode.text, AllOf(HasSubstr("power mode"), HasSubstr("0 (MAXN)"),
                                     HasSubstr("failed: vit: attest exits with 64")));
  board.write("var/lib/nvpmodel/status", "pmode:0000\n");
  const Outcome again = orin(board, "-o results vit report");
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_THAT(again.text, HasSubstr("1 records of results/vit.jsonl are kept, and it is complete"));
}

TEST_F(Orin, WhatCannotBeHadIsSaid) {
  const FakeBoard board("nx16", 6);
  write("doctor.txt",
        "ok    fan     255 of 255\nnone  CUDA                     no driver (libcuda.so.1)\n"
        "                              -> install nvidia-l4t-cuda\nok    swap    off\n"
        "none  NVML                     libnvidia-ml.so.1 does not load\n"
        "                              -> optional, and absent on Jetson\n");
  write("play", R"(cat refused.jsonl >"$file"; exit 0)");
  write_results("refused.jsonl", "flash_cpu", "pass", "");
  rewrite_records("refused.jsonl", "refused.jsonl", [](json& record) {
    json one = {{"sensor", "ina3221 VDD_IN"},
                {"covers", "the whole board"},
                {"refusal", "in1_input: it is no number"},
                {"method", ""}};
    for (const char* figure : {"window_ns", "runs", "joules", "run_joules", "idle_watts_before",
                               "idle_watts_after", "net_run_joules"})
      one[figure] = 0;
    record["energy"] = {one};
  });
  const Outcome outcome = orin(board, "-o results energy");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(
      outcome.text,
      AllOf(HasSubstr("lacks: CUDA: no driver (libcuda.so.1) -> install nvidia-l4t-cuda\n"),
            HasSubstr("lacks: energy: in1_input: it is no number -> attest doctor"),
            Not(HasSubstr("lacks: fan")), Not(HasSubstr("lacks: swap")), Not(HasSubstr("NVML: "))));
}

TEST_F(Orin, WhatFailsIsNamed) {
  const FakeBoard board("nx16", 6);
  write("play", R"(cat wrong.jsonl >"$file"; exit 1)");
  write_results("wrong.jsonl", "flash_cpu", "fail", "fail:nan");
  const Outcome wrong = orin(board, "-o wrong conformance");
  EXPECT_EQ(wrong.code, 1) << wrong.text;
  EXPECT_THAT(wrong.text, HasSubstr("failed: conformance\n"));
  write_results("wrong.jsonl", "flash_cpu", "pass", "");
  std::vector<json> both = lines("wrong.jsonl");
  both.insert(both.begin() + 1, both[1]);
  both[1]["impl"] = "cudnn_cuda", both[1]["verdict"] = "fail", both[1]["code"] = "fail:nan";
  write_lines("wrong.jsonl", both);
  const Outcome library = orin(board, "-o library conformance");
  EXPECT_EQ(library.code, 0) << library.text;
  EXPECT_THAT(library.text, HasSubstr("finding: conformance: cudnn_cuda: fail:nan in 1"));
  write("play", "kill -9 $$");
  const Outcome killed = orin(board, "-o killed vit");
  EXPECT_EQ(killed.code, 1) << killed.text;
  EXPECT_THAT(killed.text,
              AllOf(HasSubstr("failed: vit: it was killed, as when memory runs out; the same call"),
                    Not(HasSubstr("no time left")), Not(HasSubstr("time was over"))));
  const Outcome nothing = orin(board, "-o nothing report");
  EXPECT_EQ(nothing.code, 1) << nothing.text;
  EXPECT_THAT(nothing.text, HasSubstr("failed: report: there are no results yet"));
}

TEST_F(Orin, WhatTheBuildLacksIsAFailure) {
  const FakeBoard board("nx16", 6);
  write("play", R"(cat wrong.jsonl >"$file"; exit 1)");
  write_results("wrong.jsonl", "flash_cpu", "pass", "");
  write("has", "naive naive_deformable flash_cpu flash_cpu_bf16 window_cpu linear_cpu naive_cuda");
  const Outcome lacking = orin(board, "-o lacking conformance");
  EXPECT_EQ(lacking.code, 1) << lacking.text;
  for (const char* name : {"naive_backward", "deformable_cpu", "flash_backward_cpu", "flash_cuda",
                           "window_cuda", "linear_cuda"})
    EXPECT_THAT(lacking.text, HasSubstr(std::string("attest has no ") + name + ":"));
  EXPECT_THAT(lacking.text, Not(HasSubstr("has no naive:")));
  // What it has besides must not fail either.
  write("has", std::string(kAll) + " flash_cpu_bf16");
  write_results("wrong.jsonl", "flash_cpu_bf16", "fail", "fail:nan");
  const Outcome wrong = orin(board, "-o wrong conformance");
  EXPECT_EQ(wrong.code, 1) << wrong.text;
  EXPECT_THAT(wrong.text, HasSubstr("failed: conformance\n"));
}

TEST_F(Orin, TheTimeIsKeptAndTheNextCallGoesOn) {
  const FakeBoard board("nx16", 6);
  write("play", R"(echo begun >>begun; exec sleep 60)");
  const Outcome cut = orin(board, "-o results --seconds 8 vit bev");
  EXPECT_EQ(cut.code, 3) << cut.text;
  EXPECT_THAT(cut.text, HasSubstr("time was over in: vit bev; the same call again goes on"));
  write_results("right.jsonl", "flash_cpu", "pass", "");
  write("play", R"(cat right.jsonl >"$file"; exit 0)");
  EXPECT_EQ(orin(board, "-o results vit bev").code, 0);

  // What the time does not suffice for, and what is not begun since too little is left.
  write("play_report", "exit 124");
  for (const char* seconds : {"60", "8"}) {
    const Outcome report = orin(board, std::string("-o results report --seconds ") + seconds);
    EXPECT_EQ(report.code, 3) << report.text;
    EXPECT_THAT(report.text, AllOf(HasSubstr("time was over in: report; the same call again"),
                                   Not(HasSubstr("report.html"))));
  }
  write("has", "naive");
  const Outcome both = orin(board, "-o results report --seconds 8");
  EXPECT_EQ(both.code, 1) << both.text;
  EXPECT_THAT(both.text, AllOf(HasSubstr("failed: "), HasSubstr("has no flash_cpu"),
                               HasSubstr("time was over in: report; the same call again")));
  write("has", kAll);
  write("play_report", "kill -9 $$");
  const Outcome killed = orin(board, "-o results report");
  EXPECT_EQ(killed.code, 1) << killed.text;
  EXPECT_THAT(killed.text, HasSubstr("failed: report: it was killed"));
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

TEST_F(Orin, RefusesWhatIsNoBoardForIt) {
  const auto refusal = [&](const core::FakeRoot& board, const std::string& arguments = "vit") {
    const Outcome outcome = orin(board, arguments);
    EXPECT_EQ(outcome.code, 4) << outcome.text;
    return outcome.text;
  };
  EXPECT_THAT(refusal(core::FakeRoot()), AllOf(HasSubstr("no Jetson"), Not(HasSubstr("No such"))));
  EXPECT_FALSE(fs::exists(folder_ / "orin-results")) << "nothing was written";
  EXPECT_THAT(refusal(FakeBoard("agx64", 5)),
              AllOf(HasSubstr("JetPack 5"), HasSubstr("install JetPack 6 or 7.2"),
                    HasSubstr("one would need g++ 11")));
  FakeBoard board("nx16", 6);
  board.write("proc/device-tree/compatible", std::string("nvidia,tegra194\0", 16));
  EXPECT_THAT(refusal(board), HasSubstr("tegra194: attest knows Orin"));

  const FakeBoard good("nx16", 6);
  write("bundle/cuda", "13.0.88\n");
  EXPECT_THAT(refusal(good), HasSubstr("this bundle has CUDA 13.0.88, for JetPack 7.2"));
  write("play", "exit 0");
  EXPECT_EQ(orin(FakeBoard("nx16", 7), "-o seven vit").code, 0);
  fs::remove(folder_ / "bundle/cuda");
  // The same program for another processor
  std::string elf = FakeBoard::text_of("/proc/self/exe").substr(0, 4096);
  elf[18] = char(0x7f), elf[19] = 0;
  script("bundle/bin/attest", elf);
  EXPECT_THAT(refusal(good), HasSubstr("a bundle has to be built for aarch64"));
  write("no.tar.gz", "no archive");
  EXPECT_THAT(refusal(good, "--bundle no.tar.gz"), HasSubstr("cannot be unpacked"));
  run_shell(folder_, "tar czf empty.tar.gz bundle/scripts");
  EXPECT_THAT(refusal(good, "--bundle empty.tar.gz"), HasSubstr("is no bundle"));
  for (const char* wrong : {"--fast", "--seconds 0", "-o", "--bundle nowhere.tar.gz"})
    EXPECT_EQ(orin(good, wrong).code, 64) << wrong;
  const Outcome no_folder = orin(good, "-o no.tar.gz vit");
  EXPECT_EQ(no_folder.code, 64);
  EXPECT_THAT(no_folder.text, HasSubstr("-o no.tar.gz: is no folder that can be written to"));
}

TEST_F(Orin, BaselinesAreKeptByBoardAndMode) {
  const FakeBoard board("nx16", 6);
  setenv("ATTEST_MACHINE_ROOT", board.path().c_str(), 1);
  const auto kind = [&] {
    return run_shell(folder_, "bash " ATTEST_SOURCE_DIR "/reports/ci/machine.sh").text;
  };
  EXPECT_THAT(kind(), ::testing::MatchesRegex("NVIDIA-Jetson-Orin-NX.*-mode-0-[0-9]+\n"));
  board.write("var/lib/nvpmodel/status", "pmode:0002\n");
  EXPECT_THAT(kind(), HasSubstr("-mode-2-"));
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

TEST_F(Orin, BuildsInASourceTree) {
  copy_scripts("tree");
  for (const char* name : {"setup", "charts", "cuda_packages"})
    script(std::string("tree/scripts/") + name + ".sh", "exit 0\n");
  script("tools/nvcc", "#!/bin/bash\n");
  script("tools/cmake", R"(#!/bin/bash
echo "cmake $*" >>"$TEST_FOLDER/called"
case $1 in
  --preset) mkdir -p "build/$2" && touch "build/$2/build.ninja" ;;
  --build)
    eval "${BUILD:-true}" || exit
    mkdir -p "$2/bin"
    cp "$TEST_FOLDER/bundle/bin/attest" "$2/bin" ;;
esac
)");
  write("play", "exit 0");
  FakeBoard board("nano8", 6);
  board.write("proc/meminfo", "MemTotal: 7802880 kB\nMemAvailable: 3000000 kB\n");
  const std::string path = "CUDA_HOME=/nowhere PATH=$PWD/tools:/usr/bin:/bin ";
  const auto build = [&](const std::string& before, const std::string& options = "") {
    return orin(board, "-o results " + options + " vit", before, "tree");
  };
  const Outcome missing = build("CUDA_HOME=/nowhere PATH=/usr/bin:/bin");
  EXPECT_EQ(missing.code, 4) << missing.text;
  EXPECT_THAT(missing.text, AllOf(HasSubstr("nvcc is neither in PATH nor in /nowhere/bin"),
                                  HasSubstr("sudo apt-get install nvidia-jetpack")));
  script("tree/scripts/setup.sh", "exit 4\n");
  EXPECT_THAT(build(path).text, HasSubstr("set-up failed"));
  for (const auto& [name, said] :
       {std::pair{"setup", "time was over while it set up; the same call again goes on"},
        {"charts", "goes on without charts"},
        {"cuda_packages", "goes on without cudnn_cuda"}}) {
    script(std::string("tree/scripts/") + name + ".sh", "exec sleep 60\n");
    const Outcome slow = build(path, "--seconds 1");
    EXPECT_THAT(slow.text, HasSubstr(said));
    script(std::string("tree/scripts/") + name + ".sh", "exit 0\n");
  }
  const Outcome broken = build(path + "BUILD=false");
  EXPECT_EQ(broken.code, 4) << broken.text;
  EXPECT_THAT(broken.text, HasSubstr("the build failed"));
  const Outcome slow = build(path + "BUILD='exec sleep 60'", "--seconds 2");
  EXPECT_EQ(slow.code, 3) << slow.text;
  EXPECT_THAT(slow.text, HasSubstr("time was over while it built; the same call again goes on"));
  // As scripts/run.sh leaves a tree: configured without CUDA.
  fs::remove(folder_ / "called");
  EXPECT_EQ(build(path).code, 0);
  // The memory that is free suffices for one compiler
  EXPECT_THAT(text("called"), AllOf(HasSubstr("/tree/build/aarch64-native -DATTEST_CUDA=on "
                                              "-DATTEST_CUDA_ARCHITECTURES=87\n"),
                                    HasSubstr("/tree/build/aarch64-native --parallel 1\n")));
}

}  // namespace
}  // namespace attest::testing
