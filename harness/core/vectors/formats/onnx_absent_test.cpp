// What a build without libonnx-dev says of vectors: those that need it are unsupported by that
// name, the others are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/vectors/formats/onnx.hpp"
#include "core/vectors/read_vectors.hpp"
#include "core/vectors/testing/files_by_hand.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class WithoutOnnx : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& bytes) const {
    write_file(folder_ / name, bytes);
  }
  std::string unsupported() const { return read_vector(find_vectors(folder_).at(0)).unsupported; }

  const fs::path folder_ = fs::path(::testing::TempDir()) /
                           (std::string("without_onnx_") +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(WithoutOnnx, NodeTestsAreUnsupported) {
  ASSERT_FALSE(reads_onnx());
  write("model.onnx", model_file("Attention", {"Q", "K", "V"}, {"Y"}, {}, 23));
  fs::create_directories(folder_ / "test_data_set_0");
  EXPECT_THAT(unsupported(), HasSubstr("built without ONNX: libonnx-dev"));
}

TEST_F(WithoutOnnx, SoAreCasesOfPbFiles) {
  write("q.pb", tensor_file({1, 1, 1, 1}, 1, std::string(4, '\0')));
  write("case.json", R"({"tensors":{"q":"q.pb","k":"q.pb","v":"q.pb"}})");
  EXPECT_THAT(unsupported(), HasSubstr("built without ONNX"));
  write("case.json", R"({"name": "a", "op": "sdpa", "params": {"scale": 1}, "outputs": [],
    "inputs": [{"name": "Q", "file": "q.pb", "dtype": "float32", "shape": [1, 1, 1, 1]}]})");
  EXPECT_THAT(unsupported(), HasSubstr("built without ONNX"));
}

TEST_F(WithoutOnnx, OthersAreRead) {
  write("q.npy", npy_file(npy_header("'<f4'", "(1, 1, 1, 1)"), std::string(4, '\0')));
  write("case.json", R"({"tensors":{"q":"q.npy","k":"q.npy","v":"q.npy"}})");
  EXPECT_EQ(unsupported(), "");
}

}  // namespace
}  // namespace attest::core
