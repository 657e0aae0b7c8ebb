// For tests of vectors: a folder of files made by hand, and what the reference says of the vector
// in it.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/operations/softmax/problem/geometry.hpp"
#include "core/run/vectors/vector_runner.hpp"
#include "core/tensor/random.hpp"
#include "core/vectors/formats/onnx.hpp"
#include "core/vectors/testing/files_by_hand.hpp"

namespace attest::core {

namespace fs = std::filesystem;

class Vectors : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!reads_onnx()) GTEST_SKIP() << "this build reads no ONNX files";
    folder_ =
        fs::path(::testing::TempDir()) /
        ("vectors_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// The reference's record of the only vector in the folder.
  Record judge() const { return judge(find_vectors(folder_).at(0)); }
  static Record judge(const VectorPlace& place) {
    static const RunOptions options;
    Rates rates;
    const auto read = vector_or_record("s", place);
    if (const auto* none = std::get_if<Record>(&read)) return *none;
    return VectorRunner(std::get<TestVector>(read), "s", options, rates).reference();
  }

  fs::path folder_;
};

/// Normal numbers, or what a test writes over them.
struct Array {
  std::vector<int64_t> dims;
  std::vector<float> values;

  Array(std::vector<int64_t> sizes, uint64_t seed) : dims(std::move(sizes)) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    for (int64_t i = 0; i < count; ++i) values.push_back(random_normal(seed, uint64_t(i)));
  }
  std::string file() const { return tensor_file(dims, 1, packed_values(values)); }
};

/// Vectors in the words of upstream projects: one case.json beside its tensors.
class CaseVectors : public Vectors {
 protected:
  using Files = std::map<std::string, std::string>;  // name of a tensor: its file's bytes
  /// The reference's record of a case of one output.
  Record with(const std::string& op, const std::string& params, const Files& inputs,
              const Array& y) const {
    return with(op, params, inputs, Files{{"Y", y.file()}});
  }
  Record with(const std::string& op, const std::string& params, const Files& inputs,
              const Files& outputs) const {
    const std::string of_inputs = written(inputs), of_outputs = written(outputs);
    write_file(folder_ / "c/case.json", R"({"op":")" + op + R"(","params":{)" + params +
                                            R"(},"inputs":)" + of_inputs + R"(,"outputs":)" +
                                            of_outputs + "}");
    return judge();
  }

 private:
  std::string written(const Files& files) const {
    std::string list;
    for (const auto& [name, bytes] : files) {
      write_file(folder_ / "c" / (name + ".pb"), bytes);
      list += std::string(list.empty() ? "" : ",") + R"({"name":")" + name + R"(","file":")" +
              name + R"(.pb"})";
    }
    return "[" + list + "]";
  }
};

}  // namespace attest::core
