// ONNX Softmax and LogSoftmax: along one axis from opset 13 on, over all that follows an axis
// before. They judge the reference's idea of softmax alone.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/tensor/error.hpp"
#include "core/vectors/assembly.hpp"

namespace attest::core {
namespace {

/// The numbers at first, first + stride, ... become their softmax, or its logarithm.
void normalise(const FileTensor& x, int64_t first, int64_t length, int64_t stride, bool logarithm,
               double* y) {
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t j = 0; j < length; ++j) top = std::fmax(top, x.at(first + j * stride));
  for (int64_t j = 0; j < length; ++j) sum += std::exp(x.at(first + j * stride) - top);
  for (int64_t j = 0; j < length; ++j) {
    const double above = x.at(first + j * stride) - top;
    y[first + j * stride] = logarithm ? above - std::log(sum) : std::exp(above) / sum;
  }
}

}  // namespace

void map_softmax(const OnnxCase& from, TestVector& vector) {
  from.know({"axis"}, 1, 1);
  // As a matrix: the dims before the axis, and those from it on
  const bool flattens = from.opset < 13;
  const FileTensor& x = usable(from.needed(0, "input"), "the vector");
  const auto rank = int64_t(x.dims.size());
  const int64_t given = from.whole("axis", flattens ? 1 : -1),
                axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank)
    throw Error(fmt::format("axis: {} where {} to {} is right", given, -rank, rank - 1));
  int64_t inner = 1;
  for (int64_t i = axis + 1; i < rank; ++i) inner *= x.dims[size_t(i)];
  const int64_t length = x.dims[size_t(axis)] * (flattens ? inner : 1),
                stride = flattens ? 1 : inner, count = x.count();
  std::vector<double> values(static_cast<size_t>(count));
  for (int64_t first = 0; first < count; ++first)
    if (first / stride % length == 0)  // the first of its line
      normalise(x, first, length, stride, from.node.op_type == "LogSoftmax", values.data());
  vector.operation = "softmax_of_rows";
  vector.dtype = dtype_name(x.dtype);
  if (const FileTensor* y = from.output(0))
    expect_values(vector, from.node.outputs[0], *y, std::move(values));
}

}  // namespace attest::core
