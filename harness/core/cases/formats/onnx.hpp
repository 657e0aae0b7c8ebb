// ONNX files through the protobuf library and ONNX's own schema, as plain values: tensors (.pb) and
// models (.onnx).
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/cases/formats/file_tensor.hpp"

namespace attest::core {

/// Whether this build can read ONNX files; where not, the two parsers throw Error with the package
/// that is missing.
bool reads_onnx();

/// A subgraph, a tensor or another value that attest has no use for: what kind it is.
struct OnnxOther {
  std::string kind;
};
using OnnxAttribute = std::variant<int64_t, double, std::string, std::vector<int64_t>,
                                   std::vector<double>, OnnxOther>;

struct OnnxNode {
  std::string op_type, domain;               // domain "": ONNX's own operators
  std::vector<std::string> inputs, outputs;  // "": an optional one that is left out
  std::map<std::string, OnnxAttribute> attributes;
};

struct OnnxModel {
  std::map<std::string, int64_t> opset;  // by domain
  std::vector<OnnxNode> nodes;
  std::vector<std::string> inputs, outputs;  // of the graph: what input_k.pb and output_k.pb are
  std::vector<FileTensor> initializers;
};

/// Throws Error: not a TensorProto, dims that do not fit its data, data in another file.
/// `file_name` is for the message.
FileTensor parse_onnx_tensor(std::span<const std::byte> bytes, std::string_view file_name);
/// Throws Error: not a ModelProto, or one without a graph.
OnnxModel parse_onnx_model(std::span<const std::byte> bytes, std::string_view file_name);

}  // namespace attest::core
