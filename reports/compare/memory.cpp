#include "reports/compare/memory.hpp"

#include <algorithm>
#include <vector>

namespace attest::reports {
namespace {

using core::Change;
using core::Changed;
using core::Record;
using Records = std::vector<const Record*>;

constexpr double kPeak_bytes = 1 << 20;        // peaks of processes differ by that much
constexpr double kPairedPeak_bytes = 1 << 16;  // the medians of pairs of launches do

double bytes_of(const Record& record) {
  const core::MemoryRecord& memory = record.memory;
  return double(
      memory.peak_bytes.value_or(memory.workspace_bytes + memory.pool_peak_bytes.value_or(0)));
}

std::vector<double> bytes_of(const Records& records) {
  std::vector<double> all;
  for (const Record* record : records) all.push_back(bytes_of(*record));
  return all;
}

bool are_measured(const Records& records) {
  return std::ranges::all_of(
      records, [](const Record* record) { return record->memory.peak_bytes.has_value(); });
}

/// The largest peak of a launch that has records of it.
core::Launch peak(const Records& records) {
  // At least a byte, because ratios are compared.
  return {.median = std::max(1.0, std::ranges::max(bytes_of(records))),
          .resolution = kPairedPeak_bytes};
}

}  // namespace

Changed compare_memory(const Side& before, const Side& after, const Key& key, bool in_turns,
                       const core::ChangeRule& rule) {
  const Records was = all_records(before, key), is = all_records(after, key);
  const bool measured = are_measured(was);
  if (measured != are_measured(is)) return {.change = Change::kInvalid, .code = "not-measured"};
  Changed all =
      core::compare_exact(bytes_of(was), bytes_of(is), rule.band, measured ? kPeak_bytes : 0);
  if (!in_turns || !measured || all.change != Change::kSame) return all;
  std::vector<core::Launch> peaks_before, peaks_after;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i].find(key).empty() || after[i].find(key).empty()) continue;
    peaks_before.push_back(peak(before[i].find(key)));
    peaks_after.push_back(peak(after[i].find(key)));
  }
  core::ChangeRule of_pairs = rule;
  of_pairs.floor = of_pairs.paired_floor = {};  // of times
  Changed pairs = core::compare_launches(peaks_before, peaks_after, true, of_pairs);
  if (!pairs.paired) return all;
  if (pairs.change == Change::kWorse || pairs.change == Change::kBetter) return pairs;
  all.paired = true;  // it counts among the cases that account_for_family corrects for
  all.p = pairs.p;
  return all;
}

}  // namespace attest::reports
