#include "reports/projection/calibration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "core/record/case_key.hpp"
#include "core/tensor/error.hpp"
#include "reports/projection/basis.hpp"
#include "reports/words/machine.hpp"

namespace attest::reports {
namespace {

using SameCase = std::tuple<core::CaseKey, std::string, std::string>;
SameCase same_case(const core::Record& r) { return {core::question_of(r), r.spec, r.inputs}; }

}  // namespace

std::optional<double> Spread::factor() const {
  std::vector<double> off;  // in either direction
  for (const double ratio : ratios) off.push_back(std::abs(std::log(ratio)));
  std::ranges::sort(off);
  const auto rank = size_t(std::ceil(double(off.size() + 1) * kLevel));
  if (rank > off.size()) return std::nullopt;
  return std::exp(off[rank - 1]);
}

std::optional<double> Calibration::factor(const LimitKind& kind) const {
  const auto at = spreads.find(kind);
  return at == spreads.end() ? std::nullopt : at->second.factor();
}

Calibration calibrate(const core::Results& from, const core::Results& to) {
  Calibration calibration{.from = machine(from), .to = machine(to), .spreads = {}};
  if (calibration.from == calibration.to)
    throw core::Error(fmt::format("{} and {} are both of {}: --calibrate needs two machines",
                                  from.path, to.path, calibration.from));
  std::map<SameCase, const core::Record*> there;
  for (const core::Record& record : to.records) there[same_case(record)] = &record;
  for (const core::Record& record : from.records) {
    const auto at = there.find(same_case(record));
    if (at == there.end()) continue;
    const Basis here = basis_of(record, from), target = basis_of(*at->second, to);
    if (!here.bound.bound || !target.bound.bound || here.share < kLeastShare) continue;
    if (here.bound.bound->reads != target.bound.bound->reads ||
        record.device != at->second->device) {
      ++calibration.other_limits;
      continue;
    }
    // measured / (least there / share here)
    calibration.spreads[{record.device, here.bound.bound->reads}].ratios.push_back(here.share /
                                                                                   target.share);
  }
  for (auto& [kind, spread] : calibration.spreads) std::ranges::sort(spread.ratios);
  if (calibration.spreads.empty())
    throw core::Error(
        fmt::format("{} and {} have no case in common whose limits are known", from.path, to.path));
  return calibration;
}

}  // namespace attest::reports
