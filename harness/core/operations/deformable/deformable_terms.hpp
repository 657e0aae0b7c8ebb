// What the parts of sigma of deformable attention share: deformable_sigma.cpp (a query's points,
// the sum over these), deformable_coordinates.cpp and deformable_products.cpp.
#pragma once
#include <bit>
#include <cstdint>

#include "core/operations/numerics/rounding.hpp"
#include "core/operations/term_factor.hpp"

namespace attest::core::deformable {

/// The terms of sigma. Each stands for one rounding of honest arithmetic.
enum class Term {
  kOutput,           // rounding of o
  kOutputSubnormal,  // the same below the smallest normal number
  kLocation,         // a location rounded to the dtype of the stage
  kCoordinate,       // location * size - 0.5
  kGrid,             // 2 location - 1, where the kernel declares it
  kTwist,            // errors of both coordinates at once
  kKink,             // a coordinate so near a pixel's centre that its error crosses it
  kWeight,           // w rounded to the dtype of the stage
  kFraction,         // the fractions of coordinates, and 1 less these
  kFactor,           // products of two fractions, and of these and w
  kValues,           // V rounded to the dtype of products
  kProduct,          // products with V, the sum of four, the product with w
  kDifference,       // by how much more differences of pixels err, as in a + f (b - a)
  kSmallProduct,     // the same below the smallest normal number
  kFlushed,          // numbers below the smallest normal number become 0
  kSum,              // the sum over points
  kRepeated,         // adding the same number again and again rounds the same way
  kCount
};

inline double factor(Term term) { return ScopedTermFactor<Term>::of(term); }
/// Of a variance.
inline double squared(Term term) { return factor(term) * factor(term); }

inline uint64_t bits_of(double x) { return std::bit_cast<uint64_t>(x + 0.0); }  // -0 and 0 alike

// What errors may share.
enum : uint64_t { kXLocation, kXProduct, kXRest, kXFraction, kXCounterpart, kAxisKinds };
constexpr uint64_t kWeightKind = 2 * kAxisKinds, kPixelKind = kWeightKind + 1;

// Numbers up to this many times the smallest normal one may be flushed, since they err themselves.
constexpr double kFlushMargin = 2;

inline bool is_coarser(DType dtype, DType than) {
  return unit_roundoff(dtype) > unit_roundoff(than);
}

}  // namespace attest::core::deformable
