// Element types: their names, sizes, rounding, and conversion to and from float32 and float64.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "attest.h"

namespace attest::core {

/// One of ATTEST_F32, ATTEST_F16 ...; ATTEST_NONE is "no tensor".
using DType = int32_t;

/// "f32", "f16", "bf16", "f64", "i32", "i64", "bool", "f8e4m3", "f8e5m2", "tf32", "3xtf32"; "none"
/// for ATTEST_NONE.
std::string_view dtype_name(DType dtype);
/// The dtype with that name, or nothing.
std::optional<DType> dtype_from_name(std::string_view name);
/// Bytes of one stored element; 0 for ATTEST_NONE and for dtypes that only name an arithmetic.
size_t dtype_bytes(DType dtype);
bool is_float(DType dtype);
/// f8e4m3 or f8e5m2: 8 bits, stored in the tensors that Operation::may_be_f8 names, and in files.
bool is_f8(DType dtype);
/// Whether every tensor of a problem may have this dtype: it is one of kJudgedFloats. The other
/// floating-point dtypes occur in declared arithmetic, and f8 as is_f8 says.
bool is_judged_float(DType dtype);
inline constexpr std::string_view kJudgedFloats = "f32, f16, bf16 or f64";
/// The name, with a remark if no tensor of this dtype is judged yet: "f8e4m3 (not judged yet)".
std::string dtype_title(DType dtype);

/// The power of two that |x| begins with: 2^floor(log2 |x|). 0 for what lies below the smallest
/// normal float64; infinity for infinity and NaN.
inline double binade(double x) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(x) & 0x7ff0'0000'0000'0000);
}

/// How far apart the numbers of a floating-point dtype lie, and how large they are.
struct FloatFormat {
  double unit_roundoff, half_subnormal, smallest_normal, largest_finite;

  /// `precision`: bits of the significand with the hidden one. `min_exponent`: of the smallest
  /// normal number.
  static constexpr FloatFormat of(int precision, int min_exponent, double largest) {
    const auto negative_power_of_two = [](int exponent) {
      double power = 1;
      for (; exponent < 0; ++exponent) power /= 2;
      return power;
    };
    return {negative_power_of_two(-precision), negative_power_of_two(min_exponent - precision),
            negative_power_of_two(min_exponent), largest};
  }
};
/// By dtype. That of a dtype without floating point is of(0, 0, 0).
inline constexpr std::array<FloatFormat, ATTEST_3XTF32 + 1> kFloatFormats = [] {
  std::array<FloatFormat, ATTEST_3XTF32 + 1> all{};
  all.fill(FloatFormat::of(0, 0, 0));
  all[ATTEST_F32] = FloatFormat::of(24, -126, 0x1.fffffep127);
  all[ATTEST_F16] = FloatFormat::of(11, -14, 65504);
  all[ATTEST_BF16] = FloatFormat::of(8, -126, 0x1.fep127);
  all[ATTEST_F64] = FloatFormat::of(53, -1022, std::numeric_limits<double>::max());
  all[ATTEST_F8E4M3] = FloatFormat::of(4, -6, 448);
  all[ATTEST_F8E5M2] = FloatFormat::of(3, -14, 57344);
  all[ATTEST_TF32] = FloatFormat::of(11, -126, 0x1.ffcp127);
  all[ATTEST_3XTF32] = FloatFormat::of(21, -126, 0x1.fffffep127);
  return all;
}();

/// Unit roundoff u: half the distance from 1 to the next number (f32 2^-24, f16 2^-11, bf16 2^-8,
/// tf32 2^-11).
inline double unit_roundoff(DType dtype) { return kFloatFormats.at(size_t(dtype)).unit_roundoff; }
/// Half the smallest subnormal: the largest rounding error near 0 (f32 2^-150, f16 2^-25, bf16
/// 2^-134; f64 0, since no float64 holds 2^-1075).
inline double half_subnormal(DType dtype) { return kFloatFormats.at(size_t(dtype)).half_subnormal; }
/// The smallest normal number. A kernel that flushes subnormals loses numbers below it.
inline double smallest_normal(DType dtype) {
  return kFloatFormats.at(size_t(dtype)).smallest_normal;
}
/// The largest finite number.
inline double largest_finite(DType dtype) { return kFloatFormats.at(size_t(dtype)).largest_finite; }

/// The bits of the quiet NaN that poisons outputs and workspace; for integers, 0x7f bytes.
uint64_t poison_bits(DType dtype);

/// Element `index` of an array of `dtype` as float64; exact for every dtype but i64 beyond 2^53.
double load(const void* data, DType dtype, int64_t index);
/// Stores `value`, rounded once to nearest even in `dtype`. What rounds to more than the largest
/// finite number becomes infinity, or NaN in f8e4m3, which has no infinity.
void store(void* data, DType dtype, int64_t index, double value);
/// `value`, but the largest finite number of its sign instead of anything beyond it: what
/// quantisers to 8 bits store. NaN stays.
float saturated(float value, DType dtype);

/// Loads `count` elements from element `index` on, `stride` elements apart, as float64. Fast for
/// the common dtypes at stride 1.
void load_row(const void* data, DType dtype, int64_t index, int64_t count, int64_t stride,
              double* out);
/// Stores `count` float32 values from element `index` on, rounded to `dtype`, `stride` elements
/// apart.
void store_row(void* data, DType dtype, int64_t index, int64_t count, int64_t stride,
               const float* values);

}  // namespace attest::core
