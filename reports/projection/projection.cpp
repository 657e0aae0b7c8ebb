#include "reports/projection/projection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports/projection/gpu.hpp"
#include "reports/words/units.hpp"

namespace attest::reports {
namespace {

// Of a core there are units for f32 and f16. A share of a unit that the board lacks says nothing.
MaybeBound bound_on_cores(const BoardMode& board, const core::Record& record, const Bound& there,
                          int cores) {
  if (there.reads)
    return MaybeBound::none(
        fmt::format("its limit is {}, and the rate of the cores of {} is not "
                    "known",
                    there.limit, board.module->name));
  const std::string dtype = there.limit.substr(0, there.limit.find(' '));
  if (dtype != "f32" && dtype != "f16")
    return MaybeBound::none(
        fmt::format("its limit is {}, for which {} has no units", there.limit, board.module->name));
  const double flops = dtype == "f32" ? kA78Flops32 : kA78Flops16;  // a clock and core
  const Bound arithmetic{.ns = record.flops / (cores * board.cpu_mhz * 1e-3 * flops),
                         .limit = dtype + " NEON"};
  const auto& intensity = record.roofline->flops_per_byte;
  if (intensity && record.flops / *intensity / board.memory_gbs() > arithmetic.ns)
    return {Bound{.ns = record.flops / *intensity / board.memory_gbs(),
                  .limit = "memory reads",
                  .reads = true},
            {}};
  return {arithmetic, {}};
}

CoreUse core_use(const core::Record& record, const BoardMode& board) {
  const int threads = std::max(record.threads, 1);
  return {.threads = threads, .cores = std::min(threads, board.cores), .all_cores = board.cores};
}

// Of a record whose limit is known.
MaybeBound bound_there(const Projection& projection, const BoardMode& board) {
  const core::Record& record = *projection.record;
  const Bound& here = *projection.basis.bound.bound;
  if (projection.basis.share < kLeastShare)
    return MaybeBound::none(
        fmt::format("it reaches {:.1f} % of what {} allow, less than a sixteenth: they are not its "
                    "limit",
                    100 * projection.basis.share, here.limit));
  return projection.cores ? bound_on_cores(board, record, here, projection.cores->cores)
                          : bound_on(gpu_of(board), record);
}

std::string refusal(const Projection& projection, const MaybeBound& board, const BoardMode& mode) {
  if (!board.bound) return board.why;
  const Bound &from = *projection.basis.bound.bound, &to = *board.bound;
  if (from.reads != to.reads)
    return fmt::format(
        "{} limit it where it was measured, and {} would on {}: a share of the one says nothing of "
        "the other; it takes at least {}",
        from.limit, to.limit, mode.module->name, print_time(to.ns));
  return {};
}

}  // namespace

Projection project(const core::Record& record, const core::Results& file, const BoardMode& board,
                   const Calibration* calibration) {
  Projection projection{.record = &record,
                        .basis = basis_of(record, file),
                        .bound = {},
                        .cores = {},
                        .low_ns = {},
                        .high_ns = {},
                        .why = {}};
  if (!projection.basis.bound.bound) {
    projection.why = projection.basis.bound.why;
    return projection;
  }
  if (record.device != "cuda") projection.cores = core_use(record, board);
  const MaybeBound there = bound_there(projection, board);
  projection.bound = there.bound;
  projection.why = refusal(projection, there, board);
  if (!projection.why.empty()) return projection;
  const double ns = there.bound->ns / projection.basis.share;
  if (!std::isfinite(ns) || ns <= 0) {
    projection.why = "its operations or its bytes are no finite number above 0";
    return projection;
  }
  projection.ns = ns;
  if (calibration)
    if (const auto factor = calibration->factor({record.device, there.bound->reads})) {
      projection.low_ns = std::max(projection.ns / *factor, there.bound->ns);
      projection.high_ns = projection.ns * *factor;
    }
  return projection;
}

}  // namespace attest::reports
