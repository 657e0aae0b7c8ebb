// The exp of the mutants' inner loops: no branches, so that the compiler makes vectors of a loop
// over it.
#pragma once
#include <cstdint>
#include <cstring>

#define ATTEST_INLINE inline __attribute__((always_inline))

namespace mutants {

/// exp(x) for x <= 0 to 2^-23 or so; 0 below -87, where it leaves float32's normal numbers. The
/// polynomial is Cephes' expf. It holds up to x = 88 too; a NaN stays one.
ATTEST_INLINE float exp_negative(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: the sum's last bits are the nearest integer
  const float shifted = x * 1.44269504088896341f + kRound, n = shifted - kRound;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float y = 1.9875691500e-4f;
  y = y * r + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = y * r * r + r + 1;
  uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127) << 23;  // 2^n: kRound's own bits are shifted out
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -87 ? 0 : y * power;
}

}  // namespace mutants
