// Files of tensors without a description: what they are follows from the names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/inputs/testing/file_bytes.hpp"
#include "core/vectors/read_vectors.hpp"
#include "core/vectors/testing/files_by_hand.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Dump : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  static std::vector<int64_t> dims_of(const std::string& name) {
    if (name == "lse") return {1, 2, 3};
    if (name == "bias" || name == "dbias") return {2, 2};
    return {1, 2, 3, 4};
  }
  /// Tensors of zeros.
  void save(const std::vector<std::string>& names, const std::string& dtype = "F32") const {
    std::string header, data;
    for (const std::string& name : names) {
      const size_t begin = data.size();
      size_t count = 1;
      std::string shape;
      for (const int64_t dim : dims_of(name)) {
        count *= size_t(dim);
        shape += (shape.empty() ? "" : ",") + std::to_string(dim);
      }
      data += std::string(count * (dtype == "F32" ? 4 : 2), '\0');
      header += (header.empty() ? "{\"" : ",\"") + name + "\":{\"dtype\":\"" + dtype +
                "\",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(begin) + "," +
                std::to_string(data.size()) + "]}";
    }
    std::ofstream(folder_ / "dump.safetensors", std::ios::binary)
        << safetensors_file((header.empty() ? "{" : header) + "}", data);
  }
  TestVector read(std::map<std::string, std::string> words = {}) const {
    VectorPlace place = find_vectors(folder_ / "dump.safetensors").at(0);
    place.words = std::move(words);
    return read_vector(place);
  }

  const fs::path folder_ =
      fs::path(::testing::TempDir()) /
      (std::string("dump_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(Dump, NamesSayWhatTheTensorsAre) {
  for (const auto& names : {std::vector<std::string>{"q", "k", "v", "o"},
                            {"query", "key", "value", "out"},
                            {"v", "k", "output", "q"}}) {
    save(names, "BF16");
    const TestVector vector = read();
    EXPECT_EQ(vector.name, "dump");
    EXPECT_EQ(vector.problem->dtype, ATTEST_BF16);
    EXPECT_EQ(vector.problem->as<attest_softmax_params>().num_heads, 2);
    ASSERT_EQ(vector.outputs.size(), 1u);
    EXPECT_TRUE(vector.arithmetic.has_value());  // judged, no authority
  }
}

TEST_F(Dump, WordsSayTheRest) {
  save({"q", "k", "v", "o"});
  const TestVector vector = read({{"params", "causal=bottom_right softcap=30 window_left=1k"},
                                  {"layout", "bshd"},
                                  {"arithmetic", "prob=bf16"}});
  const auto& p = vector.problem->as<attest_softmax_params>();
  EXPECT_EQ(p.num_heads, 3);
  EXPECT_EQ(p.seq_len_q, 2);
  EXPECT_EQ(p.window_right, 0);
  EXPECT_EQ(p.diagonal, 1);
  EXPECT_EQ(p.softcap, 30);
  EXPECT_EQ(p.window_left, 1024);
  EXPECT_EQ(vector.arithmetic->stage[ATTEST_SOFTMAX_PROBABILITY].dtype, ATTEST_BF16);
}

// Linear attention has parameters that softmax attention lacks, and the other way round.
TEST_F(Dump, ParametersAreThoseOfTheOperationThatIsNamed) {
  save({"q", "k", "v", "o"});
  const std::map<std::string, std::string> linear{{"operation", "linear"}, {"params", "eps=0.5"}};
  EXPECT_NO_THROW(check_words(linear));
  EXPECT_EQ(read(linear).problem->as<attest_linear_params>().eps, 0.5f);
  EXPECT_THAT(error_of([] { check_words({{"params", "eps=0.5"}}); }),
              HasSubstr("--params: softmax has no 'eps'"));
  EXPECT_THAT(error_of([] { check_words({{"operation", "linear"}, {"params", "softcap=3"}}); }),
              HasSubstr("--params: linear has no 'softcap'"));
}

// O is an input of gradients. Outputs are judged together, or inputs are given alone.
TEST_F(Dump, GradientsAreAllThereOrNoneIs) {
  const std::map<std::string, std::string> gradients{{"operation", "softmax_backward"}};
  save({"q", "k", "v", "o", "lse", "do", "dq", "dk", "dv"});
  EXPECT_EQ(read(gradients).outputs.size(), 3u);
  EXPECT_TRUE(read(gradients).arithmetic.has_value());
  save({"q", "k", "v", "o", "lse", "do"});
  EXPECT_FALSE(read(gradients).arithmetic.has_value());
  save({"q", "k", "v", "o", "lse", "do", "dq", "dk"});
  EXPECT_THAT(error_of([&] { read(gradients); }),
              HasSubstr("tensors: 'dv' is missing; outputs are judged together"));
  save({"q", "k", "v", "lse"});
  EXPECT_THAT(error_of([&] { read(); }), HasSubstr("tensors: 'o' is missing"));
}

// O, LSE and DO are inputs of gradients, and follow the layout as Q does. A bias and its
// gradient have no tokens by heads, and may leave out dims on the left.
TEST_F(Dump, LayoutOfGradients) {
  save({"q", "k", "v", "o", "lse", "do", "bias", "dq", "dk", "dv", "dbias"});
  const TestVector vector = read({{"operation", "softmax_backward"}, {"layout", "bshd"}});
  const auto& tensors = vector.problem->tensor;
  for (const int32_t role :
       {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O, ATTEST_DO, ATTEST_DQ, ATTEST_DK, ATTEST_DV})
    EXPECT_THAT(dims(tensors[size_t(role)]), ElementsAre(1, 3, 2, 4)) << role;
  EXPECT_THAT(dims(tensors[ATTEST_LSE]), ElementsAre(1, 3, 2));
  for (const int32_t role : {ATTEST_BIAS, ATTEST_DBIAS})
    EXPECT_THAT(dims(tensors[size_t(role)]), ElementsAre(1, 1, 2, 2)) << role;
}

TEST_F(Dump, AFileWithoutTensorsIsRefused) {
  save({});
  EXPECT_THAT(error_of([&] { read(); }), HasSubstr("dump.safetensors: has no tensors"));
}

TEST_F(Dump, WhatIsNotKnownIsNamed) {
  const auto refusal = [&](std::map<std::string, std::string> words = {}) {
    return error_of([&] { read(words); });
  };
  save({"quarry", "k", "v"});
  EXPECT_THAT(refusal(), HasSubstr("softmax has no tensor 'quarry'"));
  save({"q", "query", "k", "v"});
  EXPECT_THAT(refusal(), HasSubstr("q is there twice"));
  save({"k", "v"});
  EXPECT_THAT(refusal(), HasSubstr("softmax needs a tensor 'q'"));
  save({"q", "k", "v"});
  EXPECT_THAT(refusal({{"params", "causal=left"}}),
              HasSubstr("causal stands alone, or is top_left or bottom_right, not 'left'"));
  EXPECT_THAT(refusal({{"params", "causal="}}), HasSubstr("not ''"));
  for (const char* twice :
       {"causal window_right=3", "causal causal=bottom_right", "window_right=3 window_right=3"})
    EXPECT_THAT(refusal({{"params", twice}}), HasSubstr("params: window_right is set twice"))
        << twice;
  EXPECT_THAT(refusal({{"params", "window_rihgt=0"}}), HasSubstr("did you mean 'window_right'?"));
  EXPECT_THAT(refusal({{"params", "scale="}}),
              HasSubstr("softmax has no 'scale', did you mean 'softmax_scale'?"));
  EXPECT_THAT(refusal({{"params", "window_left="}}),
              HasSubstr("'window_left=': a value must follow: window_left=NUMBER"));
  EXPECT_THAT(refusal({{"params", "softcap"}}),
              HasSubstr("'softcap': a value must follow: softcap=NUMBER"));
  EXPECT_THAT(refusal({{"params", "head_dim=64.5"}}),
              HasSubstr("'head_dim=64.5': must be a whole number, or one with k"));
  EXPECT_THAT(refusal({{"params", "diagonal=4096m"}}), HasSubstr("must be a whole number"));
  EXPECT_THAT(refusal({{"params", "softcap=1m"}}), HasSubstr("'softcap=1m': must be a number"));
  EXPECT_THAT(refusal({{"layout", "sbhd"}}), HasSubstr("bhsd or bshd"));
  EXPECT_THAT(error_of([&] { find_vectors(folder_ / "dump.pt"); }), HasSubstr("no such folder"));
}

// A name that a description has made up is quoted like any foreign text.
TEST_F(Dump, FilesThatAreNotThereAreNamedInOneLine) {
  for (const std::string& name :
       {std::string("a\\n\\u007fb.npy"), std::string(900, 'x') + ".safetensors"}) {
    std::ofstream(folder_ / "case.json") << R"({"tensors":{"q":")" << name << R"("}})";
    const std::string message =
        error_of([&] { read_vector(find_vectors(folder_ / "case.json").at(0)); });
    EXPECT_THAT(message, HasSubstr(": no such file"));
    EXPECT_LT(message.size(), 300u);
    EXPECT_THAT(message, ::testing::Not(HasSubstr("\x7f")));
  }
}

// Masks and biases broadcast from the right, as frameworks have them; nothing else does.
TEST_F(Dump, MasksMayLackDims) {
  const std::string array =
      npy_file(npy_header("'<f4'", "(1, 2, 3, 4)"), std::string(24 * 4, '\0'));
  const auto with = [&](const std::string& name, const std::string& file) {
    std::map<std::string, std::string> files{{"q.npy", array}, {"k.npy", array}, {"v.npy", array}};
    files[name] = file;
    std::vector<ZipMember> members;
    for (const auto& [member, bytes] : files) members.push_back({member, bytes});
    std::ofstream(folder_ / "dump.npz", std::ios::binary) << zip_file(members);
    return read_vector(find_vectors(folder_ / "dump.npz").at(0));
  };
  const TestVector masked =
      with("attn_mask.npy", npy_file(npy_header("'|b1'", "(3, 3)"), std::string(9, '\1')));
  const TensorSpec& mask = masked.problem->tensor[ATTEST_MASK];
  EXPECT_EQ(std::vector<int64_t>(mask.dim, mask.dim + 4), (std::vector<int64_t>{1, 1, 3, 3}));
  EXPECT_EQ(masked.problem->features & ATTEST_WITH_MASK, uint64_t(ATTEST_WITH_MASK));
  EXPECT_THAT(error_of([&] {
                with("q.npy", npy_file(npy_header("'<f4'", "(6, 4)"), std::string(24 * 4, '\0')));
              }),
              HasSubstr("q: [6,4] where [batch, heads, tokens, dim] is right"));
  for (const char* name : {"q", "k", "v"})
    EXPECT_EQ(with(std::string(name) + ".npy",
                   npy_file(npy_header("'<i4'", "(1, 2, 3, 4)"), std::string(24 * 4, '\0')))
                  .unsupported,
              std::string(name) + " in i32");
}

// A folder whose name stands in the message by chance.
TEST_F(Dump, ErrorsBeginWithTheFile) {
  fs::create_directories(folder_ / "d");
  std::ofstream(folder_ / "d/q.npy", std::ios::binary)
      << npy_file(npy_header("'<f4'", "(1, 2, 3, 4)"), std::string(24 * 4, '\0'));
  std::ofstream(folder_ / "d/v.npy", std::ios::binary)
      << npy_file(npy_header("'<f4'", "(1, 2, 1, 4)"), std::string(8 * 4, '\0'));
  std::ofstream(folder_ / "d/case.json") << R"({"tensors":{"q":"q.npy","k":"q.npy","v":"v.npy"}})";
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  const std::string message = error_of([&] { read_vector(find_vectors("d").at(0)); });
  fs::current_path(before);
  EXPECT_THAT(message, ::testing::StartsWith("d/case.json: v: dims"));
}

TEST_F(Dump, NpzIsReadToo) {
  const std::string zeros(24 * 4, '\0'),
      array = npy_file(npy_header("'<f4'", "(1, 2, 3, 4)"), zeros);
  std::ofstream(folder_ / "dump.npz", std::ios::binary)
      << zip_file({{"q.npy", array}, {"k.npy", array, true}, {"v.npy", array}});
  const TestVector vector = read_vector(find_vectors(folder_ / "dump.npz").at(0));
  EXPECT_TRUE(bool(vector.given[ATTEST_V]));
  EXPECT_FALSE(vector.arithmetic.has_value());  // inputs alone
}

}  // namespace
}  // namespace attest::core
