// Sine and cosine by + and * alone, so that every machine gets the same bits. The functions of the
// math library differ between releases.
#pragma once
#include <cmath>

namespace attest::core {

struct SinCos {
  double sin, cos;
};

/// Sine and cosine of 2 pi `turns`, |turns| < 2^31; error below 1e-14. Taylor series about the
/// nearest quarter turn.
inline SinCos sin_cos_turns(double turns) {
  constexpr double kTwoPi = 6.283185307179586;
  const double quarters = std::floor(turns * 4 + 0.5);
  const double angle = (turns - quarters * 0.25) * kTwoPi;  // within an eighth turn of 0
  const double a2 = angle * angle;
  const double s =
      angle *
      (1 + a2 * (-1.0 / 6 +
                 a2 * (1.0 / 120 +
                       a2 * (-1.0 / 5040 + a2 * (1.0 / 362880 + a2 * (-1.0 / 39916800 +
                                                                      a2 * (1.0 / 6227020800)))))));
  const double c =
      1 +
      a2 * (-1.0 / 2 +
            a2 * (1.0 / 24 + a2 * (-1.0 / 720 +
                                   a2 * (1.0 / 40320 + a2 * (-1.0 / 3628800 +
                                                             a2 * (1.0 / 479001600 +
                                                                   a2 * (-1.0 / 87178291200)))))));
  switch (static_cast<long long>(quarters) & 3) {
    case 0: return {s, c};
    case 1: return {c, -s};
    case 2: return {-s, -c};
    default: return {-c, s};
  }
}

}  // namespace attest::core
