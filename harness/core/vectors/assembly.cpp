#include "core/vectors/assembly.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {

void need_onnx() {
  if (!reads_onnx())
    throw Unsupported{
        "built without ONNX: libonnx-dev and libprotobuf-dev were not there, or ATTEST_WITH_ONNX "
        "was off"};
}

Axes dense_axes(std::vector<int64_t> dims) {
  Axes axes{.dims = std::move(dims), .strides = {}, .offset = 0};
  axes.strides.assign(axes.dims.size(), 1);
  for (size_t i = axes.dims.size(); i-- > 1;) axes.strides[i - 1] = axes.strides[i] * axes.dims[i];
  return axes;
}

Tensor view(const FileTensor& file, const Axes& axes) {
  constexpr size_t kMostDims = 6;
  if (axes.dims.empty() || axes.dims.size() > kMostDims)
    throw Unsupported{fmt::format("{}: {} dims", file.name, axes.dims.size())};
  int64_t last = axes.offset;
  Tensor tensor;
  tensor.spec.dtype = usable(file, "the vector").dtype;
  tensor.spec.rank = int32_t(axes.dims.size());
  for (size_t i = 0; i < axes.dims.size(); ++i) {
    if (axes.dims[i] < 1)
      throw Unsupported{fmt::format("an empty tensor: {} {}", file.name, print_dims(file.dims))};
    tensor.spec.dim[i] = axes.dims[i];
    tensor.spec.stride[i] = axes.dims[i] == 1 ? 0 : axes.strides[i];
    last += (axes.dims[i] - 1) * axes.strides[i];
  }
  if (last >= file.count())
    throw Error(fmt::format("{}: dims {} where {} are needed", in_quotes(file.name),
                            print_dims(file.dims), print_dims(axes.dims)));
  tensor.data =
      const_cast<std::byte*>(file.bytes.data()) + axes.offset * int64_t(dtype_bytes(file.dtype));
  return tensor;
}

Tensor flat_view(const FileTensor& file) { return view(file, dense_axes({file.count()})); }

FileTensor& make_file(TestVector& vector, std::string name, DType dtype,
                      std::vector<int64_t> dims) {
  const auto bytes = dense_bytes(dims, int64_t(dtype_bytes(dtype)));
  constexpr int64_t kMost = int64_t{2} << 30;  // as of a file that is read
  if (!bytes || *bytes > kMost)
    throw Unsupported{
        fmt::format("{} of dims {}: more than {} bytes", name, print_dims(dims), kMost)};
  return vector.files.emplace_back(FileTensor{.name = std::move(name),
                                              .dtype = dtype,
                                              .type = "",
                                              .dims = std::move(dims),
                                              .bytes = std::vector<std::byte>(size_t(*bytes))});
}

void expect_dims(const FileTensor& file, std::initializer_list<int64_t> dims, const char* what) {
  bool fits = file.dims.size() == dims.size();
  for (size_t i = 0; fits && i < dims.size(); ++i)
    fits = dims.begin()[i] == -1 || dims.begin()[i] == file.dims[i];
  if (!fits)
    throw Error(fmt::format("{} ({}): dims {} where {} are right", what, in_quotes(file.name),
                            print_dims(file.dims), print_dims({dims.begin(), dims.size()})));
}

void give(TestVector& vector, int32_t role, const Tensor& from, DType dtype) {
  TensorSpec& spec = vector.problem->tensor[size_t(role)];
  spec = from.spec;
  spec.access = ATTEST_READ;
  // What is converted is stored anew, so it is dense.
  if (dtype != ATTEST_NONE && dtype != from.spec.dtype)
    spec = dense_tensor(dtype, ATTEST_READ, dims(from.spec));
  if (is_float(spec.dtype) && from.spec.dtype == ATTEST_F64 && spec.dtype != ATTEST_F64)
    vector.exact[size_t(role)] = from;
  vector.given[size_t(role)] = from;
}

void expect_role(TestVector& vector, int32_t role, std::string name, const Tensor& expected,
                 DType dtype) {
  TensorSpec& spec = vector.problem->tensor[size_t(role)];
  spec = expected.spec;
  spec.access = ATTEST_WRITE;
  spec.dtype = dtype;
  vector.outputs.push_back({.name = std::move(name),
                            .kind = VectorOutput::Kind::kRole,
                            .role = role,
                            .score_mode = 0,
                            .values = {},
                            .expected = expected});
}

void expect_values(TestVector& vector, std::string name, const FileTensor& expected,
                   std::vector<double> values) {
  if (int64_t(values.size()) != expected.count())
    throw Error(fmt::format("{}: {} elements expected where {} come out", in_quotes(name),
                            expected.count(), values.size()));
  if (values.empty()) return;
  vector.outputs.push_back({.name = std::move(name),
                            .kind = VectorOutput::Kind::kValues,
                            .role = 0,
                            .score_mode = 0,
                            .values = std::move(values),
                            .expected = flat_view(expected)});
}

Problem& start_problem(TestVector& vector, const Operation& operation, DType dtype) {
  if (!is_judged_float(dtype))
    throw Unsupported{fmt::format("{} in {}", operation.name(), dtype_title(dtype))};
  vector.operation = operation.name();
  vector.dtype = dtype_name(dtype);
  return vector.problem.emplace(blank_problem(operation, dtype));
}

void set_scale(TestVector& vector, double scale) {
  auto& p = vector.problem->as<attest_softmax_params>();
  p.softmax_scale = float(scale);
  if (p.softmax_scale == 0 || !std::isfinite(p.softmax_scale))
    throw Unsupported{fmt::format("a scale of {}", scale)};
  if (double(p.softmax_scale) == scale) return;
  const Tensor q = vector.exact[ATTEST_Q] ? vector.exact[ATTEST_Q] : vector.given[ATTEST_Q];
  FileTensor& scaled = make_file(vector, "q", ATTEST_F64, {q.spec.dim, q.spec.dim + q.spec.rank});
  for (int64_t row = 0, rows = scaled.count(); row < rows; ++row)
    store(scaled.bytes.data(), ATTEST_F64, row,
          load(q.data, q.spec.dtype, row_offset(q.spec, q.spec.rank, row)) *
              (scale / double(p.softmax_scale)));
  vector.exact[ATTEST_Q] = view(scaled, dense_axes(scaled.dims));
}

void finish(TestVector& vector) { finish_problem(*vector.problem); }

void OnnxCase::know(std::initializer_list<std::string_view> attributes, size_t most_inputs,
                    size_t most_outputs) const {
  for (const auto& [name, value] : node.attributes) {
    const auto* other = std::get_if<OnnxOther>(&value);
    if (std::ranges::find(attributes, name) == attributes.end() || other)
      throw Unsupported{fmt::format("{}: attribute {}{}", node.op_type, in_quotes(name),
                                    other ? " (" + other->kind + ")" : "")};
  }
  auto too_many = [this](const char* what, const std::vector<std::string>& names, size_t most) {
    for (size_t i = most; i < names.size(); ++i)
      if (!names[i].empty())
        throw Unsupported{
            fmt::format("{}: {} {} ({})", node.op_type, what, i, in_quotes(names[i]))};
  };
  too_many("input", node.inputs, most_inputs);
  too_many("output", node.outputs, most_outputs);
}

int64_t OnnxCase::whole(const std::string& attribute, int64_t otherwise) const {
  const auto at = node.attributes.find(attribute);
  if (at == node.attributes.end()) return otherwise;
  if (const auto* value = std::get_if<int64_t>(&at->second)) return *value;
  throw Error(fmt::format("{}: attribute '{}' must be a whole number", node.op_type, attribute));
}

double OnnxCase::real(const std::string& attribute, double otherwise) const {
  const auto at = node.attributes.find(attribute);
  if (at == node.attributes.end()) return otherwise;
  if (const auto* value = std::get_if<double>(&at->second)) return *value;
  throw Error(fmt::format("{}: attribute '{}' must be a float", node.op_type, attribute));
}

std::string OnnxCase::text(const std::string& attribute, const std::string& otherwise) const {
  const auto at = node.attributes.find(attribute);
  if (at == node.attributes.end()) return otherwise;
  if (const auto* value = std::get_if<std::string>(&at->second)) return *value;
  throw Error(fmt::format("{}: attribute '{}' must be a string", node.op_type, attribute));
}

const FileTensor& OnnxCase::needed(size_t place, const char* what) const {
  if (const FileTensor* file = input(place)) return *file;
  throw Error(fmt::format("{}: input {} ({}) is missing", node.op_type, place, what));
}

}  // namespace attest::core
