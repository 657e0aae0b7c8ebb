// A history as text for a terminal, as rows for tables, and as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reports/history/history.hpp"

namespace attest::reports {

/// A row of a table: a step of a quantity, or a quantity without steps.
struct HistoryRow {
  std::string quantity, what;   // "time", "step"
  std::string started, commit;  // of the first run after a step, or of the first of a drift
  std::string before, after, change;
  std::string remark;  // where to look, or what weakens the step; may be empty
  bool is_step = false;
};

/// Return the names of the columns and the cells of a row.
std::vector<std::string> history_columns();
std::vector<std::string> cells_of(const HistoryRow& row);

/// Returns a row for each step. A quantity without steps has one row, which says "no step" or "too
/// few runs".
std::vector<HistoryRow> history_rows(const CaseHistory& history);

/// Returns "vit/a f16 flash, H200, 2 threads, Release: 20 runs, 2026-01-01T00:00:00Z to ...".
std::string history_title(const CaseHistory& history);

/// Returns sentences that say what the words of the rows mean.
std::vector<std::string> history_legend();

/// Returns tables for a terminal. If `steps_only` is true, series without steps are counted, but
/// not shown.
std::string print_history(const std::vector<CaseHistory>& all, bool steps_only);

/// Returns what reports/history.schema.json describes.
nlohmann::json to_json(const std::vector<CaseHistory>& all);

}  // namespace attest::reports
