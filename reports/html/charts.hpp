// The charts of the page: Vega-Lite specifications as data. reports/html/charts.js draws them, or
// shows their data as tables.
#pragma once
#include <nlohmann/json_fwd.hpp>

namespace attest::reports::html {

/// The charts of a page, in their order: [{id, section, title, about, columns, spec}]. A row of a
/// chart's data is a record that has a number for every column {field, title, from, factor}: `from`
/// is where the page's record has it ("time.median"), and it is multiplied by `factor`. Of a chart
/// with `front`, two fields, rows have a field `front` that says whether they are on the Pareto
/// front of their case. The fields impl, title, dtype, panel (what may be compared) and series are
/// in each row.
nlohmann::json charts();

/// Colours, fonts and axes of all charts: a Vega-Lite config.
nlohmann::json chart_config();

}  // namespace attest::reports::html
