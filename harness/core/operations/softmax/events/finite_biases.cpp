// Finite numbers of BIAS that programs write to hide keys.
#include <fmt/format.h>

#include <algorithm>

#include "core/operations/softmax/events/events.hpp"
#include "core/operations/softmax/events/pairs.hpp"
#include "core/tensor/dtype.hpp"

namespace attest::core::events {
namespace {

constexpr int64_t kBiasRows = 512;  // of a head
constexpr uint64_t kBiasSeed = 0x66696e697465;
constexpr double kFarBelow = -10000, kOrdinary = -1000, kApart = 100;

// The lowest finite number of a type, but no less than float32's: sums may be in float32.
double lowest_of(DType dtype) {
  return -std::min(largest_finite(dtype), largest_finite(ATTEST_F32));
}

// What a row sees of BIAS.
struct Seen {
  bool any = false, ordinary = false, lowest = false, only_far_below = true;
  double least = kInfinity, most = -kInfinity;
  int64_t first_above_lowest = -1;  // position
};

Seen look_at(const PairTensors& pairs, const PairRow& row, const Tensor& bias,
             const Geometry& geometry) {
  Seen seen;
  const double lowest = lowest_of(bias.spec.dtype);
  for (int64_t j = row.keys.begin; j < row.keys.end; ++j) {
    if (!pairs.sees(row, j)) continue;
    const double number = bias.at({row.b, row.h, geometry.token(row.i), geometry.token(j)});
    seen.any = true;
    seen.only_far_below &= number <= kFarBelow;
    seen.ordinary |= number > kOrdinary;
    seen.lowest |= number == lowest;
    seen.least = std::min(seen.least, number);
    seen.most = std::max(seen.most, number);
    if (number != lowest && seen.first_above_lowest < 0) seen.first_above_lowest = j;
  }
  return seen;
}

void note(const PairRow& row, const Seen& seen, Found& found) {
  if (seen.any && seen.only_far_below) {
    found.insert("finite_bias/only");
    if (seen.most - seen.least >= kApart) found.insert("finite_bias/differ");
  }
  if (!seen.ordinary || !seen.lowest) return;
  found.insert("finite_bias/lowest");
  for (const int64_t tile : kEventTiles) {
    const TileRange tiles = tiles_of(row.keys, row.origin, tile);
    if (row.keys.size() >= 2 * tile &&
        seen.first_above_lowest >= row.origin + (tiles.first + 1) * tile)
      found.insert(fmt::format("finite_bias/{}/first", tile));
  }
}

}  // namespace

void find_finite_biases(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                        const std::vector<bool>& judged, Found& found) {
  const Tensor& bias = tensors[ATTEST_BIAS];
  if (!bias) return;
  const PairTensors pairs(problem, tensors, geometry);
  each_sampled_row(problem, geometry, judged, pairs, kBiasRows, kBiasSeed, [&](const PairRow& row) {
    note(row, look_at(pairs, row, bias, geometry), found);
  });
}

}  // namespace attest::core::events
