// The history of cases: series of times, memory and errors over many runs, and their steps.
//
//   HistoryIndex index = HistoryIndex::open("history.sqlite");
//   for (const SeriesKey& key : index.keys()) print(history_of(index.series(key)));
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/statistics/steps.hpp"

namespace attest::reports {

/// What the runs of one series have in common. Two runs that differ in any of these belong to
/// different series: they solve different problems, or ran under different conditions.
struct SeriesKey {
  std::string suite, case_name, dtype, impl;  // as in a record's case key
  std::string spec, inputs;                   // the problem, and where its inputs come from
  std::string device, machine, build;         // the machine with its power mode; the kind of build
  int32_t threads = 1;

  auto operator<=>(const SeriesKey&) const = default;
  /// "vit/vit_b_16_224/self f16 flash_cuda".
  std::string name() const;
};

/// One run of a series.
struct HistoryPoint {
  std::string started;      // UTC, ISO 8601
  std::string commit;       // of attest; a library from elsewhere has its hash alone
  std::string plugin_hash;  // of the library
  std::string verdict;
  std::optional<double> time_ns, memory_bytes, error_ratio;  // of a pass, where measured

  /// Returns whether both runs have the same commit and the same library.
  bool same_build(const HistoryPoint& other) const;
};

struct HistorySeries {
  SeriesKey key;
  std::vector<HistoryPoint> points;  // in order of time
};

enum class Quantity { kTime, kMemory, kError };
inline constexpr std::array kQuantities{Quantity::kTime, Quantity::kMemory, Quantity::kError};

/// "time", "memory", "error".
std::string name(Quantity quantity);
/// "1.23 ms", "12.3 MiB", "0.31 of the gate".
std::string print_value(Quantity quantity, double value);
std::optional<double> value_of(const HistoryPoint& point, Quantity quantity);

/// One quantity of a series. Only points that have it count, and the steps number these points.
struct HistoryLine {
  Quantity quantity = Quantity::kTime;
  std::vector<size_t> at;      // the points of `values`, by their places in the series
  std::vector<double> values;  // one for each of these points
  core::Steps steps;
};

struct CaseHistory {
  HistorySeries series;
  std::vector<HistoryLine> lines;     // one for each quantity that some point has
  std::vector<std::string> warnings;  // sentences

  /// Returns the point of a value of the line.
  const HistoryPoint& point(const HistoryLine& line, size_t place) const;
  /// Return the last point before a step of the line and the first point after it; of a drift, its
  /// first and last point.
  const HistoryPoint& before(const HistoryLine& line, const core::Step& step) const;
  const HistoryPoint& after(const HistoryLine& line, const core::Step& step) const;
  bool has_steps() const;
};

/// Finds the steps of a series.
CaseHistory history_of(HistorySeries series, const core::StepRule& rule = {});

/// Returns how much `after` differs from `before`: "+5.1 %", or "from 0" if `before` is 0.
std::string print_change(double before, double after);

}  // namespace attest::reports
