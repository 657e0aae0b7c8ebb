// Fits, crossovers and largest sizes as JSON, for programs.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "reports/scaling/scaling.hpp"

namespace attest::reports {

/// The member `scaling` of reports/summary.schema.json describes it.
nlohmann::json to_json(const Scaling& scaling);

}  // namespace attest::reports
