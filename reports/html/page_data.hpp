// The data of a page: what its script draws.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "reports/input/input.hpp"

namespace attest::reports::html {

/// The runs and records of the input, charts, tables of scaling, axes, and the words that explain
/// reason codes. `left_out`: how many records it lacks.
nlohmann::json page_data(const Input& input);

}  // namespace attest::reports::html
