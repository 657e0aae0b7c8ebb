#include "core/judge/element.hpp"

#include <cmath>
#include <cstring>

#include "core/judge/gates.hpp"
#include "core/operations/numerics/rounding.hpp"
#include "core/operations/unsure.hpp"
#include "core/tensor/constants.hpp"

namespace attest::core {

double error_in_sigmas(double expected, double got, double sigma, DType dtype) {
  if (sigma == kUnsure) return 0;
  if (std::isnan(expected)) return std::isnan(got) ? 0 : kInfinity;
  if (std::isinf(expected)) return got == expected ? 0 : kInfinity;
  if (std::isinf(got) && std::signbit(got) == std::signbit(expected) &&
      std::fabs(expected) + Gates::kLargest * sigma > largest_finite(dtype))
    return 0;
  if (!std::isfinite(got)) return kInfinity;
  const double error = std::fabs(got - expected);
  return error == 0 ? 0 : error / sigma;
}

bool is_poison(const Tensor& tensor, int64_t offset) {
  const size_t bytes = dtype_bytes(tensor.spec.dtype);
  const uint64_t poison = poison_bits(tensor.spec.dtype);
  return std::memcmp(static_cast<const char*>(tensor.data) + offset * int64_t(bytes), &poison,
                     bytes) == 0;
}

bool in_sweep(const Tensor& tensor, int64_t offset, double got, double low, double high) {
  if (std::isnan(low) || std::isnan(high)) return !is_poison(tensor, offset);
  return got >= low && got <= high;
}

}  // namespace attest::core
