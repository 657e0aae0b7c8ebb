// The float64 inner loops of the codebook golden, vectorised for the CPU that they run on
// (Highway).
#pragma once
#include <cstdint>

namespace attest::core::codebook {

/// Rows of group sums are padded with zeros to a multiple of this.
inline constexpr int64_t kLanes = 8;

/// sum += sign v, squares += sign v^2; `width` a multiple of kLanes.
void add(const double* v, double sign, int64_t width, double* sum, double* squares);

/// Sums of the visible keys by code, and the weights of the codes in one row. See ElementSums in
/// sigma.hpp.
struct Groups {
  int64_t codes, levels, width;
  const double *sum, *squares;  // [codes, width]: V_g, sum of v^2
  const double* count;          // [codes]: n_g
  const double *p, *a2, *e2;    // [codes]: p, (u_p p + eta kappa)^2, p^2 e^2
  const double* lone2;    // [codes]: p^2 times the variance that the keys of a code do not share
  const double* shared2;  // [codes / levels]: the variance that `levels` codes share; used only if
                          // there are several levels
  double theta;
};
/// Writes [width] each: o = sum p V, p2v2 = sum p^2 squares,
/// rounding = sum a2 max((V - theta n o)^2, sum_j (v_j - theta o)^2),
/// score = sum e2 (V - n o)^2 + lone2 sum_j (v_j - o)^2, and shared2 (sum p (V - n o))^2 for each
/// `levels` codes.
void weigh(const Groups& groups, double* o, double* rounding, double* score, double* p2v2);

/// The number of sums for ALiBi: over keys of x v, x^2 v^2 and x^2 v; then of the latter two times
/// the distance d; then of these two times d^2.
inline constexpr int64_t kFadingSums = 7;
/// Adds a key to sums [kFadingSums, width]: w = +-x, w2 = +-x^2.
void add_fading(const double* v, double w, double w2, double d, int64_t width, double* sums);
/// Adds `age` to all distances, and multiplies every x by `fade`.
void fade_sums(double fade, double age, int64_t width, double* sums);
/// The sums of one row, [kFadedSums, width]. p = x times a weight; V = sum p v and P = sum p over
/// the keys of a code.
enum FadedSum : int64_t { kOutput, kP2V2, kP2V, kE2V2, kE2V, kShared2, kShared1, kFadedSums };
/// The weights of one group in one row. p is `x` times the x in the sums, and e^2 p^2 is (e2 + e2d
/// d + e2d2 d^2) times the x^2 in the sums.
struct Fading {
  double x, e2, e2d, e2d2;
};
void weigh_fading(const Fading& fading, const double* sums, int64_t width, double* of_code,
                  double* row);
/// Adds the error that the keys of a code share.
void share_fading(double e2, double p, const double* of_code, int64_t width, double* row);

}  // namespace attest::core::codebook
