#include "reports/scaling/scaling_tables.hpp"

#include <algorithm>

#include "reports/scaling/scaling.hpp"
#include "reports/scaling/scaling_words.hpp"

namespace attest::reports {
namespace {

/// Columns in which no row has anything are left out; the first stays.
void drop_empty_columns(ScalingTable& table) {
  for (size_t column = table.columns.size(); column-- > 1;) {
    const auto is_empty = [column](const auto& row) { return row[column].empty(); };
    if (!std::ranges::all_of(table.rows, is_empty)) continue;
    table.columns.erase(table.columns.begin() + std::ptrdiff_t(column));
    for (auto& row : table.rows) row.erase(row.begin() + std::ptrdiff_t(column));
  }
}

// Without a legend beside it, a sign would say too little.
std::string in_full(std::string cell) {
  if (!cell.starts_with('~')) return cell;
  return cell.substr(1) + ", extrapolated";
}

ScalingTable table_of(const ScalingSweep& sweep) {
  ScalingTable table{"Scaling of " + sweep.title(), {"implementation"}, {}};
  const std::vector<ScalingFact> facts = scaling_facts(sweep);
  for (const ScalingFact& fact : facts) table.columns.push_back(fact.title);
  for (const ScalingSeries* series : supporting_series(sweep)) {
    std::vector<std::string> row{series->impl};
    for (const ScalingFact& fact : facts) row.push_back(in_full(fact.cell(*series)));
    table.rows.push_back(std::move(row));
  }
  drop_empty_columns(table);
  return table;
}

ScalingTable crossovers(const Scaling& scaling) {
  ScalingTable table{"Crossovers", {"sweep", "which is faster"}, {}};
  for (const ScalingPair* pair : told_pairs(scaling))
    table.rows.push_back({scaling.sweeps[pair->first_sweep].title(), print_pair(*pair)});
  return table;
}

ScalingTable threads(const Scaling& scaling) {
  ScalingTable table{"Scaling over threads", {"implementation and size"}, {}};
  for (const StrongScaling& strong : scaling.strong) table.rows.push_back({print_strong(strong)});
  return table;
}

ScalingTable findings(const Scaling& scaling) {
  ScalingTable table{"Findings about memory", {"sweep", "implementation", "finding"}, {}};
  for (const ScalingSweep& sweep : scaling.sweeps)
    for (const ScalingSeries& series : sweep.series)
      if (!series.finding.empty())
        table.rows.push_back({sweep.title(), series.impl, series.finding});
  return table;
}

}  // namespace

std::vector<ScalingTable> scaling_tables(const core::Results& run) {
  const Scaling scaling = scaling_of(run.records);
  std::vector<ScalingTable> tables;
  for (const ScalingSweep& sweep : scaling.sweeps) tables.push_back(table_of(sweep));
  for (ScalingTable& table :
       std::vector<ScalingTable>{crossovers(scaling), threads(scaling), findings(scaling)})
    if (!table.rows.empty()) tables.push_back(std::move(table));
  return tables;
}

}  // namespace attest::reports
