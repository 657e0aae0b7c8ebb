// Float64 inner loops of the codebook golden, vectorised and dispatched at run time (Highway).
#pragma once
#include <cstdint>

namespace attest::core::codebook {

/// Rows of group sums are padded with zeros to a multiple of this.
inline constexpr int64_t kLanes = 8;

/// sum += sign v, squares += sign v^2; `width` a multiple of kLanes.
void add(const double* v, double sign, int64_t width, double* sum, double* squares);

/// Group sums of the visible keys, and what one row weighs them with; see ElementSums of sigma.hpp.
struct Groups {
  int64_t codes, levels, width;
  const double *sum, *squares;  // [codes, width]: V_g, sum of v^2
  const double* count;          // [codes]: n_g
  const double *p, *a2, *e2;    // [codes]: p, (u_p p + eta kappa)^2, p^2 e^2
  const double* lone2;          // [codes]: p^2 times the variance that the keys of a code do not share
  const double* shared2;        // [codes / levels]: the variance that `levels` codes share; taken where there are several
  double theta;
};
/// Writes [width] each: o = sum p V, p2v2 = sum p^2 squares,
/// rounding = sum a2 max((V - theta n o)^2, sum_j (v_j - theta o)^2),
/// score = sum e2 (V - n o)^2 + lone2 sum_j (v_j - o)^2, and shared2 (sum p (V - n o))^2 for each `levels` codes.
void weigh(const Groups& groups, double* o, double* rounding, double* score, double* p2v2);

}  // namespace attest::core::codebook
