// attest run --vectors as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/vectors/testing/files_by_hand.hpp"
#include "testing/folder_test.hpp"
#include "testing/shared_data.hpp"

namespace attest::cli {
namespace {

using attest::testing::Outcome;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class RunVectors : public testing::FolderTest {
 protected:
  Outcome run(const std::string& arguments) const {
    return testing::run_attest(folder_, "run --impl naive " + arguments);
  }
  void write(const std::string& name, const std::string& bytes) const {
    core::write_file(folder_ / name, bytes);
  }
  /// Two keys of equal score: the output is the mean of (1, 2) and (3, 4), or what it is said to
  /// be.
  void write_case(const std::string& name, float said,
                  const std::string& more = "\"tolerance\":1e-6,") const {
    const std::string tensors = R"({"q":{"dtype":"F32","shape":[1,1,1,2],"data_offsets":[0,8]},)"
                                R"("v":{"dtype":"F32","shape":[1,1,2,2],"data_offsets":[8,24]},)"
                                R"("o":{"dtype":"F32","shape":[1,1,1,2],"data_offsets":[24,32]}})";
    write(name + "/t.safetensors",
          core::safetensors_file(tensors, core::packed_values<float>({0, 0, 1, 2, 3, 4, 2, said})));
    write(name + "/case.json",
          "{" + more + R"("tensors":{"q":"t.safetensors:q","k":"t.safetensors:v",
                          "v":"t.safetensors:v","o":"t.safetensors:o"}})");
  }
};

TEST_F(RunVectors, PassesNamesAndCounts) {
  write_case("all/good", 3);
  write_case("all/unknown", 3, "\"operation\":\"hyena\",");
  const Outcome outcome = run("--vectors all/ --threads 2 -o results.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text,
              HasSubstr("unsupported vectors:\n     1 x operation 'hyena' (all/unknown)\n"));
  EXPECT_THAT(outcome.text, HasSubstr("reference      1 pass, 1 unsupported"));
  EXPECT_THAT(outcome.text, HasSubstr("naive          1 pass"));
  std::ifstream in(folder_ / "results.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 5u);  // header, reference, naive; the unknown one; the end
  EXPECT_EQ(lines[1]["impl"], "reference");
  EXPECT_EQ(lines[2]["repro"], "attest run --vectors all --case good --impl naive --threads 2");
  EXPECT_EQ(lines[3]["code"], "unsupported:vector");
}

// Counts of what passes, so that an implementation that begins to refuse vectors is seen too.
TEST_F(RunVectors, NobodyFailsTheOpenVectors) {
  fs::create_directories(folder_);
  const fs::path data = shared_data(ATTEST_SOURCE_DIR);
  std::string arguments =
      "run --impl naive,flash_cpu,window_cpu,linear_cpu,naive_deformable,deformable_cpu "
      "--judge-only --relations none -o results.jsonl";
  for (const char* name : {"onnx", "onnx_window", "onnx_layers", "upstream"}) {
    ATTEST_SKIP_WITHOUT(data / name);
    arguments += " --vectors '" + (data / name).string() + "'";
  }
  const Outcome outcome = testing::run_attest(folder_, arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  std::map<std::string, int> passes;
  std::ifstream in(folder_ / "results.jsonl");
  for (std::string text; std::getline(in, text);) {
    const nlohmann::json line = nlohmann::json::parse(text);
    if (line["type"] != "result") continue;
    passes[line["impl"]] += line["verdict"] == "pass";
    EXPECT_TRUE(line["verdict"] == "pass" || line["verdict"] == "unsupported") << text;
  }
  EXPECT_EQ(passes, (std::map<std::string, int>{{"reference", 114},
                                                {"naive", 90},
                                                {"flash_cpu", 90},
                                                {"window_cpu", 24},
                                                {"linear_cpu", 1},
                                                {"naive_deformable", 2},
                                                {"deformable_cpu", 2}}));
}

// Implementations of deformable attention are judged on the inputs of others, too: a bug fails.
TEST_F(RunVectors, OfDeformableAttentionShowABug) {
  const fs::path data = shared_data(ATTEST_SOURCE_DIR) / "upstream";
  ATTEST_SKIP_WITHOUT(data);
  const Outcome outcome = testing::run_attest(
      folder_, "run --plugin " ATTEST_BINARY_DIR
               "/tests/plugins/mutants.so --impl 'mutant_deformable_*' --judge-only "
               "--relations none -o r.jsonl --case 'msda_*' --vectors '" +
                   data.string() + "'");
  EXPECT_EQ(outcome.code, 1) << outcome.text;
  std::map<std::string, std::set<std::string>> verdicts;
  for (const nlohmann::json& record : results("r.jsonl"))
    verdicts[record["impl"]].insert(record["verdict"].get<std::string>());
  EXPECT_EQ(verdicts["reference"], std::set<std::string>{"pass"});
  EXPECT_EQ(verdicts["mutant_deformable_none"], std::set<std::string>{"pass"});
  for (const char* bug : {"swapped_xy", "other_corners", "no_half_pixel", "next_weight"})
    EXPECT_EQ(verdicts["mutant_deformable_" + std::string(bug)], std::set<std::string>{"fail"})
        << bug;
}

// A line of a record can be given to the shell again.
TEST_F(RunVectors, CommandNamesEachFolderWithItsOption) {
  write_case("a/deep/good", 3);
  write_case("b c/good", 3);
  ASSERT_EQ(run("--vectors a/deep --vectors \"$PWD/b c\" --relations none -o results.jsonl").code,
            0);
  std::ifstream in(folder_ / "results.jsonl");
  std::string header, reference, naive;
  std::getline(in, header);
  std::getline(in, reference);
  std::getline(in, naive);
  EXPECT_THAT(
      header,
      HasSubstr("--vectors a/deep --vectors 'b c'"));  // of an absolute path no folder of its maker
  EXPECT_THAT(header, HasSubstr("--relations none"));
  const std::string repro = nlohmann::json::parse(naive)["repro"];
  EXPECT_EQ(repro.substr(0, 46), "attest run --vectors a/deep --case good --impl");
  EXPECT_EQ(testing::run_attest(folder_, repro.substr(repro.find(' ') + 1)).code, 0) << repro;
}

TEST_F(RunVectors, LongListsOfNamesAreCut) {
  for (int n = 0; n < 24; ++n) write_case("many/case" + std::to_string(n), 3);
  EXPECT_THAT(run("--vectors many --case x").text, HasSubstr(" and 4 more"));
}

TEST_F(RunVectors, AWrongVectorBlamesNoImplementation) {
  write_case("all/wrong", 3.5f);
  const Outcome outcome = run("--vectors all");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.text, HasSubstr("o[0,0,0,1] is 3.5 in the vector, 3 in the reference"));
  EXPECT_THAT(outcome.text, HasSubstr("naive          1 pass"));
}

TEST_F(RunVectors, ADumpIsJudgedWithOneCommand) {
  write_case("all/dump", 3, "");
  EXPECT_EQ(run("--vectors all/dump/case.json").code, 0);
  write_case("all/dump", 3.001f, "");
  const Outcome outcome = run("--vectors all/dump/case.json");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.text, HasSubstr("given          1 fail"));
}

TEST_F(RunVectors, ADamagedOneDoesNotEndTheOthers) {
  write_case("all/a", 3);
  write("all/a/t.safetensors", "short");
  write_case("all/b", 3);
  write("all/c/case.json", R"({"tensors":)");
  const Outcome outcome = run("--vectors all");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.text, HasSubstr("too short for a safetensors file"));
  EXPECT_THAT(outcome.text, HasSubstr("all/c/case.json: line 1"));
  EXPECT_THAT(outcome.text, HasSubstr("reference      1 pass, 2 error"));
  EXPECT_EQ(run("--vectors all/c/case.json").code, 64);
}

TEST_F(RunVectors, SaysWhatMakesNoSense) {
  write_case("all/a", 3);
  fs::create_directories(folder_ / "empty");
  for (const char* arguments :
       {"--vectors nowhere", "--vectors empty", "--vectors all --case 'b*'"})
    EXPECT_EQ(run(arguments).code, 64) << arguments;
  EXPECT_THAT(run("--vectors empty").text, HasSubstr("has no vectors"));
  write("loose/a.npz", "");
  write_case("b/all/a", 3);
  EXPECT_THAT(run("--vectors loose").text, HasSubstr("name a file in it: loose/a.npz"));
  EXPECT_THAT(run("--vectors all --vectors b/all").text,
              HasSubstr("all/a/case.json and b/all/a/case.json are both called all/a: judge one "
                        "after the other"));
  EXPECT_EQ(run("--vectors all --vectors b/all").code, 64);
  write("dump.safetensors", "whatever it holds");
  for (const auto& [words, message] :
       {std::pair("--params casual", "--params: softmax has no 'casual', did you mean 'causal'?"),
        std::pair("--params causal=3", "--params: causal stands alone"),
        std::pair("--params sofcap=3",
                  "--params: softmax has no 'sofcap', did you mean 'softcap'?"),
        std::pair("--operation linear --params softcap=3", "--params: linear has no 'softcap'"),
        std::pair("--operation liner", "did you mean 'linear'?"),
        std::pair("--layout sbhd", "--layout: 'sbhd' where bhsd or bshd is right"),
        std::pair("--arithmetic prob=f17", "--arithmetic: 'prob=f17': the dtype must be")}) {
    const Outcome outcome = run(std::string("--vectors dump.safetensors ") + words);
    EXPECT_EQ(outcome.code, 64) << words;
    EXPECT_THAT(outcome.text, HasSubstr(message));
  }
  EXPECT_THAT(run("--vectors all --case 'b*'").text, HasSubstr("matches none of"));
}

TEST_F(RunVectors, AreTimedWhereThatIsAskedFor) {
  write_case("all/good", 3);
  for (const char* command : {"run --vectors all --budget 0.02", "replay all"}) {
    const Outcome outcome = testing::run_attest(
        folder_, std::string(command) + " --impl naive --time --overwrite -o r.jsonl");
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    std::ifstream in(folder_ / "r.jsonl");
    size_t timed = 0;
    for (std::string text; std::getline(in, text);) {
      const nlohmann::json line = nlohmann::json::parse(text);
      timed += line["type"] == "result" && line["impl"] == "naive" && line.contains("time");
    }
    EXPECT_EQ(timed, 1u) << command;
  }
  testing::run_attest(folder_, "replay all --impl naive --overwrite -o r.jsonl");
  std::ifstream in(folder_ / "r.jsonl");
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(in), {}), Not(HasSubstr("median_ns")));
}

/// A file of q, k, v and o, of two rows of two channels each.
std::string four_tensors(const std::string& shape, const std::vector<float>& values) {
  std::string header;
  for (const auto& [name, begin] :
       {std::pair("q", 0), std::pair("k", 16), std::pair("v", 32), std::pair("o", 48)})
    header += std::string(header.empty() ? "{" : ",") + '"' + name +
              R"(":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":[)" +
              std::to_string(begin) + "," + std::to_string(begin + 16) + "]}";
  return core::safetensors_file(header + "}", core::packed_values<float>(values));
}

// A description that does not fit is found by trying others.
TEST_F(RunVectors, SayWhatTheirDescriptionLacks) {
  // The first query sees the first key alone.
  write("causal.safetensors", four_tensors("[1,1,2,2]", {0, 0, 0, 0, 0, 0, 0, 0,  //
                                                         1, 2, 3, 4, 1, 2, 2, 3}));
  EXPECT_THAT(run("--vectors causal.safetensors").text,
              HasSubstr(" it would pass with --params causal\n"));
  EXPECT_THAT(run("--vectors causal.safetensors --params causal").text,
              Not(HasSubstr("it would pass")));
  write("causal.json", R"({"params": {"softcap": 9}, "tensors": {"q": "causal.safetensors:q",
      "k": "causal.safetensors:k", "v": "causal.safetensors:v", "o": "causal.safetensors:o"}})");
  EXPECT_THAT(run("--vectors causal.json").text,
              HasSubstr(R"( it would pass with "params": "softcap=9 causal" in causal.json)"));
  // Two tokens of one head, which [batch, heads, tokens, dim] takes for two heads of one token.
  write("turned.safetensors", four_tensors("[1,2,1,2]", {0, 0, 0, 0, 0, 0, 0, 0,  //
                                                         1, 2, 3, 4, 2, 3, 2, 3}));
  EXPECT_THAT(run("--vectors turned.safetensors").text,
              HasSubstr(" it would pass with --layout bshd\n"));
  // The weights are e^4 to 1.
  write("scaled.safetensors",
        four_tensors("[1,1,2,2]", {2, 0, 0, 2, 2, 0, 0, 2, 1, 2, 3, 4,  //
                                   1.0359724f, 2.0359724f, 2.9640276f, 3.9640276f}));
  EXPECT_THAT(run("--vectors scaled.safetensors").text,
              HasSubstr(" it is as if softmax_scale were 1\n"));
}

// Options of suites are refused by name or do what they say: none is passed over in silence.
TEST_F(RunVectors, OptionsAreHeededOrRefused) {
  write_case("all/a", 3);
  for (const char* option :
       {"--fill codebook", "--dtype f16", "--quick", "--budget 1", "--tokens a.pcd"}) {
    const Outcome outcome = run(std::string("--vectors all ") + option);
    EXPECT_EQ(outcome.code, 64) << option;
    EXPECT_THAT(outcome.text,
                HasSubstr(std::string(option).substr(0, std::string(option).find(' ')) +
                          " cannot be given with"));
  }
  EXPECT_THAT(run("--vectors all default").text, HasSubstr("suites cannot be given with"));
  EXPECT_THAT(run("--time").text, HasSubstr("--time goes with --vectors"));
  EXPECT_EQ(run("--vectors all --time --judge-only").code, 64);
  EXPECT_EQ(run("--vectors all --judge-only -o r.jsonl").code, 0);  // as they are judged anyway
  std::ifstream in(folder_ / "r.jsonl");
  for (std::string line; std::getline(in, line);)
    EXPECT_FALSE(nlohmann::json::parse(line).contains("time")) << line;
}

TEST_F(RunVectors, WhatTakesLongerThanTheCaseLimitIsSkipped) {
  const std::string shape = R"({"dtype":"F32","shape":[1,1,4096,64],"data_offsets":[0,1048576]})";
  write("big/q.safetensors",
        core::safetensors_file(R"({"q":)" + shape + "}", std::string(1048576, '\0')));
  write("big/case.json",
        R"({"tensors":{"q":"q.safetensors","k":"q.safetensors","v":"q.safetensors"}})");
  const Outcome outcome = run("--vectors big --case-limit 0.01 --threads 1");
  EXPECT_THAT(outcome.text, HasSubstr("the limit is 0.01 s for 4 runs"));
  EXPECT_THAT(outcome.text, HasSubstr("naive          1 skipped"));
}

// What was judged stays; what was lost is judged again, in its place; files that changed make
// another run.
TEST_F(RunVectors, GoesOnWithARunThatWasCutShort) {
  for (const char* name : {"all/a", "all/b", "all/c"}) write_case(name, 3);
  write_case("all/d", 3, "\"operation\":\"hyena\",");
  const auto lines = [&] {
    std::ifstream in(folder_ / "r.jsonl");
    std::vector<std::string> found;
    for (std::string line; std::getline(in, line);) found.push_back(line);
    return found;
  };
  ASSERT_EQ(run("--vectors all --resume r.jsonl").code, 0);
  const std::vector<std::string> whole = lines();
  ASSERT_EQ(whole.size(), 9u);  // header, three times reference and naive, the unknown one, the end
  {
    std::ofstream cut(folder_ / "r.jsonl", std::ios::trunc);
    for (size_t i = 0; i < 4; ++i) cut << whole[i] << '\n';
    cut << whole[4].substr(0, 40);  // torn
  }
  const Outcome again = run("--vectors all --resume r.jsonl");
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_THAT(again.text, HasSubstr("3 records of r.jsonl are kept"));
  EXPECT_THAT(again.text, HasSubstr("reference      3 pass, 1 unsupported"));
  EXPECT_THAT(again.text, HasSubstr("naive          3 pass"));
  const std::vector<std::string> now = lines();
  ASSERT_EQ(now.size(), 10u);  // and the line that says where it went on
  EXPECT_TRUE(std::equal(whole.begin(), whole.begin() + 4, now.begin()))
      << "kept records were written again";
  for (size_t i = 4; i < 8; ++i) {
    const auto first = nlohmann::json::parse(whole[i]), second = nlohmann::json::parse(now[i + 1]);
    for (const char* key : {"case", "impl", "verdict"}) EXPECT_EQ(first[key], second[key]) << i;
  }
  EXPECT_THAT(run("--vectors all --resume r.jsonl").text,
              HasSubstr("7 records of r.jsonl are kept, and it is complete"));
  EXPECT_EQ(lines().size(), 10u);
  EXPECT_THAT(run("--vectors all --case a --resume r.jsonl").text, HasSubstr("another run: cases"));
  write_case("all/b", 4);
  const Outcome changed = run("--vectors all --resume r.jsonl");
  EXPECT_EQ(changed.code, 64);
  EXPECT_THAT(changed.text, HasSubstr("another run: vectors"));
}

TEST_F(RunVectors, TableIsAReport) {
  write_case("all/good", 3);
  write_case("all/unknown", 3, "\"operation\":\"hyena\",");
  const Outcome outcome = run("--vectors all --table verdicts.md");
  EXPECT_THAT(outcome.text, HasSubstr("table: verdicts.md"));
  std::stringstream text;
  text << std::ifstream(folder_ / "verdicts.md").rdbuf();
  EXPECT_THAT(text.str(), ::testing::ContainsRegex(
                              ": attest [^ ]*, commit [^ ]+, on .* with [0-9]+ threads, "));
  EXPECT_THAT(text.str(), HasSubstr("| case | dtype | reference | naive |\n"));
  EXPECT_THAT(text.str(), ::testing::ContainsRegex("good . f32 . pass [^|]*. pass"));
  EXPECT_THAT(text.str(), HasSubstr("| unknown |  | unsupported: operation 'hyena' |  |\n"));
  EXPECT_EQ(run("--vectors all --table nowhere/verdicts.md").code, 4);
}

}  // namespace
}  // namespace attest::cli
