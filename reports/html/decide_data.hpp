// What the page's Decide has to know of a record beside what other parts of the page show.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "core/record/results.hpp"

namespace attest::reports::html {

/// Adds to the data of a record who ran it (`processor`), how it and its problem are measured
/// (`options` and `subject`, which reports/choice/measuring.hpp describes), the estimated time of a
/// skipped case (`estimated`), and how it was judged, if only in part (`in_part`).
void add_decide_data(const core::Results& run, const core::Record& record, nlohmann::json& data);

}  // namespace attest::reports::html
