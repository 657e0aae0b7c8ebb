#include "core/operations/softmax/sigma/folded_scale.hpp"

#include <algorithm>
#include <cmath>

#include "core/operations/numerics/rounding.hpp"

namespace attest::core {
namespace {

// Of mantissas as common as they are among numbers of any size: log-uniform.
double mean_error(double factor, DType stored, DType operand) {
  if (unit_roundoff(stored) < unit_roundoff(ATTEST_F16) || !std::isnormal(factor)) return 0;
  const double mantissa = std::ldexp(factor, -std::ilogb(factor)),
               step = 2 * unit_roundoff(stored);  // 1 to 2: no subnormals
  double sum = 0;
  for (double x = 1; x < 2; x += step)
    sum += std::log2((x + step) / x) * (rounded(mantissa * x, operand) / (mantissa * x) - 1);
  return std::fabs(sum);
}

}  // namespace

double folded_scale_bias(double scale, DType stored, DType operand) {
  const double factor = std::fabs(scale);
  return std::max({mean_error(factor, stored, operand),
                   mean_error(factor * M_LOG2E, stored, operand),
                   2 * mean_error(std::sqrt(factor), stored, operand)});
}

}  // namespace attest::core
