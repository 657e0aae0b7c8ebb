// How near a record comes to the limits of the device that it ran on.
#pragma once
#include "core/record/results.hpp"
#include "reports/projection/bound.hpp"

namespace attest::reports {

/// A run that reaches less of its limit is limited by something else. This is what code reaches
/// that does not use the units whose peak is the limit: one lane of a vector of AVX-512 in f32, or
/// multiply-adds in f32 outside the tensor cores of an H100 (256 of 4,096 operations a clock and
/// multiprocessor).
inline constexpr double kLeastShare = 1.0 / 16;

struct Basis {
  MaybeBound bound;
  double share = 0;  // bound's time / median; above 0 where the bound is known
};
/// Of a CPU the bound is the record's roofline, whose peaks were measured there; of a GPU,
/// bound_on. None: the record was skipped, did not pass or was not timed, its machine was
/// disturbed, or its limit is not known.
Basis basis_of(const core::Record& record, const core::Results& file);

}  // namespace attest::reports
