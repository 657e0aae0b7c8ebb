// Cases that are written to a folder and read again: whatever a problem can be, its inputs come
// back bit for bit.
#include "core/vectors/captured/capture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/inputs/testing/file_bytes.hpp"
#include "core/problem/spec.hpp"
#include "core/vectors/read_vectors.hpp"
#include "core/vectors/testing/files_by_hand.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

class Capture : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  TestVector read() const { return read_vector(find_vectors(folder_).at(0)); }
  std::string capture(const std::string& line, const std::string& fill = "random") const {
    const Problem problem = parse_problem(line);
    const PreparedInputs inputs(problem, Fill{fill, 5}, nullptr);
    fs::remove_all(folder_);
    capture_case(problem, inputs, "a test", folder_);
    return inputs.hash();
  }
  json description() const {
    std::stringstream text;
    text << std::ifstream(folder_ / "case.json").rdbuf();
    return json::parse(text.str());
  }
  void change(const std::string& key, const json& value) const {
    json changed = description();
    changed[key] = value;
    std::ofstream(folder_ / "case.json") << changed;
  }

  const fs::path folder_ =
      fs::path(::testing::TempDir()) /
      (std::string("capture_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

// Strides, orders, broadcast dims, mixed dtypes, packed sequences, pages, patches, grids, other
// operations.
TEST_F(Capture, EveryKindOfProblemComesBackBitForBit) {
  const char* kLines[] = {
      "softmax dtype=f16 num_heads=2 seq_len_q=7 head_dim=8 q.order=0213 k.order=2013 o.order=0213 "
      "lse",
      "softmax dtype=bf16 num_heads=2 seq_len_q=5 head_dim=8 q.strides=[0,100,16,2] unaligned",
      "softmax num_heads=4 num_kv_heads=2 batch=2 seq_len_q=5 seq_len_kv=9 head_dim=8 head_dim_v=4 "
      "mask=[2,1,1,9] "
      "causal=bottom_right",
      "softmax dtype=f16 num_heads=2 seq_len_q=6 head_dim=8 bias=f32[1,1,6,6] v=bf16 softcap=2.5 "
      "o=f32",
      "softmax batch=3 num_heads=2 seq_len_q=6 head_dim=8 cu_seqlens_q cu_seqlens_kv lse",
      "softmax batch=2 num_heads=2 seq_len_q=1 seq_len_kv=21 head_dim=8 page_size=4 page_table "
      "seq_lens_kv",
      "softmax num_heads=2 seq_len_q=40 head_dim=8 patch_size=16 order",
      "softmax num_heads=2 seq_len_q=24 head_dim=8 grid_height=6 grid_width=4 window_height=3 "
      "window_width=2 shift_y=1 rel_bias",
      "softmax dtype=f64 num_heads=2 seq_len_q=6 head_dim=8 alibi_slopes=[1,2]",
      "linear batch=2 num_heads=2 seq_len_q=6 head_dim=8 mask query_mask"};
  for (const char* line : kLines) {
    SCOPED_TRACE(line);
    const std::string hash = capture(line);
    const TestVector back = read();
    ASSERT_EQ(back.unsupported, "");
    EXPECT_EQ(*back.problem, parse_problem(line));
    PreparedInputs inputs(*back.problem, back.given);
    EXPECT_EQ(inputs.hash(), hash);
    EXPECT_FALSE(back.outputs.empty());
    for (const VectorOutput& output : back.outputs)
      EXPECT_EQ(output.expected.spec.dtype, ATTEST_F64);
  }
}

TEST_F(Capture, BitsOfNanAndDenormalsStay) {
  const Problem problem =
      parse_problem("softmax dtype=f16 num_heads=1 seq_len_q=1 seq_len_kv=2 head_dim=2");
  uint16_t q[] = {0x7e01, 0x8000}, k[] = {0x0001, 0x83ff, 0xfc00, 0x7c00},
           v[] = {0x3c00, 0x4000, 0x7fff, 0xfe05};
  Tensors given{};
  for (const auto& [role, data] :
       {std::pair(int(ATTEST_Q), q), std::pair(int(ATTEST_K), k), std::pair(int(ATTEST_V), v)})
    given[size_t(role)] = {problem.tensor[size_t(role)], data};
  const PreparedInputs inputs(problem, given);
  capture_case(problem, inputs, "", folder_);
  const TestVector back = read();
  for (const auto& [role, data, bytes] :
       {std::tuple(int(ATTEST_Q), q, sizeof(q)), std::tuple(int(ATTEST_K), k, sizeof(k)),
        std::tuple(int(ATTEST_V), v, sizeof(v))})
    EXPECT_EQ(std::memcmp(back.given[size_t(role)].data, data, bytes), 0) << role;
}

TEST_F(Capture, LengthsInOtherIntegersAreReadAgain) {
  TestVector vector;
  vector.problem = parse_problem("softmax batch=2 num_heads=1 seq_len_q=2 head_dim=2 seq_lens_kv");
  float values[] = {1, 2, 3, 4, 5, 6, 7, 8};
  int64_t lengths[] = {1, 2};
  for (const int role : {ATTEST_Q, ATTEST_K, ATTEST_V})
    vector.given[size_t(role)] = {vector.problem->tensor[size_t(role)], values};
  TensorSpec spec = vector.problem->tensor[ATTEST_SEQ_LENS_KV];
  spec.dtype = ATTEST_I64;
  vector.given[ATTEST_SEQ_LENS_KV] = {spec, lengths};
  capture_vector(vector, folder_);
  const TestVector back = read();
  EXPECT_EQ(back.given[ATTEST_SEQ_LENS_KV].at({0}), 1);
  EXPECT_EQ(back.given[ATTEST_SEQ_LENS_KV].at({1}), 2);
}

TEST_F(Capture, TheGoldenIsThere) {
  capture("softmax num_heads=2 seq_len_q=6 seq_len_kv=6 head_dim=8 causal lse");
  const TestVector back = read();
  ASSERT_EQ(back.outputs.size(), 2u);
  EXPECT_FALSE(back.outputs[0].partial);
  // The first query sees the first key alone.
  for (int64_t d = 0; d < 8; ++d)
    EXPECT_EQ(back.outputs[0].expected.at({0, 1, 0, d}), back.given[ATTEST_V].at({0, 1, 0, d}));
  EXPECT_TRUE(std::isfinite(back.outputs[1].expected.at({0, 1, 5})));
}

TEST_F(Capture, RowsThatTheGoldenDoesNotComputeAreLeftOpen) {
  capture("softmax num_heads=1 seq_len_q=20000 head_dim=4");
  const TestVector back = read();
  ASSERT_EQ(back.outputs.size(), 1u);
  EXPECT_TRUE(back.outputs[0].partial);
  EXPECT_TRUE(std::isfinite(back.outputs[0].expected.at({0, 0, 0, 0})));
}

TEST_F(Capture, WhatWasChangedIsNamed) {
  capture("softmax num_heads=1 seq_len_q=3 head_dim=4 lse");
  const auto refusal = [&](const std::string& key, const json& value) {
    const json before = description();
    change(key, value);
    const std::string error = error_of([&] { read(); });
    std::ofstream(folder_ / "case.json") << before;
    return error;
  };
  EXPECT_EQ(error_of([&] { read(); }), "");
  EXPECT_THAT(refusal("problem", "softmax seq_len_q=3 haed_dim=4"),
              HasSubstr("problem: unknown word 'haed_dim"));
  EXPECT_THAT(refusal("problem", "softmax num_heads=1 seq_len_q=4 head_dim=4 lse"),
              HasSubstr("q: dims [1,1,3,4] where the problem has"));
  EXPECT_THAT(refusal("problem", "softmax num_heads=1 seq_len_q=3 head_dim=4"),
              HasSubstr("the problem has no tensor 'lse'"));
  EXPECT_THAT(refusal("problem", "softmax dtype=f16 num_heads=1 seq_len_q=3 head_dim=4 lse"),
              HasSubstr("q: is f32 where the problem has f16"));
  EXPECT_THAT(refusal("inputs_hash", "0123456789abcdef"), HasSubstr("they were changed"));
  EXPECT_THAT(refusal("tolerence", 1), HasSubstr("did you mean 'tolerance'?"));
  json tensors = description()["tensors"];
  tensors.erase("lse");
  EXPECT_EQ(refusal("tensors", tensors), "");  // outputs may be left out ...
  tensors.erase("k");
  EXPECT_THAT(refusal("tensors", tensors), HasSubstr("k: is not given"));  // ... inputs not
  // One bit of an input.
  std::fstream file(folder_ / "inputs.safetensors",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x01');
  file.close();
  EXPECT_THAT(error_of([&] { read(); }), HasSubstr("they were changed"));
}

// What implementations get rounded and the reference does not; outputs keep their dtype, and how
// they are judged.
TEST_F(Capture, VectorsKeepWhatWasRounded) {
  const auto write = [&](const std::string& name, const std::string& bytes) {
    fs::create_directories(folder_ / "first");
    std::ofstream(folder_ / "first" / name, std::ios::binary) << bytes;
  };
  write("q.npy", npy_file(npy_header("'<f4'", "(1, 1, 2, 2)"), packed_values<float>({1, 2, 3, 4})));
  double wide[] = {0.1, 0.2, 0.3, 0.4}, scaled[] = {1.1, 2.2, 3.3, 4.4};
  for (const char* more : {R"("tolerance":10,)", R"("arithmetic":"pv=bf16",)"}) {
    write("case.json", std::string("{") + more +
                           R"("params":"softmax_scale=0.5",)"
                           R"("tensors":{"q":"q.npy","k":"q.npy","v":"q.npy","o":"q.npy"}})");
    TestVector first = read_vector(find_vectors(folder_ / "first").at(0));
    const TensorSpec f64 = dense_tensor(ATTEST_F64, ATTEST_READ, dims(first.given[ATTEST_K].spec));
    first.given[ATTEST_K] = first.exact[ATTEST_K] = {f64, wide};
    first.exact[ATTEST_Q] = {f64, scaled};
    fs::remove_all(folder_ / "second");
    EXPECT_THAT(capture_vector(first, folder_ / "second"), ::testing::IsEmpty());
    const TestVector second = read_vector(find_vectors(folder_ / "second").at(0));
    EXPECT_EQ(*second.problem, *first.problem);
    EXPECT_EQ(PreparedInputs(*second.problem, second.given).hash(),
              PreparedInputs(*first.problem, first.given).hash());
    EXPECT_EQ(second.exact[ATTEST_K].at({0, 0, 0, 1}), 0.2);
    EXPECT_EQ(second.exact[ATTEST_Q].at({0, 0, 1, 0}), 3.3);
    EXPECT_EQ(second.given[ATTEST_Q].at({0, 0, 1, 0}), 3);
    EXPECT_EQ(second.tolerance, first.tolerance);
    EXPECT_EQ(second.arithmetic, first.arithmetic);
    ASSERT_EQ(second.outputs.size(), 1u);
    EXPECT_EQ(second.outputs[0].expected.spec.dtype, ATTEST_F32);
  }
}

}  // namespace
}  // namespace attest::core
