#include "reports/projection/projected.hpp"

#include <algorithm>

namespace attest::reports {

size_t Projected::count() const {
  size_t times = 0;
  for (const ProjectedFile& one : files)
    times += size_t(
        std::ranges::count_if(one.projections, [](const auto& each) { return each.ns > 0; }));
  return times;
}

Projected project_all(std::span<const core::Results> files, const ProjectionTarget& target,
                      const std::function<bool(const core::Record&)>& is_wanted) {
  Projected projected{.target = &target,
                      .calibration = target.calibration ? &*target.calibration : nullptr,
                      .files = {}};
  const Calibration& calibration =
      projected.calibration ? *projected.calibration : calibration_of_cores();
  for (const core::Results& file : files) {
    ProjectedFile& one = projected.files.emplace_back();
    one.file = &file;
    for (const core::Record& record : file.records)
      if (record.outcome.verdict() != core::Verdict::kUnsupported &&
          (!is_wanted || is_wanted(record))) {
        one.projections.push_back(project(record, file, *target.board, &calibration));
        if (one.projections.back().low_ns) projected.calibration = &calibration;
      }
  }
  return projected;
}

}  // namespace attest::reports
