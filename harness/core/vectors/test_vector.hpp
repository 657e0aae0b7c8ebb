// A test vector: a problem with inputs and outputs that another project computed.
#pragma once
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/operations/operation.hpp"
#include "core/vectors/formats/file_tensor.hpp"

namespace attest::core {

/// One output of a vector, and where the reference's numbers come from.
struct VectorOutput {
  enum class Kind {
    kRole,    // the golden of that role
    kScores,  // softmax_scores (scores.hpp) with `score_mode`
    kValues   // `values`, computed when the vector was read
  };
  std::string name;  // its name in the file
  Kind kind = Kind::kRole;
  int32_t role = 0;
  int score_mode = 0;
  std::vector<double> values;  // in the order of the dims of `expected`
  Tensor expected;             // a view of TestVector::files
  bool partial = false;        // NaN in `expected` stands for an element that was not computed
};

/// Can be moved but not copied, because tensors are views of its files.
struct TestVector {
  TestVector() = default;
  TestVector(TestVector&&) noexcept = default;
  TestVector& operator=(TestVector&&) noexcept = default;

  std::string name;         // "test_attention_3d"
  std::string source;       // who computed it
  std::string unsupported;  // the operator, attribute or parameter that attest does not know; "":
                            // the vector is supported, and the fields below are set
  std::optional<Problem> problem;  // absent: only the reference knows the operation
  std::string operation, dtype;    // for the record
  Tensors given{};                 // inputs by role
  // Inputs for the reference instead of `given`: f64 numbers that the problem's dtype, or its
  // float32 scale, would round.
  Tensors exact{};
  std::vector<VectorOutput> outputs;
  std::optional<double> tolerance;  // of the vector, for all outputs
  /// Set if the outputs are to be judged: they were computed in this arithmetic, and sigma judges
  /// them like an implementation's. Absent: the outputs are right, and check the reference.
  std::optional<Arithmetic> arithmetic;
  std::vector<std::string> notes;
  std::deque<FileTensor> files;
};

/// Where the files of a vector are.
struct VectorPlace {
  enum class Kind { kOnnx, kJson };
  Kind kind = Kind::kOnnx;
  std::string name;             // its path below the folder that was searched
  std::filesystem::path model;  // model.onnx, or the JSON file
  std::filesystem::path data;   // test_data_set_0, or the folder of the JSON file
  // `model` is a file of tensors without a JSON description. `words` are values for the keys of a
  // description: {"params", "causal"}.
  bool bare = false;
  std::map<std::string, std::string> words = {};
};

}  // namespace attest::core
