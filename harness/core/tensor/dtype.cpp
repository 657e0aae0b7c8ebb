#include "core/tensor/dtype.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace attest::core {
namespace {

struct DTypeFacts {
  std::string_view name;
  size_t bytes;
};
constexpr std::array<DTypeFacts, ATTEST_3XTF32 + 1> kDTypes{{
    {"none", 0},
    {"f32", 4},
    {"f16", 2},
    {"bf16", 2},
    {"f64", 8},
    {"i32", 4},
    {"i64", 8},
    {"bool", 1},
    {"f8e4m3", 1},
    {"f8e5m2", 1},
    {"tf32", 0},
    {"3xtf32", 0},
}};

template <class T>
T get(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * int64_t(sizeof(T)), sizeof(T));
  return value;
}
template <class T>
void put(void* data, int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * int64_t(sizeof(T)), &value, sizeof(T));
}

// Branch-free f16 -> f32: the exponent and mantissa move into place, and one product by 2^112
// rebias them, subnormals included (exact); infinity and NaN get the top exponent afterwards.
inline float from_f16(uint16_t half) {
  const uint32_t magnitude = uint32_t(half & 0x7fff) << 13;
  float scaled;
  std::memcpy(&scaled, &magnitude, 4);
  scaled *= 0x1p112f;
  uint32_t bits;
  std::memcpy(&bits, &scaled, 4);
  bits |= (magnitude >= 0x0f800000u ? 0x7f800000u : 0u) | uint32_t(half & 0x8000) << 16;
  std::memcpy(&scaled, &bits, 4);
  return scaled;
}

// The value of a small float: sign, exponent, mantissa fields of the given widths.
double decode(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int exponent = int(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const double sign = (bits >> (exponent_bits + mantissa_bits)) & 1 ? -1 : 1;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent == 0) return sign * std::ldexp(double(mantissa), 1 - bias - mantissa_bits);
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  }
  return sign *
         std::ldexp(double(mantissa + (1u << mantissa_bits)), exponent - bias - mantissa_bits);
}
// e4m3 has no infinity: its top exponent counts, and only the all-ones pattern is NaN (OCP 8-bit
// floating point, 2023).
double decode_e4m3(uint32_t bits) {
  if ((bits & 0x7f) == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  if ((bits & 0x78) == 0x78) return (bits & 0x80 ? -1 : 1) * std::ldexp(8.0 + (bits & 7), 5);
  return decode(bits, 4, 3);
}

// The values of all codes of a dtype of 8 bits.
std::array<double, 256> values_of_codes(DType dtype) {
  std::array<double, 256> values{};
  for (uint32_t code = 0; code < values.size(); ++code)
    values[code] = dtype == ATTEST_F8E4M3 ? decode_e4m3(code) : decode(code, 5, 2);
  return values;
}
const std::array<double, 256>& values_of(DType dtype) {
  static const std::array<double, 256> e4m3 = values_of_codes(ATTEST_F8E4M3),
                                       e5m2 = values_of_codes(ATTEST_F8E5M2);
  return dtype == ATTEST_F8E4M3 ? e4m3 : e5m2;
}

uint32_t encode(double value, DType dtype, int exponent_bits, int mantissa_bits) {
  const uint32_t sign = std::signbit(value) ? 1u << (exponent_bits + mantissa_bits) : 0;
  const uint32_t top = ((1u << exponent_bits) - 1) << mantissa_bits;
  const bool finite_only = dtype == ATTEST_F8E4M3;
  if (std::isnan(value)) return sign | (finite_only ? 0x7f : top | 1u << (mantissa_bits - 1));
  value = std::fabs(value);
  if (value == 0) return sign;
  const FloatFormat& format = kFloatFormats.at(size_t(dtype));
  const double power = std::max(binade(value), format.smallest_normal),
               ulp = 2 * format.unit_roundoff * power,
               ulps = std::nearbyint(value / ulp);  // to nearest even
  if (!(ulps * ulp <= format.largest_finite)) return sign | (finite_only ? 0x7f : top);
  // Powers of two are divided by a subtraction of their exponents. A carry out of ulps moves into
  // the exponent by itself.
  const auto steps = uint32_t(
      (std::bit_cast<uint64_t>(power) - std::bit_cast<uint64_t>(format.smallest_normal)) >> 52);
  return sign | ((steps << mantissa_bits) + uint32_t(ulps));
}

}  // namespace

std::string_view dtype_name(DType dtype) { return kDTypes.at(size_t(dtype)).name; }
std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t i = 1; i < kDTypes.size(); ++i)
    if (kDTypes[i].name == name) return DType(i);
  return std::nullopt;
}
size_t dtype_bytes(DType dtype) { return kDTypes.at(size_t(dtype)).bytes; }
bool is_f8(DType dtype) { return dtype == ATTEST_F8E4M3 || dtype == ATTEST_F8E5M2; }
bool is_judged_float(DType dtype) {
  return dtype == ATTEST_F32 || dtype == ATTEST_F16 || dtype == ATTEST_BF16 || dtype == ATTEST_F64;
}

std::string dtype_title(DType dtype) {
  const bool is_stored = is_float(dtype) && dtype_bytes(dtype) > 0;
  return std::string(dtype_name(dtype)) +
         (is_stored && !is_judged_float(dtype) ? " (not judged yet)" : "");
}

bool is_float(DType dtype) { return largest_finite(dtype) > 0; }

float saturated(float value, DType dtype) {
  const auto most = float(largest_finite(dtype));
  return std::isnan(value) ? value : std::clamp(value, -most, most);
}

uint64_t poison_bits(DType dtype) {
  switch (dtype) {
    case ATTEST_F32: return 0x7fc0a77e;
    case ATTEST_F16: return 0x7ea7;
    case ATTEST_BF16: return 0x7fa7;
    case ATTEST_F64: return 0x7ff8a77e57a77e57;
    default: return 0x7f7f7f7f7f7f7f7f;
  }
}

double load(const void* data, DType dtype, int64_t index) {
  switch (dtype) {
    case ATTEST_F32: return double(get<float>(data, index));
    case ATTEST_F16: return double(from_f16(get<uint16_t>(data, index)));
    case ATTEST_BF16: {
      const uint32_t bits = uint32_t(get<uint16_t>(data, index)) << 16;
      return double(get<float>(&bits, 0));
    }
    case ATTEST_F64: return get<double>(data, index);
    case ATTEST_I32: return get<int32_t>(data, index);
    case ATTEST_I64: return double(get<int64_t>(data, index));
    case ATTEST_BOOL: return get<uint8_t>(data, index);
    case ATTEST_F8E4M3:
    case ATTEST_F8E5M2: return values_of(dtype)[get<uint8_t>(data, index)];
    default: return 0;
  }
}

void store(void* data, DType dtype, int64_t index, double value) {
  switch (dtype) {
    case ATTEST_F32: return put(data, index, float(value));
    case ATTEST_F16: return put(data, index, uint16_t(encode(value, dtype, 5, 10)));
    case ATTEST_BF16: return put(data, index, uint16_t(encode(value, dtype, 8, 7)));
    case ATTEST_F64: return put(data, index, value);
    case ATTEST_I32: return put(data, index, int32_t(value));
    case ATTEST_I64: return put(data, index, int64_t(value));
    case ATTEST_BOOL: return put(data, index, uint8_t(value != 0));
    case ATTEST_F8E4M3: return put(data, index, uint8_t(encode(value, dtype, 4, 3)));
    case ATTEST_F8E5M2: return put(data, index, uint8_t(encode(value, dtype, 5, 2)));
    default: return;
  }
}

namespace {

// Round to nearest even by integers. Normal halves: add half an ulp less one, plus the parity.
// Subnormal ones: adding 0.5f places the rounding at the last bit kept.
inline uint16_t to_f16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return uint16_t(sign | 0x7c00);
  if (magnitude < 0x38800000) {
    float small;
    std::memcpy(&small, &magnitude, 4);
    small += 0.5f;
    uint32_t rounded;
    std::memcpy(&rounded, &small, 4);
    return uint16_t(sign | (rounded - 0x3f000000));
  }
  return uint16_t(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
}

inline uint16_t to_bf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace

void load_row(const void* data, DType dtype, int64_t index, int64_t count, int64_t stride,
              double* out) {
  if (dtype == ATTEST_F32 && stride == 1) {
    const auto* in = static_cast<const float*>(data) + index;
    for (int64_t i = 0; i < count; ++i) out[i] = double(in[i]);
  } else if (dtype == ATTEST_F16 && stride == 1) {
    const auto* in = static_cast<const uint16_t*>(data) + index;
    for (int64_t i = 0; i < count; ++i) out[i] = double(from_f16(in[i]));
  } else if (dtype == ATTEST_BF16 && stride == 1) {
    const auto* in = static_cast<const uint16_t*>(data) + index;
    for (int64_t i = 0; i < count; ++i) {
      const uint32_t bits = uint32_t(in[i]) << 16;
      float value;
      std::memcpy(&value, &bits, 4);
      out[i] = double(value);
    }
  } else if (is_f8(dtype)) {
    const std::array<double, 256>& values = values_of(dtype);
    const auto* in = static_cast<const uint8_t*>(data) + index;
    for (int64_t i = 0; i < count; ++i) out[i] = values[in[i * stride]];
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] = load(data, dtype, index + i * stride);
  }
}

void store_row(void* data, DType dtype, int64_t index, int64_t count, int64_t stride,
               const float* values) {
  if (dtype == ATTEST_F32) {
    for (int64_t i = 0; i < count; ++i) put(data, index + i * stride, values[i]);
  } else if (dtype == ATTEST_F16) {
    for (int64_t i = 0; i < count; ++i) put(data, index + i * stride, to_f16(values[i]));
  } else if (dtype == ATTEST_BF16) {
    for (int64_t i = 0; i < count; ++i) put(data, index + i * stride, to_bf16(values[i]));
  } else {
    for (int64_t i = 0; i < count; ++i) store(data, dtype, index + i * stride, double(values[i]));
  }
}

}  // namespace attest::core
