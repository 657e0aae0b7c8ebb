// The steps of scripts/orin.sh on made-up boards, with stand-ins for what takes long. No board has
// been seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "testing/project/orin_folder.hpp"

namespace attest::testing {
namespace {

namespace fs = std::filesystem;
using core::FakeBoard;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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
  rewrite_records("refused.jsonl", "refused.jsonl", [](json& record) { record.erase("energy"); });
  EXPECT_THAT(orin(board, "-o blind energy").text,
              HasSubstr("lacks: energy: this board has no sensor that attest knows -> attest"));
  write_results("refused.jsonl", "flash_cpu", "skipped", "skipped:time");
  rewrite_records("refused.jsonl", "refused.jsonl",
                  [](json& record) { record["fills"] = json::array(); });
  EXPECT_THAT(orin(board, "-o late energy").text,
              HasSubstr("lacks: energy: no case was measured -> attest run says above why"));
}

TEST_F(Orin, UnderSudoResultsBelongToTheCaller) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const FakeBoard board("nx16", 6);
  write_results("right.jsonl", "flash_cpu", "pass", "");
  write("play", R"(cat right.jsonl >"$file"; exit 0)");
  const auto owner = [&](const char* name) {
    struct stat status{};
    EXPECT_EQ(stat((folder_ / name).c_str(), &status), 0) << name;
    return std::pair(status.st_uid, status.st_gid);
  };
  orin(board, "-o of_root vit");
  EXPECT_EQ(owner("of_root/vit.jsonl"), std::pair(0u, 0u));
  orin(board, "-o given vit", "SUDO_UID=12345 SUDO_GID=23456");
  for (const char* name : {"given", "given/vit.jsonl", "given/log.txt"})
    EXPECT_EQ(owner(name), std::pair(12345u, 23456u)) << name;
}

TEST_F(Orin, MeasuresEnergyOnInputsThatTheCasesHave) {
  const FakeBoard board("nx16", 6);
  write_results("right.jsonl", "flash_cpu", "pass", "");
  write("play", R"(cat right.jsonl >"$file"; exit 0)");
  orin(board, "-o results energy");
  const std::string asked = text("asked");
  std::smatch cases, fills;
  ASSERT_TRUE(std::regex_search(asked, cases, std::regex("--case [^ \n]+"))) << asked;
  ASSERT_TRUE(std::regex_search(asked, fills, std::regex("--fill [^ \n]+"))) << asked;
  const Outcome planned = attest(
      "run vit bev lidar --quick --dtype f16 --impl window_cpu,flash_cpu "
      "--dry-run " +
      cases.str() + " " + fills.str());
  EXPECT_EQ(planned.code, 0) << planned.text;
  EXPECT_THAT(
      planned.text,
      AllOf(HasSubstr("vit/vit_b_16_224/self f16"), HasSubstr("bev/bevformer/decoder_self f16"),
            HasSubstr("lidar/ptv3_stage0/patch_hilbert f16"), Not(HasSubstr("has no such fill"))));
}

TEST_F(Orin, TakesAllCasesIntoFilesOfTheirOwn) {
  const FakeBoard board("nx16", 6);
  write_results("right.jsonl", "flash_cpu", "pass", "");
  write("play", R"(cat right.jsonl >"$file"; exit 0)");
  const Outcome outcome = orin(board, "-o results --all bev report");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(text("asked"), AllOf(HasSubstr("run bev --impl"), Not(HasSubstr("--quick"))));
  EXPECT_TRUE(fs::exists(folder_ / "results/bev_all.jsonl"));
  EXPECT_FALSE(fs::exists(folder_ / "results/bev.jsonl"));
  EXPECT_THAT(outcome.text, HasSubstr("report: results/report.html"));
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
  both[1]["impl"] = "cudnn_cuda";
  both[1]["verdict"] = "fail";
  both[1]["code"] = "fail:nan";
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
                           "window_cuda", "linear_cuda", "deformable_cuda"})
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

}  // namespace
}  // namespace attest::testing
