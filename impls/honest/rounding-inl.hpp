// Rounds float32 numbers to the dtypes that an implementation can declare, in loops that vectorise.
//
// Included once for each instruction set, inside of its namespace (inner.cpp), so it has no include
// guard and includes nothing.

inline uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float float_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

/// The nearest number (even) whose last `kDropped` bits of the float32 mantissa are 0.
template <int kDropped>
inline float drop_bits(float x) {
  const uint32_t bits = bits_of(x);
  const uint32_t rounded =
      (bits + ((1u << (kDropped - 1)) - 1) + (bits >> kDropped & 1)) & ~((1u << kDropped) - 1);
  return x - x == 0 ? float_of(rounded) : x;
}
/// The same, cut towards 0.
template <int kDropped>
inline float cut_bits(float x) {
  return float_of(bits_of(x) & ~((1u << kDropped) - 1));
}

/// binary16: 10 bits of mantissa, multiples of 2^-24 below 2^-14, infinity from 65,520 on.
inline float to_half(float x) {
  const float magnitude = std::fabs(x);
  const float small = (magnitude + 0.75f) - 0.75f,
              rounded = magnitude < 0x1p-14f ? small : drop_bits<13>(magnitude);
  return x - x == 0 ? std::copysign(magnitude < 65520.0f ? rounded : INFINITY, x) : x;
}
inline float cut_half(float x) {
  return x < 0x1p-14f ? std::floor(x * 0x1p24f) * 0x1p-24f : cut_bits<13>(x);
}

/// An 8-bit format with its smallest normal number and the distance of those below it. What is too
/// large becomes the largest, as conversions in hardware do that saturate.
template <int kDropped>
inline float to_eight(float x, float smallest_normal, float step, float largest) {
  const float magnitude = std::fabs(x),
              shift = step * 12582912.0f;  // 1.5 * 2^23: numbers around it are `step` apart
  const float rounded =
      magnitude < smallest_normal ? (magnitude + shift) - shift : drop_bits<kDropped>(magnitude);
  return x - x == 0 ? std::copysign(rounded < largest ? rounded : largest, x) : x;
}
inline float to_e4m3(float x) { return to_eight<20>(x, 0x1p-6f, 0x1p-9f, 448); }
inline float to_e5m2(float x) { return to_eight<21>(x, 0x1p-14f, 0x1p-16f, 57344); }
inline float cut_e4m3(float x) {
  return x < 0x1p-6f ? std::floor(x * 0x1p9f) * 0x1p-9f : cut_bits<20>(x);
}
inline float cut_e5m2(float x) {
  return x < 0x1p-14f ? std::floor(x * 0x1p16f) * 0x1p-16f : cut_bits<21>(x);
}

/// Calls body with the function that rounds to `dtype`, so that a loop is compiled for each.
template <class Body>
inline void with_rounding(int32_t dtype, const Body& body) {
  switch (dtype) {
    case ATTEST_F16: return body([](float x) { return to_half(x); });
    case ATTEST_F8E4M3: return body([](float x) { return to_e4m3(x); });
    case ATTEST_F8E5M2: return body([](float x) { return to_e5m2(x); });
    case ATTEST_BF16: return body([](float x) { return drop_bits<16>(x); });
    case ATTEST_TF32: return body([](float x) { return drop_bits<13>(x); });
    case ATTEST_3XTF32: return body([](float x) { return drop_bits<3>(x); });
    default: return body([](float x) { return x; });
  }
}
/// The same with the function that cuts x >= 0.
template <class Body>
inline void with_cutting(int32_t dtype, const Body& body) {
  switch (dtype) {
    case ATTEST_F16: return body([](float x) { return cut_half(x); });
    case ATTEST_F8E4M3: return body([](float x) { return cut_e4m3(x); });
    case ATTEST_F8E5M2: return body([](float x) { return cut_e5m2(x); });
    case ATTEST_BF16: return body([](float x) { return cut_bits<16>(x); });
    case ATTEST_TF32: return body([](float x) { return cut_bits<13>(x); });
    case ATTEST_3XTF32: return body([](float x) { return cut_bits<3>(x); });
    default: return body([](float x) { return x; });
  }
}
