// Rounds float32 numbers to the dtypes that an implementation can declare, in loops that vectorise.
//
// Included once for each instruction set, inside of its namespace (inner.cpp), so it has no include guard and includes nothing.

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
  const uint32_t rounded = (bits + ((1u << (kDropped - 1)) - 1) + (bits >> kDropped & 1)) & ~((1u << kDropped) - 1);
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
  const float small = (magnitude + 0.75f) - 0.75f, rounded = magnitude < 0x1p-14f ? small : drop_bits<13>(magnitude);
  return x - x == 0 ? std::copysign(magnitude < 65520.0f ? rounded : INFINITY, x) : x;
}
inline float cut_half(float x) { return x < 0x1p-14f ? std::floor(x * 0x1p24f) * 0x1p-24f : cut_bits<13>(x); }

/// Calls body with the function that rounds to `dtype`, so that a loop is compiled for each.
template <class Body>
inline void with_rounding(int32_t dtype, const Body& body) {
  switch (dtype) {
    case ATTEST_F16: return body([](float x) { return to_half(x); });
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
    case ATTEST_BF16: return body([](float x) { return cut_bits<16>(x); });
    case ATTEST_TF32: return body([](float x) { return cut_bits<13>(x); });
    case ATTEST_3XTF32: return body([](float x) { return cut_bits<3>(x); });
    default: return body([](float x) { return x; });
  }
}
