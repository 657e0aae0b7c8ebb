#include "reports/projection/basis.hpp"

#include <fmt/format.h>

#include <cmath>

#include "reports/projection/gpu.hpp"
#include "reports/words/units.hpp"

namespace attest::reports {
namespace {

// Below, the cost of a launch decides, which is not known on the board.
constexpr double kLeastGpu_ns = 10e3, kLeastCpu_ns = 10e3;

bool is_reads(const std::string& limit) { return limit.ends_with(" reads"); }

Bound bound_of(const core::RooflineRecord& roofline) {
  return {.ns = roofline.least_ns, .limit = roofline.limit, .reads = is_reads(roofline.limit)};
}

}  // namespace

Basis basis_of(const core::Record& record, const core::Results& file) {
  Basis basis;
  const auto none = [&](std::string why) {
    basis.bound = MaybeBound::none(std::move(why));
    return basis;
  };
  if (record.outcome.verdict() == core::Verdict::kSkipped) return none("it was skipped");
  if (!record.outcome.passes()) return none("it did not pass");
  if (!record.time || record.time->median_ns <= 0) return none("it was not timed");
  if (record.noisy) return none("its machine was disturbed while it was timed");
  if (record.device == "cuda") {
    std::string why;
    const std::optional<GpuLimits> gpu = gpu_of(file, record, why);
    if (!gpu) return none(std::move(why));
    if (record.time->median_ns < kLeastGpu_ns)
      return none(fmt::format("it takes {}, of which the cost of a launch is not known",
                              print_time(record.time->median_ns)));
    basis.bound = bound_on(*gpu, record);
  } else if (!record.roofline) {
    return none("what limits it is not known: it has no roofline");
  } else if (record.time->median_ns < kLeastCpu_ns) {
    return none(fmt::format("it takes {}, of which the start of threads is not known",
                            print_time(record.time->median_ns)));
  } else {
    basis.bound.bound = bound_of(*record.roofline);
  }
  if (!basis.bound.bound) return basis;
  basis.share = basis.bound.bound->ns / record.time->median_ns;
  if (!std::isfinite(basis.share) || basis.share <= 0)
    return none("its time or its limit is no finite number above 0");
  if (basis.share > 1)
    return none(
        fmt::format("it took {:.0f} % of the least time that {} allow: they are not its "
                    "limit, or its tiles are others",
                    100 / basis.share, basis.bound.bound->limit));
  return basis;
}

}  // namespace attest::reports
