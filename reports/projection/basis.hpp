// How near a record comes to the limits of the device that it ran on.
#pragma once
#include "core/record/results.hpp"
#include "reports/projection/bound.hpp"

namespace attest::reports {

struct Basis {
  MaybeBound bound;
  double share = 0;  // bound's time / median; above 0 where the bound is known
};
/// Of a CPU the bound is the record's roofline, whose peaks were measured there; of a GPU,
/// bound_on. None: the record did not pass or was not timed, its machine was disturbed, or its
/// limit is not known.
Basis basis_of(const core::Record& record, const core::Results& file);

}  // namespace attest::reports
