// Makes a TestVector: views of files become tensors of a problem.
#pragma once
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/vectors/formats/onnx.hpp"
#include "core/vectors/test_vector.hpp"

namespace attest::core {

/// Thrown if a vector needs something that attest does not know, which `what` names. read_vector
/// catches it.
struct Unsupported {
  std::string what;
};

/// Throws Unsupported if this build cannot read .onnx and .pb files.
void need_onnx();

/// Dims and strides of a view, in elements of the file.
struct Axes {
  std::vector<int64_t> dims, strides;
  int64_t offset = 0;
};
/// The axes of a dense tensor with these dims.
Axes dense_axes(std::vector<int64_t> dims);

/// A view of part of a file. Strides of dims of 1 become 0. Throws Error if it reaches beyond the
/// file, Unsupported if it is empty.
Tensor view(const FileTensor& file, const Axes& axes);
/// All numbers of the file, as one row.
Tensor flat_view(const FileTensor& file);
/// Adds a tensor of zeros to vector.files.
FileTensor& make_file(TestVector& vector, std::string name, DType dtype, std::vector<int64_t> dims);
/// Throws Error that names the tensor unless it has these dims; -1 stands for any dim.
void expect_dims(const FileTensor& file, std::initializer_list<int64_t> dims, const char* what);

/// Makes `from` the input of that role, with its layout. `dtype`: converts the input, unless it is
/// ATTEST_NONE; if that rounds f64, the reference still gets the f64 numbers.
void give(TestVector& vector, int32_t role, const Tensor& from, DType dtype = ATTEST_NONE);
/// Makes `expected` the expected output of that role. The output has the same layout in the
/// problem.
void expect_role(TestVector& vector, int32_t role, std::string name, const Tensor& expected,
                 DType dtype);
/// Adds an output that is no role of the problem; `values` are the reference's.
void expect_values(TestVector& vector, std::string name, const FileTensor& expected,
                   std::vector<double> values);
/// Starts vector.problem. To be called before give and expect_role.
Problem& start_problem(TestVector& vector, const Operation& operation, DType dtype);
/// Sets softmax_scale. float32 may round it; then the Q of the reference is scaled to make up for
/// that. Throws Unsupported: 0, or not finite.
void set_scale(TestVector& vector, double scale);
/// Calls finish_problem. To be called after all inputs were given.
void finish(TestVector& vector);

/// An ONNX node with its tensors, in the order of the operator. Null: the tensor is left out.
struct OnnxCase {
  const OnnxNode& node;
  int64_t opset;
  std::vector<const FileTensor*> inputs, outputs;

  const FileTensor* input(size_t place) const {
    return place < inputs.size() ? inputs[place] : nullptr;
  }
  const FileTensor* output(size_t place) const {
    return place < outputs.size() ? outputs[place] : nullptr;
  }
  /// Throws Unsupported if the node has other attributes, or more inputs or outputs, and names the
  /// first.
  void know(std::initializer_list<std::string_view> attributes, size_t inputs,
            size_t outputs) const;
  /// The value of an attribute, or `otherwise` if it is absent. Throws Error if it is of another
  /// type.
  int64_t whole(const std::string& attribute, int64_t otherwise) const;
  double real(const std::string& attribute, double otherwise) const;
  std::string text(const std::string& attribute, const std::string& otherwise) const;
  /// Input `place`. Throws Error if it is left out.
  const FileTensor& needed(size_t place, const char* what) const;
};

// The mappings of the operations fill `vector`. They throw Error or Unsupported.
void map_attention(const OnnxCase& from, TestVector& vector);
void map_flex_attention(const OnnxCase& from, TestVector& vector);
void map_softmax(const OnnxCase& from, TestVector& vector);
void map_rotary_embedding(const OnnxCase& from, TestVector& vector);
void map_linear_attention(const OnnxCase& from, TestVector& vector);
void map_upstream(const nlohmann::json& description, TestVector& vector,
                  const std::string& file_name);
/// LightGlue's rotary encoding of x [batch, heads, tokens, channels], in f64. Neighbouring channels
/// rotate by the angles `frequencies` . (x, y) of the points [batch, tokens, 2].
FileTensor& rotate_by_points(TestVector& vector, const FileTensor& x, const FileTensor& points,
                             const FileTensor& frequencies);
/// Maps a description with `tensors`.
void map_named(const nlohmann::json& description, TestVector& vector, const VectorPlace& place);
/// The description of a vector that is not ONNX's. Throws Error if it cannot be read.
nlohmann::json describe(const VectorPlace& place);
/// The description of a file of tensors that has none: from the names of its tensors ("q" or
/// "query", "o" or "out" ...) and place.words. Throws Error: a name that is no tensor of the
/// operation.
nlohmann::json describe_bare(const VectorPlace& place);
/// Maps a description with `problem`, which capture.hpp wrote.
void map_captured(const nlohmann::json& description, TestVector& vector, const VectorPlace& place);

}  // namespace attest::core
