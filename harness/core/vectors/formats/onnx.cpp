#include "core/vectors/formats/onnx.hpp"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstring>

#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

// protobuf turns two bytes of a file into up to about a hundred of memory (an empty message in a
// list), so models are kept small; the elements of a tensor are plain bytes.
constexpr size_t kLargestModel_bytes = size_t{16} << 20;
constexpr size_t kLargestTensor_bytes = size_t{1} << 30;
constexpr int kMostOnnxDims = 16;

// Numbers of TensorProto.DataType; 17 and up are younger than the schema of some distributions.
struct OnnxType {
  int number;
  const char* name;
  DType dtype;
  int64_t bytes;
};
constexpr OnnxType kOnnxTypes[] = {
    {1, "FLOAT", ATTEST_F32, 4},          {2, "UINT8", ATTEST_NONE, 1},
    {3, "INT8", ATTEST_NONE, 1},          {4, "UINT16", ATTEST_NONE, 2},
    {5, "INT16", ATTEST_NONE, 2},         {6, "INT32", ATTEST_I32, 4},
    {7, "INT64", ATTEST_I64, 8},          {9, "BOOL", ATTEST_BOOL, 1},
    {10, "FLOAT16", ATTEST_F16, 2},       {11, "DOUBLE", ATTEST_F64, 8},
    {12, "UINT32", ATTEST_NONE, 4},       {13, "UINT64", ATTEST_NONE, 8},
    {16, "BFLOAT16", ATTEST_BF16, 2},     {17, "FLOAT8E4M3FN", ATTEST_F8E4M3, 1},
    {19, "FLOAT8E5M2", ATTEST_F8E5M2, 1},
};

template <class Message>
Message parse(std::span<const std::byte> bytes, std::string_view file_name, const char* what,
              size_t largest) {
  if (bytes.size() > largest)
    throw Error(
        fmt::format("{}: {} bytes; {} at most for a {}", file_name, bytes.size(), largest, what));
  Message message;
  if (!message.ParseFromArray(bytes.data(), int(bytes.size())))
    throw Error(fmt::format("{}: damaged, or not a {}", file_name, what));
  return message;
}

template <class To, class From>
void append(const From& values, std::vector<std::byte>& bytes) {
  bytes.resize(sizeof(To) * size_t(values.size()));
  for (int i = 0; i < values.size(); ++i) {
    const To value = To(values[i]);
    std::memcpy(bytes.data() + sizeof(To) * size_t(i), &value, sizeof(To));
  }
}

// Elements in the field that belongs to the type (16-bit floats lie in int32_data by their bits).
std::vector<std::byte> typed_data(const onnx::TensorProto& proto, const OnnxType& type) {
  std::vector<std::byte> bytes;
  switch (type.dtype) {
    case ATTEST_F32: append<float>(proto.float_data(), bytes); break;
    case ATTEST_F64: append<double>(proto.double_data(), bytes); break;
    case ATTEST_I64: append<int64_t>(proto.int64_data(), bytes); break;
    case ATTEST_I32: append<int32_t>(proto.int32_data(), bytes); break;
    case ATTEST_F16:
    case ATTEST_BF16: append<uint16_t>(proto.int32_data(), bytes); break;
    case ATTEST_BOOL:
    case ATTEST_F8E4M3:
    case ATTEST_F8E5M2: append<uint8_t>(proto.int32_data(), bytes); break;
    default: break;
  }
  return bytes;
}

FileTensor convert(const onnx::TensorProto& proto, std::string_view file_name) {
  const auto type = std::ranges::find(kOnnxTypes, proto.data_type(), &OnnxType::number);
  if (type == std::end(kOnnxTypes))
    throw Error(fmt::format("{}: data_type: {} is not known, or not of numbers", file_name,
                            proto.data_type()));
  if (proto.data_location() == onnx::TensorProto::EXTERNAL)
    throw Error(fmt::format("{}: its data lie in another file, which is not read", file_name));
  if (proto.dims_size() > kMostOnnxDims)
    throw Error(fmt::format("{}: dims: {} of them; {} at most", file_name, proto.dims_size(),
                            kMostOnnxDims));
  FileTensor tensor{.name = proto.name(),
                    .dtype = type->dtype,
                    .type = type->name,
                    .dims = {proto.dims().begin(), proto.dims().end()},
                    .bytes = {}};
  const auto wanted = dense_bytes(tensor.dims, type->bytes);
  if (!wanted)
    throw Error(fmt::format("{}: dims: {} is negative or more than memory can address", file_name,
                            print_dims(tensor.dims)));
  if (proto.has_raw_data()) {
    const auto raw = std::as_bytes(std::span(proto.raw_data()));
    tensor.bytes.assign(raw.begin(), raw.end());
  } else if (type->dtype != ATTEST_NONE) {
    tensor.bytes = typed_data(proto, *type);
  }
  const bool unread = type->dtype == ATTEST_NONE && !proto.has_raw_data();
  if (!unread && tensor.bytes.size() != size_t(*wanted))
    throw Error(fmt::format("{}: {} bytes of data where dims {} of {} take {}", file_name,
                            tensor.bytes.size(), print_dims(tensor.dims), type->name, *wanted));
  // One byte, 0 or 1: what else a file may say is still true.
  if (type->dtype == ATTEST_BOOL)
    for (std::byte& value : tensor.bytes)
      value = value == std::byte{0} ? std::byte{0} : std::byte{1};
  return tensor;
}

OnnxAttribute convert(const onnx::AttributeProto& proto) {
  using Proto = onnx::AttributeProto;
  switch (proto.type()) {
    case Proto::INT: return proto.i();
    case Proto::FLOAT: return double(proto.f());
    case Proto::STRING: return proto.s();
    case Proto::INTS: return std::vector<int64_t>(proto.ints().begin(), proto.ints().end());
    case Proto::FLOATS: return std::vector<double>(proto.floats().begin(), proto.floats().end());
    case Proto::GRAPH: return OnnxOther{"a subgraph"};
    case Proto::TENSOR: return OnnxOther{"a tensor"};
    default: return OnnxOther{"of another kind"};
  }
}

OnnxNode convert(const onnx::NodeProto& proto, std::string_view file_name) {
  OnnxNode node{.op_type = proto.op_type(),
                .domain = proto.domain() == "ai.onnx" ? "" : proto.domain(),
                .inputs = {proto.input().begin(), proto.input().end()},
                .outputs = {proto.output().begin(), proto.output().end()},
                .attributes = {}};
  for (const onnx::AttributeProto& attribute : proto.attribute())
    if (!node.attributes.emplace(attribute.name(), convert(attribute)).second)
      throw Error(fmt::format("{}: {}: attribute {} comes twice", file_name,
                              in_quotes(node.op_type), in_quotes(attribute.name())));
  return node;
}

}  // namespace

bool reads_onnx() { return true; }

FileTensor parse_onnx_tensor(std::span<const std::byte> bytes, std::string_view file_name) {
  return convert(parse<onnx::TensorProto>(bytes, file_name, "TensorProto", kLargestTensor_bytes),
                 file_name);
}

OnnxModel parse_onnx_model(std::span<const std::byte> bytes, std::string_view file_name) {
  const auto proto = parse<onnx::ModelProto>(bytes, file_name, "ModelProto", kLargestModel_bytes);
  if (proto.graph().node().empty())
    throw Error(fmt::format("{}: a model without nodes, or not a ModelProto", file_name));
  OnnxModel model;
  for (const auto& opset : proto.opset_import())
    model.opset[opset.domain() == "ai.onnx" ? "" : opset.domain()] = opset.version();
  for (const auto& input : proto.graph().input()) model.inputs.push_back(input.name());
  for (const auto& output : proto.graph().output()) model.outputs.push_back(output.name());
  for (const auto& node : proto.graph().node()) model.nodes.push_back(convert(node, file_name));
  for (const auto& tensor : proto.graph().initializer())
    model.initializers.push_back(
        convert(tensor, fmt::format("{}: initializer {}", file_name, in_quotes(tensor.name()))));
  return model;
}

}  // namespace attest::core
