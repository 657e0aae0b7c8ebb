// Q, K and V that are stored in 8 bits, as the numbers that they stand for.
//
//   const Dequantised inputs(problem, tensors);
//   softmax_golden(inputs.problem(), inputs.tensors());
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core {

/// A tensor that may be stored in 8 bits, and that of its factors.
struct StoredRole {
  int32_t role, factors;
};
inline constexpr std::array<StoredRole, 3> kStoredRoles{
    {{ATTEST_Q, ATTEST_Q_DESCALE}, {ATTEST_K, ATTEST_K_DESCALE}, {ATTEST_V, ATTEST_V_DESCALE}}};

/// Whether Q, K and V are stored in 8 bits.
inline bool has_f8(const Problem& problem) { return is_f8(problem.tensor[ATTEST_Q].dtype); }
/// Whether Q, K and V are stored in f16.
bool is_in_f16(const Problem& problem);
/// The other of the two dtypes of 8 bits.
inline DType other_f8(DType dtype) {
  return dtype == ATTEST_F8E4M3 ? ATTEST_F8E5M2 : ATTEST_F8E4M3;
}
inline bool has_factors(const Problem& problem) {
  return problem.has(ATTEST_Q_DESCALE) || problem.has(ATTEST_K_DESCALE) ||
         problem.has(ATTEST_V_DESCALE);
}

/// `declared`, as it multiplies the Q and K of `problem`. Products of stored numbers of 8 bits are
/// exact in float32: if QK is declared in these 8 bits, nothing is rounded before the product, and
/// factors and softmax_scale are applied to it. So that QK counts as float32.
Arithmetic with_stored_operands(Arithmetic declared, const Problem& problem);

/// The same problem without factors. Q, K and V are in float64, which holds the product of a stored
/// number and its factor exactly. Rows that belong to no sequence are not multiplied.
///
/// problem() keeps the feature bit DESCALE, by which SigmaModel knows that a kernel may round a
/// product with a factor.
class Dequantised {
 public:
  /// Throws Error if a factor is not finite and above 0. All tensors but Q, K and V are those of
  /// `tensors`, which must outlive this object.
  Dequantised(const Problem& problem, const Tensors& tensors);
  Dequantised(const Dequantised&) = delete;

  const Problem& problem() const { return problem_; }
  const Tensors& tensors() const { return tensors_; }

 private:
  Problem problem_;
  Tensors tensors_;
  std::array<std::vector<double>, kStoredRoles.size()> memory_;
};

/// A problem and its inputs as they are, or Dequantised if it has factors.
class WithoutFactors {
 public:
  /// Throws as Dequantised does. `problem` and `tensors` must outlive this object.
  WithoutFactors(const Problem& problem, const Tensors& tensors)
      : problem_(problem), tensors_(tensors) {
    if (has_factors(problem)) dequantised_.emplace(problem, tensors);
  }

  const Problem& problem() const { return dequantised_ ? dequantised_->problem() : problem_; }
  const Tensors& tensors() const { return dequantised_ ? dequantised_->tensors() : tensors_; }

 private:
  const Problem& problem_;
  const Tensors& tensors_;
  std::optional<Dequantised> dequantised_;
};

}  // namespace attest::core
