// The fixture of tests that call scripts/orin.sh on made-up boards.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/measure/testing/fake_board.hpp"
#include "testing/folder_test.hpp"

namespace attest::testing {

/// Stands in for attest in a bundle. `play` is what it does for a run, with $file the results file;
/// without that it is attest itself, with one implementation on tiny suites.
inline constexpr const char* kAttest = R"(#!/bin/bash
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
    --case | --fill) word=${word%%,*} ;;
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

/// What a build for a board has to have.
inline constexpr const char* kAll =
    "naive naive_deformable naive_backward flash_cpu window_cpu linear_cpu deformable_cpu "
    "flash_backward_cpu naive_cuda flash_cuda window_cuda linear_cuda deformable_cuda cudnn_cuda";

/// A bundle with a stand-in for attest, and tiny suites.
class Orin : public FolderTest {
 protected:
  Orin() {
    setenv("TEST_FOLDER", folder_.c_str(), 1);
    setenv("TEST_ATTEST", attest_program().c_str(), 1);
    script("bundle/bin/attest", kAttest);
    copy_scripts("bundle");
    write("doctor.txt", "ok    plugins   2 implementations\n");
    write("has", kAll);
    for (const auto& [suite, name] : {std::pair{"smoke", "tiny"},
                                      {"vit", "vit_b_16_224/self"},
                                      {"bev", "tiny"},
                                      {"lidar", "tiny"}})
      write(std::string(suite) + ".json",
            std::string(R"({"name": ")") + suite + R"(", "summary": "s", "cases": [{"name": ")" +
                name + R"(", "operation": "softmax", "dtypes": ["f16"], "seq_len_q": 64,
                "head_dim": 16, "quick": true}]})");
  }
  ~Orin() override {
    for (const char* name : {"TEST_FOLDER", "TEST_ATTEST", "ATTEST_MACHINE_ROOT"}) unsetenv(name);
  }

  void script(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write(name, text);
    std::filesystem::permissions(folder_ / name, std::filesystem::perms(0755));
  }
  void copy_scripts(const std::string& tree) const {
    std::filesystem::create_directories(folder_ / tree / "scripts");
    for (const char* name : {"orin.sh", "steps.sh"})
      std::filesystem::copy_file(std::filesystem::path(ATTEST_SOURCE_DIR) / "scripts" / name,
                                 folder_ / tree / "scripts" / name,
                                 std::filesystem::copy_options::overwrite_existing);
  }
  // `before`: what stands before the command, such as variables.
  Outcome orin(const core::FakeRoot& board, const std::string& arguments,
               const std::string& before = "", const std::string& tree = "bundle") const {
    setenv("ATTEST_MACHINE_ROOT", board.path().c_str(), 1);
    return run_shell(folder_, before + " " + tree + "/scripts/orin.sh " + arguments);
  }
  // What it says where it does not begin.
  std::string refused(const core::FakeRoot& board, const std::string& arguments) const {
    const Outcome outcome = orin(board, arguments);
    EXPECT_EQ(outcome.code, 4) << outcome.text;
    return outcome.text;
  }
  // A results file with a record of `impl` with that verdict.
  void write_results(const std::string& name, const std::string& impl, const std::string& verdict,
                     const std::string& code) const {
    if (!std::filesystem::exists(folder_ / "ran.jsonl")) {
      const Outcome ran = attest(
          "repro --impl flash_cpu --judge-only --relations none --fill random "
          "'softmax seq_len_q=61 head_dim=16' -o ran.jsonl");
      EXPECT_EQ(ran.code, 0) << ran.text;
    }
    rewrite_records("ran.jsonl", name, [&](nlohmann::json& record) {
      record["impl"] = impl;
      record["verdict"] = verdict;
      record["code"] = code;
    });
  }
};

}  // namespace attest::testing
