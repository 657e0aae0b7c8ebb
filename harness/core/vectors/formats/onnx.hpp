// Reads ONNX files into plain values: tensors (.pb) and models (.onnx). Uses the protobuf library
// and ONNX's schema.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/vectors/formats/file_tensor.hpp"

namespace attest::core {

/// Whether this build can read ONNX files. If not, the parsers throw Error that names the missing
/// package.
bool reads_onnx();

/// The kind of a value that attest does not use: a subgraph, a tensor ...
struct OnnxOther {
  std::string kind;
};
using OnnxAttribute = std::variant<int64_t, double, std::string, std::vector<int64_t>,
                                   std::vector<double>, OnnxOther>;

struct OnnxNode {
  std::string op_type, domain;               // domain "": ONNX's own operators
  std::vector<std::string> inputs, outputs;  // "": an optional tensor that is left out
  std::map<std::string, OnnxAttribute> attributes;
};

struct OnnxModel {
  std::map<std::string, int64_t> opset;  // by domain
  std::vector<OnnxNode> nodes;
  std::vector<std::string> inputs, outputs;  // of the graph: names for input_k.pb and output_k.pb
  std::vector<FileTensor> initializers;
};

/// The tensor of a .pb file. Throws Error: not a TensorProto, dims that do not match the data, data
/// in another file. `file_name` is for messages.
FileTensor parse_onnx_tensor(std::span<const std::byte> bytes, std::string_view file_name);
/// The model of an .onnx file. Throws Error: not a ModelProto, or one without a graph.
OnnxModel parse_onnx_model(std::span<const std::byte> bytes, std::string_view file_name);

}  // namespace attest::core
