#include "reports/compare/memory.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace attest::reports {
namespace {

using core::Change;
using core::Changed;
using core::Record;
using Records = std::vector<const Record*>;

// By which peaks differ from process to process, and by which their pairs do
constexpr double kPeak_bytes = 1 << 20, kPairedPeak_bytes = 1 << 16;

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

/// The largest peak of a launch; median 0: none was measured.
core::Launch peak(const Records& records) {
  if (records.empty() || !are_measured(records)) return {};
  return {.median = std::ranges::max(bytes_of(records)), .resolution = kPairedPeak_bytes};
}

}  // namespace

Changed compare_memory(const Side& before, const Side& after, const Key& key, bool in_turns,
                       const core::ChangeRule& rule) {
  const Records was = all_records(before, key), is = all_records(after, key);
  const bool measured = are_measured(was);
  if (measured != are_measured(is)) return {.change = Change::kInvalid, .code = "not-measured"};
  const Changed all =
      core::compare_exact(bytes_of(was), bytes_of(is), rule.band, measured ? kPeak_bytes : 0);
  if (!in_turns || !measured || all.change != Change::kSame) return all;
  std::vector<core::Launch> peaks_before, peaks_after;
  for (size_t i = 0; i < before.size(); ++i) {
    const core::Launch b = peak(before[i].find(key)), a = peak(after[i].find(key));
    if (b.median > 0 && a.median > 0) peaks_before.push_back(b), peaks_after.push_back(a);
  }
  const Changed pairs =
      core::compare_launches(peaks_before, peaks_after, true, {.band = rule.band});
  const bool is_decided = pairs.change == Change::kWorse || pairs.change == Change::kBetter;
  return pairs.paired && is_decided ? pairs : all;
}

}  // namespace attest::reports
