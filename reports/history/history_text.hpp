// A history as text for a terminal, as rows for tables, and as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reports/history/history.hpp"

namespace attest::reports {

/// One quantity of a series, or one of its steps.
struct HistoryRow {
  std::string quantity, what;   // "time", "step"
  std::string started, commit;  // of the first run after it; of a drift, of its last run
  std::string before, after, change;
  std::string remark;  // what weakens it; may be empty
  bool is_step = false;
};

/// The names of the columns, and the cells of a row.
std::vector<std::string> history_columns();
std::vector<std::string> cells_of(const HistoryRow& row);

/// A row for each step; one that says "no step" or "too few runs" for a quantity without any.
std::vector<HistoryRow> history_rows(const CaseHistory& history);

/// "vit/a f16 flash, H200, 2 threads, Release: 20 runs, 2026-01-01T00:00:00Z to ...".
std::string history_title(const CaseHistory& history);

/// What the words mean, in sentences.
std::vector<std::string> history_legend();

/// Tables for a terminal. `steps_only`: without series that have no step; they are counted.
std::string print_history(const std::vector<CaseHistory>& all, bool steps_only);

/// As reports/history.schema.json describes it.
nlohmann::json to_json(const std::vector<CaseHistory>& all);

}  // namespace attest::reports
