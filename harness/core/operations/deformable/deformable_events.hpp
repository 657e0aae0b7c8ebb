// Events of deformable attention: situations in a kernel that finds the pixels around a point,
// weighs them and sums over points, in which a bug can show. They are counted from the bytes of the
// inputs, not from the fill, in the judged rows.
//
// A point counts if it lies inside its level and has a finite weight other than 0.
//
// border/left, /right, /top, /bottom, /corner
//     A point that counts lies beyond the centres of the first or last pixels of its level, so that
//     two (in a corner three) of the pixels around it are outside.
// centre/x, /y
//     In float32, the coordinate of a point that counts is a whole number along that axis.
// outside/near, /far
//     A point with a finite weight other than 0 lies outside its level, but by less than one pixel
//     more than is_inside allows; or a coordinate of it is beyond 2^31.
// outside/nan_weight
//     A point outside has a NaN weight.
// location/nan/x, /y; location/inf/x, /y
//     A point with a finite weight other than 0 has that location.
// level/first, /middle, /last
//     A point counts that lies in the first level, in a level between the first and the last, or in
//     the last level.
// levels/all, /one
//     A row has points that count in every level, or in a single one of several levels.
// points/one_place
//     All points of a row in a level count and are at one place.
// weight/negative, /above_1, /small
//     A point that counts has a weight below 0, or above 1. All weights of points of a row that
//     count are below 2^-12, without their signs.
// weight/nan
//     A point inside has a NaN weight; another judged row of the head has none.
// value/256
//     In some channel, the parts of values above 256, times their weights, sum to at least a
//     hundredth of the output, or of the root of the sum of its squared terms.
// nan/v, nan/v/inner
//     A point that counts reads a NaN of V (inner: in a level between the first and the last);
//     another judged row of the head reads none.
// cancels
//     The output of a row of at least three points that count, over all channels, is less than a
//     third of the root of the sum of (weight times sample)^2.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core {

/// Operation::events.
std::vector<NumericEvent> deformable_events(const Problem& problem);
/// Operation::count_events.
std::set<std::string> count_deformable_events(const Problem& problem, const Tensors& inputs,
                                              const std::vector<bool>& judged);

}  // namespace attest::core
