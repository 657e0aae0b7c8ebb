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
  const double* lone2;    // [codes]: p^2 times the variance that the keys of a code do not share
  const double* shared2;  // [codes / levels]: the variance that `levels` codes share; taken where
                          // there are several
  double theta;
};
/// Writes [width] each: o = sum p V, p2v2 = sum p^2 squares,
/// rounding = sum a2 max((V - theta n o)^2, sum_j (v_j - theta o)^2),
/// score = sum e2 (V - n o)^2 + lone2 sum_j (v_j - o)^2, and shared2 (sum p (V - n o))^2 for each
/// `levels` codes.
void weigh(const Groups& groups, double* o, double* rounding, double* score, double* p2v2);

/// Of ALiBi: sums over keys of x v, x^2 v^2, x^2 v, then of the latter two times the distance d,
/// then times d^2.
inline constexpr int64_t kFadingSums = 7;
/// Adds a key to sums [kFadingSums, width]: w = +-x, w2 = +-x^2.
void add_fading(const double* v, double w, double w2, double d, int64_t width, double* sums);
/// Distances grow by `age`, and every x becomes `fade` times as large.
void fade_sums(double fade, double age, int64_t width, double* sums);
/// What one row adds up, [kFadedSums, width]; with p = x times a weight, V = sum p v and P = sum p
/// of a code.
enum FadedSum : int64_t { kOutput, kP2V2, kP2V, kE2V2, kE2V, kShared2, kShared1, kFadedSums };
/// Of one group and row: p = x times what is in the sums, and e^2 p^2 = e2 + e2d d + e2d2 d^2 times
/// x^2 in them.
struct Fading {
  double x, e2, e2d, e2d2;
};
void weigh_fading(const Fading& fading, const double* sums, int64_t width, double* of_code,
                  double* row);
/// What the keys of a code err by together.
void share_fading(double e2, double p, const double* of_code, int64_t width, double* row);

}  // namespace attest::core::codebook
