// A dumped run is read again bit for bit, and its arrays say what the judge saw.
#include "core/vectors/captured/run_dump.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/inputs/testing/file_bytes.hpp"
#include "core/problem/spec.hpp"
#include "core/vectors/formats/npy.hpp"
#include "core/vectors/read_vectors.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RunDump : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  /// Dumps a run whose outputs are bits from 0 on, and returns the hash of the inputs.
  std::string dump(const std::string& line, bool with_outputs = true) {
    problem_ = parse_problem(line);
    const PreparedInputs inputs(problem_, Fill{"random", 5}, nullptr);
    const auto golden =
        problem_.operation->golden(problem_, inputs.fill(), inputs.shared().tensors());
    outputs_ = std::make_unique<SharedTensors>(problem_, ATTEST_WRITE);
    outputs_->poison();
    for (const Tensor& tensor : outputs_->tensors())
      for (int64_t i = 1; tensor && i < extent(tensor.spec); i += 2)
        store(tensor.data, tensor.spec.dtype, i, double(i));
    dump_run({.inputs = inputs,
              .golden = *golden,
              .arithmetic = arithmetic_,
              .outputs = with_outputs ? &outputs_->tensors() : nullptr,
              .source = "a test",
              .most_bytes = most_bytes_},
             folder_);
    return inputs.hash();
  }
  json description() const {
    std::ifstream in(folder_ / "case.json");
    return json::parse(in);
  }
  FileTensor array(const std::string& name) const {
    return parse_npy(read_bytes(folder_ / name), name);
  }

  const fs::path folder_ =
      fs::path(::testing::TempDir()) /
      (std::string("run_dump_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
  Problem problem_;
  std::unique_ptr<SharedTensors> outputs_;
  int64_t most_bytes_ = 1 << 20;
  Arithmetic arithmetic_{.ways = ATTEST_NONDETERMINISTIC, .sum_chain = 5};
};

// The poison of outputs too: what was not written is seen again.
TEST_F(RunDump, InputsAndOutputsComeBackBitForBit) {
  for (const char* line :
       {"softmax dtype=f16 num_heads=2 seq_len_q=7 head_dim=8 q.order=0213 o.order=0213 lse",
        "softmax dtype=bf16 batch=2 num_heads=2 seq_len_q=5 head_dim=8 mask=[2,1,1,5]",
        "softmax batch=3 num_heads=2 seq_len_q=6 head_dim=8 cu_seqlens_q cu_seqlens_kv lse",
        "softmax dtype=f64 num_heads=2 seq_len_q=40 head_dim=1 patch_size=16 order",
        "softmax dtype=f16 seq_len_q=9 head_dim=4 q=f8e5m2 k=f8e5m2 v=f8e5m2 k_descale",
        "linear batch=2 num_heads=2 seq_len_q=6 head_dim=8 mask query_mask"}) {
    SCOPED_TRACE(line);
    fs::remove_all(folder_);
    const std::string hash = dump(line);
    const TestVector back = read_vector(find_vectors(folder_).at(0));
    EXPECT_EQ(*back.problem, problem_);
    EXPECT_EQ(PreparedInputs(*back.problem, back.given).hash(), hash);
    EXPECT_EQ(back.arithmetic, arithmetic_);
    EXPECT_FALSE(back.outputs.empty());
    for (const VectorOutput& output : back.outputs)
      EXPECT_EQ(hash_tensor(output.expected), hash_tensor(outputs_->tensors()[size_t(output.role)]))
          << output.name;
  }
}

TEST_F(RunDump, RowsHaveTheirIndicesExpectedValuesAndErrors) {
  dump("softmax num_heads=2 seq_len_q=3 seq_len_kv=1 head_dim=4 lse");
  const json golden = description()["golden"]["o"];
  EXPECT_EQ(golden["row_dims"], (json{"batch", "head", "query"}));
  EXPECT_EQ(golden["judged_rows"], 6);
  EXPECT_THAT(std::string(golden["method"]), HasSubstr("all rows"));
  const FileTensor rows = array(golden["rows"]), expected = array(golden["expected"]),
                   sigma = array(golden["sigma"]), error = array(golden["error"]),
                   v = array("v.npy"), o = array("o.npy");
  EXPECT_THAT(rows.dims, ElementsAre(6, 3));
  EXPECT_THAT(expected.dims, ElementsAre(6, 4));
  for (int64_t row = 0; row < 6; ++row) {
    EXPECT_EQ(rows.at(row * 3), 0);
    EXPECT_EQ(rows.at(row * 3 + 1), double(row / 3));
    EXPECT_EQ(rows.at(row * 3 + 2), double(row % 3));
    for (int64_t d = 0; d < 4; ++d) {
      // Every query sees the only key.
      EXPECT_EQ(expected.at(row * 4 + d), v.at(row / 3 * 4 + d));
      EXPECT_GT(sigma.at(row * 4 + d), 0);
      const double got = o.at(row * 4 + d), apart = error.at(row * 4 + d);
      if (std::isnan(got))
        EXPECT_TRUE(std::isnan(apart));
      else
        EXPECT_EQ(apart, got - expected.at(row * 4 + d));
    }
  }
  EXPECT_THAT(array(description()["golden"]["lse"]["expected"]).dims, ElementsAre(6, 1));
}

// Element i of the output is i, or NaN in places: the last rows err most.
TEST_F(RunDump, IfThereAreTooManyRowsThoseWithTheLargestErrorsAreWritten) {
  most_bytes_ = 2 * 1 * int64_t(sizeof(double)) + 7;
  dump("softmax num_heads=1 seq_len_q=12 head_dim=1");
  const json golden = description()["golden"]["o"];
  EXPECT_EQ(golden["judged_rows"], 12);
  const FileTensor rows = array(golden["rows"]);
  EXPECT_THAT(rows.dims, ElementsAre(2, 3));
  EXPECT_EQ(rows.at(2), 0);  // the first of the NaNs, each an error without bounds
  EXPECT_EQ(rows.at(5), 2);
  fs::remove_all(folder_);
  most_bytes_ = 7 * int64_t(sizeof(double));
  dump("softmax num_heads=1 seq_len_q=12 head_dim=1");
  EXPECT_EQ(array("o.rows.npy").at(6 * 3 + 2), 11);  // six NaNs, and the largest number
  EXPECT_EQ(array("o.error.npy").at(6), 11 - array("o.expected.npy").at(6));
}

TEST_F(RunDump, ARunWithoutOutputsLeavesInputsAndExpectedValues) {
  const std::string hash = dump("softmax num_heads=2 seq_len_q=3 head_dim=4", false);
  EXPECT_FALSE(fs::exists(folder_ / "o.npy"));
  EXPECT_FALSE(description()["golden"]["o"].contains("error"));
  EXPECT_THAT(array("o.expected.npy").dims, ElementsAre(6, 4));
  const TestVector back = read_vector(find_vectors(folder_).at(0));
  EXPECT_TRUE(back.outputs.empty());
  EXPECT_FALSE(back.arithmetic.has_value());
  EXPECT_EQ(PreparedInputs(*back.problem, back.given).hash(), hash);
}

TEST_F(RunDump, RefusesAFolderThatHasACase) {
  dump("softmax num_heads=1 seq_len_q=3 head_dim=4");
  EXPECT_THAT(error_of([&] { dump("softmax num_heads=1 seq_len_q=3 head_dim=4"); }),
              HasSubstr("holds a case already"));
}

// Float32 that is no bfloat16 would be rounded, so it is refused.
TEST_F(RunDump, OnlyFloat32OfTheSameValueStandsForBfloat16) {
  dump("softmax dtype=bf16 num_heads=1 seq_len_q=3 head_dim=4");
  FileTensor q = array("q.npy");
  EXPECT_EQ(q.dtype, ATTEST_F32);
  store(q.bytes.data(), ATTEST_F32, 5, 1.001);
  write_npy(folder_ / "q.npy", {dense_tensor(ATTEST_F32, ATTEST_READ, q.dims), q.bytes.data()});
  EXPECT_THAT(error_of([&] { read_vector(find_vectors(folder_).at(0)); }),
              HasSubstr("q: is f32 where the problem has bf16"));
}

TEST(NpyWriter, WritesWhatTheReaderReads) {
  const fs::path path = fs::path(::testing::TempDir()) / "writer.npy";
  int32_t values[] = {1, 2, 3, 4, 5, 6};
  TensorSpec transposed = dense_tensor(ATTEST_I32, ATTEST_READ, std::vector<int64_t>{2, 3});
  transposed.stride[0] = 1;
  transposed.stride[1] = 2;
  write_npy(path, {transposed, values});
  const FileTensor back = parse_npy(read_bytes(path), "writer.npy");
  EXPECT_THAT(back.dims, ElementsAre(2, 3));
  EXPECT_EQ(back.type, "<i4");
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(back.at(i), double(i % 3 * 2 + i / 3 + 1));
  const TensorSpec one = dense_tensor(ATTEST_BOOL, ATTEST_READ, std::vector<int64_t>{3});
  bool truths[] = {true, false, true};
  write_npy(path, {one, truths});
  EXPECT_THAT(parse_npy(read_bytes(path), "writer.npy").dims, ElementsAre(3));
  EXPECT_EQ(fs::file_size(path) % 64, 3u);
  uint8_t codes[] = {0x01, 0xff, 0xfe};
  const TensorSpec narrow = dense_tensor(ATTEST_F8E4M3, ATTEST_READ, std::vector<int64_t>{3});
  write_npy(path, {narrow, codes});
  const FileTensor wide = parse_npy(read_bytes(path), "writer.npy");
  EXPECT_EQ(wide.type, "<f4");
  EXPECT_EQ(wide.at(0), 0x1p-9);
  EXPECT_TRUE(std::isnan(wide.at(1)));
  EXPECT_EQ(wide.at(2), -448);
  const TensorSpec coarse = dense_tensor(ATTEST_TF32, ATTEST_READ, std::vector<int64_t>{3});
  EXPECT_THAT(error_of([&] { write_npy(path, {coarse, truths}); }),
              HasSubstr("writer.npy: NumPy has no tf32"));
  EXPECT_THAT(error_of([&] { write_npy("/proc/nowhere/x.npy", {one, truths}); }),
              HasSubstr("cannot be written"));
  fs::remove(path);
}

}  // namespace
}  // namespace attest::core
