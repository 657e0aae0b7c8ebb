// Element types in storage and their conversion by bits: for tails, and for targets without an
// instruction.
#pragma once

#include <cstdint>
#include <cstring>

#include "attest.h"

namespace impls {

struct F16 {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};

// Relative, of the polynomial in lanes-inl.hpp: 1.72e-7 at most over [-0.5, 0.5]
constexpr float kExp2Error = 2e-7f;
// Of the polynomial in attend_bf16.cpp: 7.5e-5 at most over [0, 1)
constexpr float kCoarseExp2Error = 8e-5f;

inline uint32_t float_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline float bits_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

inline float widen(float value) { return value; }
inline float widen(Bf16 value) { return bits_float(static_cast<uint32_t>(value.bits) << 16); }
inline float widen(F16 value) {
  const uint32_t sign = (value.bits & 0x8000u) << 16, rest = value.bits & 0x7fffu;
  if (rest >= 0x7c00u) return bits_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  // Below 2^-14 the value is rest * 2^-24; above, moving the exponent's bias is a product with
  // 2^112, exact.
  const float size =
      rest < 0x400u ? static_cast<float>(rest) * 0x1p-24f : bits_float(rest << 13) * 0x1p112f;
  return bits_float(sign | float_bits(size));
}

/// Rounds to nearest, ties to even; NaN stays NaN.
template <class T>
T narrow(float value);
template <>
inline float narrow<float>(float value) {
  return value;
}
template <>
inline Bf16 narrow<Bf16>(float value) {
  const uint32_t bits = float_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}
template <>
inline F16 narrow<F16>(float value) {
  const uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (rest >= 0x477ff000u)
    return {static_cast<uint16_t>(sign | 0x7c00u)};  // 65,520 and above round to infinity
  if (rest < 0x38800000u) {                          // subnormal: adding 0.5 rounds at 2^-24
    const uint32_t shifted = float_bits(bits_float(rest) + 0.5f);
    return {static_cast<uint16_t>(sign | (shifted - 0x3f000000u))};
  }
  return {static_cast<uint16_t>(sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13)};
}

/// Element `at` of an array of ATTEST_F32, F16 or BF16.
inline float element(int32_t dtype, const void* data, int64_t at) {
  if (dtype == ATTEST_F32) return static_cast<const float*>(data)[at];
  if (dtype == ATTEST_F16) return widen(static_cast<const F16*>(data)[at]);
  return widen(static_cast<const Bf16*>(data)[at]);
}

}  // namespace impls
