// attest capture and replay as a user meets them: what was run once is run again, bit for bit, from
// files alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/vectors/testing/files_by_hand.hpp"
#include "testing/folder_test.hpp"

namespace attest::cli {
namespace {

using attest::testing::Outcome;
using nlohmann::json;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class CaptureCommand : public testing::FolderTest {
 protected:
  /// The fills of naive's record in a results file; null where it has none.
  json fills(const std::string& file) const {
    for (const json& record : results(file))
      if (record["impl"] == "naive") return record["fills"];
    return nullptr;
  }
  /// The same inputs and the same outputs, to the last bit, although they came from files.
  void expect_same(const json& first, const json& second) const {
    ASSERT_EQ(first.size(), 1u) << first;
    ASSERT_EQ(second.size(), 1u) << second;
    EXPECT_EQ(first[0]["inputs_hash"], second[0]["inputs_hash"]);
    EXPECT_EQ(first[0]["outputs_hash"], second[0]["outputs_hash"]);
    EXPECT_EQ(first[0]["judgement"]["verdict"], "pass");
    EXPECT_EQ(second[0]["judgement"]["verdict"], "pass");
  }
  /// A dump of q, k, v and o, [1, 1, 2, 2]: two keys, the second query sees both alike, the first
  /// too unless causal.
  void save_dump(const std::string& name, float first) const {
    std::string header = "{", data;
    const std::map<std::string, std::vector<float>> tensors{{"q", {0, 0, 0, 0}},
                                                            {"k", {1, 2, 3, 4}},
                                                            {"v", {1, 2, 3, 4}},
                                                            {"o", {first, first + 1, 2, 3}}};
    for (const auto& [tensor, values] : tensors) {
      header += (data.empty() ? "\"" : ",\"") + tensor +
                R"(":{"dtype":"F32","shape":[1,1,2,2],"data_offsets":[)" +
                std::to_string(data.size()) + "," + std::to_string(data.size() + 16) + "]}";
      data += core::packed_values<float>(values);
    }
    std::ofstream(folder_ / name, std::ios::binary) << core::safetensors_file(header + "}", data);
  }
};

TEST_F(CaptureCommand, AProblemIsRunAgainBitForBit) {
  for (const char* spec : {"softmax dtype=f16 num_heads=2 seq_len_q=9 head_dim=8 q.order=0213 "
                           "o.order=0213 bias=f32[1,1,9,9] lse",
                           "softmax batch=3 num_heads=2 seq_len_q=6 head_dim=8 cu_seqlens_q "
                           "cu_seqlens_kv window_right=0",
                           "softmax dtype=bf16 batch=2 num_heads=2 seq_len_q=1 seq_len_kv=21 "
                           "head_dim=8 page_size=4 page_table seq_lens_kv"}) {
    SCOPED_TRACE(spec);
    const std::string options = " --impl naive --threads 1 --relations none ";
    ASSERT_EQ(attest(std::string("repro '") + spec +
                     "' --fill random --judge-only -o first.jsonl --overwrite" + options)
                  .code,
              0);
    const Outcome captured =
        attest(std::string("capture --spec '") + spec + "' --fill random -o kept");
    ASSERT_EQ(captured.code, 0) << captured.text;
    EXPECT_THAT(captured.text, HasSubstr("1 captured; attest replay kept judges them"));
    const Outcome replayed = attest("replay kept -o second.jsonl --overwrite" + options);
    EXPECT_EQ(replayed.code, 0) << replayed.text;
    EXPECT_THAT(replayed.text, HasSubstr("reference      1 pass"));
    expect_same(fills("first.jsonl"), fills("second.jsonl"));
    fs::remove_all(folder_ / "kept");
  }
}

TEST_F(CaptureCommand, ACaseOfASuiteWithItsTokens) {
  const std::string options = " --threads 1 --relations none ";
  ASSERT_EQ(attest("run smoke --case softmax/image_tokens --dtype f32 --fill tokens --judge-only "
                   "--impl naive -o first.jsonl --overwrite" +
                   options)
                .code,
            0);
  ASSERT_EQ(attest("capture smoke --case softmax/image_tokens --dtype f32 -o kept").code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "kept/smoke/softmax/image_tokens/f32/tokens/case.json"));
  ASSERT_EQ(attest("replay kept --impl naive -o second.jsonl --overwrite" + options).code, 0);
  expect_same(fills("first.jsonl"), fills("second.jsonl"));
}

TEST_F(CaptureCommand, AVectorOfOthers) {
  save_dump("dump.safetensors", 2);
  std::ofstream(folder_ / "case.json") << R"({"tolerance": 1e-6, "tensors": {
             "q": "dump.safetensors:q", "k": "dump.safetensors:k",
             "v": "dump.safetensors:v", "o": "dump.safetensors:o"}})";
  const std::string options = " --impl naive --threads 1 --relations none ";
  const Outcome direct = attest("run --vectors case.json -o first.jsonl --overwrite" + options);
  ASSERT_EQ(direct.code, 0) << direct.text;
  ASSERT_EQ(attest("capture --vectors case.json -o kept").code, 0);
  const Outcome replayed = attest("replay kept --resume second.jsonl" + options);
  EXPECT_THAT(replayed.text, HasSubstr("reference      1 pass"));
  expect_same(fills("first.jsonl"), fills("second.jsonl"));
  EXPECT_THAT(attest("replay kept --resume second.jsonl" + options).text,
              HasSubstr("2 records of second.jsonl are kept"));
  const Outcome again = attest("capture --vectors case.json -o kept");
  EXPECT_EQ(again.code, 64);
  EXPECT_THAT(again.text, HasSubstr("holds a case already"));
}

// What torch or numpy saved is judged by one command.
TEST_F(CaptureCommand, ADumpNeedsNoDescription) {
  save_dump("dump.safetensors", 2);
  const Outcome good =
      attest("run --vectors dump.safetensors --impl naive --threads 1 -o r.jsonl --overwrite");
  EXPECT_EQ(good.code, 0) << good.text;
  EXPECT_THAT(good.text, HasSubstr("given          1 pass"));
  EXPECT_THAT(good.text, HasSubstr("naive          1 pass"));
  const Outcome causal = attest(
      "run --vectors dump.safetensors --params causal --impl naive --threads 1 -o r.jsonl "
      "--overwrite");
  EXPECT_EQ(causal.code, 1);
  EXPECT_THAT(causal.text, HasSubstr("given          1 fail"));
  const Outcome dry =
      attest("run --vectors dump.safetensors --params causal --impl naive --threads 1 --dry-run");
  EXPECT_EQ(dry.code, 0) << dry.text;
  EXPECT_THAT(dry.text, HasSubstr("\n  given           be judged\n  naive           run "));
  std::ifstream in(folder_ / "r.jsonl");
  std::string all((std::istreambuf_iterator<char>(in)), {});
  EXPECT_THAT(all, HasSubstr("attest run --vectors dump.safetensors --case dump --params causal"));
  save_dump("dump.safetensors", 1);
  EXPECT_EQ(attest("replay dump.safetensors --params causal --impl naive").code, 0);
  // What a file by itself lacks goes with it.
  ASSERT_EQ(attest("capture --vectors dump.safetensors --params causal -o kept").code, 0);
  EXPECT_EQ(attest("replay kept --impl naive").code, 0);
  EXPECT_EQ(attest("capture smoke --params causal -o kept2").code, 64);
}

TEST_F(CaptureCommand, SaysWhatMakesNoSense) {
  save_dump("dump.safetensors", 2);
  fs::create_directories(folder_ / "all/a");
  std::ofstream(folder_ / "all/a/case.json") << R"({"operation":"hyena","tensors":{}})";
  for (const auto& [arguments, words] :
       {std::pair("capture -o kept", "name suites, or --vectors, or --spec"),
        std::pair("capture smoke --spec softmax -o kept", "one of them"),
        std::pair("capture smoke --fill codebok -o kept", "--fill codebok: matches none of"),
        std::pair("capture --vectors all -o kept", "all/a: not captured: operation 'hyena'"),
        std::pair("replay nowhere", "nowhere: no such folder"),
        std::pair("replay all --params causal", "is for .safetensors and .npz files alone"),
        std::pair("run smoke --params causal", "--params goes with --vectors")}) {
    const Outcome outcome = attest(arguments);
    EXPECT_EQ(outcome.code, 64) << arguments;
    EXPECT_THAT(outcome.text, HasSubstr(words)) << arguments;
  }
}

}  // namespace
}  // namespace attest::cli
