// ONNX Softmax (opset 13 and later: along one axis), which judges the reference's idea of softmax alone.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/tensor/error.hpp"
#include "core/vectors/assembly.hpp"

namespace attest::core {

void map_softmax(const OnnxCase& from, VectorCase& vector) {
  from.know({"axis"}, 1, 1);
  if (from.opset < 13) throw Unsupported{fmt::format("Softmax of opset {}", from.opset)};
  const FileTensor& x = usable(from.needed(0, "input"), "the vector");
  const auto rank = int64_t(x.dims.size());
  const int64_t given = from.whole("axis", -1), axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank) throw Error(fmt::format("axis: {} where {} to {} is right", given, -rank, rank - 1));
  int64_t inner = 1;
  for (int64_t i = axis + 1; i < rank; ++i) inner *= x.dims[size_t(i)];
  const int64_t length = x.dims[size_t(axis)], count = x.count();
  std::vector<double> values(static_cast<size_t>(count));
  for (int64_t first = 0; first < count; ++first) {
    if (first / inner % length != 0) continue;  // not the first of its line
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = 0; j < length; ++j) top = std::fmax(top, x.at(first + j * inner));
    for (int64_t j = 0; j < length; ++j) sum += values[size_t(first + j * inner)] = std::exp(x.at(first + j * inner) - top);
    for (int64_t j = 0; j < length; ++j) values[size_t(first + j * inner)] /= sum;
  }
  vector.operation = "softmax_of_rows", vector.dtype = dtype_name(x.dtype);
  if (const FileTensor* y = from.output(0)) expect_values(vector, from.node.outputs[0], *y, std::move(values));
}

}  // namespace attest::core
