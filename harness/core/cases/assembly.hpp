// Making a VectorCase: views of files become tensors of a problem.
#pragma once
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/cases/formats/onnx.hpp"
#include "core/cases/vector_case.hpp"

namespace attest::core {

/// Ends the mapping of a vector: what attest has no word for. Caught by read_vector.
struct Unsupported {
  std::string what;
};

/// Throws Unsupported where this build reads no .onnx and .pb files.
void need_onnx();

/// Dims and strides of a view, in elements of the file.
struct Axes {
  std::vector<int64_t> dims, strides;
  int64_t offset = 0;
};
/// All of a dense tensor under these dims.
Axes dense_axes(std::vector<int64_t> dims);

/// Throws Error where the view reaches beyond the file, Unsupported where it is empty. Strides of
/// dims of 1 become 0.
Tensor view(const FileTensor& file, const Axes& axes);
/// All of the file as one row of numbers.
Tensor flat_view(const FileTensor& file);
/// A new tensor of the case, zeros.
FileTensor& make_file(VectorCase& vector, std::string name, DType dtype, std::vector<int64_t> dims);
/// Throws Error naming the tensor unless it has these dims; -1 is any.
void expect_dims(const FileTensor& file, std::initializer_list<int64_t> dims, const char* what);

/// The input of that role is what the view shows, laid out as there; `dtype` other than
/// ATTEST_NONE: converted. What a conversion from f64 rounds, the reference gets as it is.
void give(VectorCase& vector, int32_t role, const Tensor& from, DType dtype = ATTEST_NONE);
/// The output of that role is expected to be what the view shows; the problem has it laid out as
/// there.
void expect_role(VectorCase& vector, int32_t role, std::string name, const Tensor& expected,
                 DType dtype);
void expect_values(VectorCase& vector, std::string name, const FileTensor& expected,
                   std::vector<double> values);
/// Starts vector.problem; give and expect_role need it.
Problem& start_problem(VectorCase& vector, const Operation& operation, DType dtype);
/// Sets softmax_scale. What float32 rounds off it goes into the Q of the reference. Throws
/// Unsupported: 0, or not finite.
void set_scale(VectorCase& vector, double scale);
/// finish_problem, after all inputs were given.
void finish(VectorCase& vector);

/// What a node or a case has to work with, by the operator's own place: null where it is left out.
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
  /// Throws Unsupported with the name of the first attribute, input or output that is not known.
  void know(std::initializer_list<std::string_view> attributes, size_t inputs,
            size_t outputs) const;
  /// Throws Error where it is there and of another kind.
  int64_t whole(const std::string& attribute, int64_t otherwise) const;
  double real(const std::string& attribute, double otherwise) const;
  std::string text(const std::string& attribute, const std::string& otherwise) const;
  const FileTensor& needed(size_t place, const char* what) const;
};

// One file each. They fill `vector`; throw Error or Unsupported.
void map_attention(const OnnxCase& from, VectorCase& vector);
void map_flex_attention(const OnnxCase& from, VectorCase& vector);
void map_softmax(const OnnxCase& from, VectorCase& vector);
void map_rotary_embedding(const OnnxCase& from, VectorCase& vector);
void map_linear_attention(const OnnxCase& from, VectorCase& vector);
void map_upstream(const nlohmann::json& description, VectorCase& vector,
                  const std::string& file_name);
/// LightGlue: [batch, heads, tokens, channels] turned pair by neighbouring pair by the angles Wr .
/// (x, y) of [batch, tokens, 2] points, in f64.
FileTensor& rotate_by_points(VectorCase& vector, const FileTensor& x, const FileTensor& points,
                             const FileTensor& frequencies);
void map_named(const nlohmann::json& description, VectorCase& vector, const VectorPlace& place);
/// The description that a file of tensors has by the names of its tensors: "q" or "query", "o" or
/// "out" ..., and place.words. Throws Error: a name that is no tensor of the operation.
nlohmann::json describe_bare(const VectorPlace& place);
/// A description with `problem`: what capture.hpp writes.
void map_captured(const nlohmann::json& description, VectorCase& vector, const VectorPlace& place);

}  // namespace attest::core
