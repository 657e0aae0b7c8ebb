#include "reports/bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <tuple>
#include <vector>

#include "reports/table.hpp"
#include "reports/words/escape.hpp"
#include "reports/words/limits.hpp"
#include "reports/words/titles.hpp"
#include "reports/words/units.hpp"

namespace attest::reports {
namespace {

using core::Record;
using core::Verdict;
constexpr double kWantedCoverage = 0.95;  // of the interval of a median

using Block = std::vector<const Record*>;  // the records of one problem

/// The peak rates that the header of the results has; 0: unknown.
struct Peaks {
  double gflops = 0, gbs = 0;
  std::string threads;
};

Peaks peaks_of(const core::Header& header) {
  const auto limits = header.environment.find("limits");
  if (limits == header.environment.end()) return {};
  const auto text = [&](const char* key) {
    const auto at = limits->second.find(key);
    return at == limits->second.end() ? std::string() : at->second;
  };
  return {std::strtod(text("all_fma_gflops").c_str(), nullptr),
          std::strtod(text("all_read_gbs").c_str(), nullptr), text("threads")};
}

bool is_ranked(const Record& record) { return record.outcome.passes() && record.time.has_value(); }

// Bytes of all tensors per nanosecond.
double gbs(const Record& record) { return record.min_bytes / record.time->median_ns; }

// With too few samples, the interval of the median is that of all samples.
bool has_few_samples(const Record& record) { return record.time->coverage < kWantedCoverage; }

std::string row(const Record& record) {
  if (!record.time) return "  " + printable(record.outcome.reason);
  const core::TimeRecord& time = *record.time;
  const std::string high = print_time(time.median_high_ns) + (has_few_samples(record) ? "*" : "");
  return fmt::format(
      " {:>9} {:>9} .. {:<10} {:>7} {:>7} {:>9}  {:<17} {:>9}", print_time(time.median_ns),
      print_time(time.median_low_ns), high, three_digits(record.gflops()),
      three_digits(gbs(record)), roofline_share(record),
      record.roofline ? printable(record.roofline->limit) : "",
      record.memory.peak_bytes ? print_bytes(double(*record.memory.peak_bytes)) : "");
}

std::string faster(double ratio) {
  return ratio < 1.1 ? fmt::format("{:.2f}x", ratio)
                     : fmt::format("{:.{}f}x", ratio, ratio < 10 ? 1 : 0);
}

// `block`: by time.
std::string conclusion(const Block& block) {
  const auto any = [&](auto is) {
    return std::ranges::any_of(block, [&](const Record* record) { return is(record->outcome); });
  };
  Block ranked = block;
  std::erase_if(ranked, [](const Record* record) { return !is_ranked(*record); });
  if (ranked.empty())
    return any([](const core::Outcome& o) { return o.passes(); }) ? "those that pass were not timed"
           : any([](const core::Outcome& o) { return o.is_bad(); }) ? "none passes"
                                                                    : "none was run";
  const Record& best = *ranked[0];
  if (ranked.size() == 1) return fmt::format("only {} passes", best.impl);
  const Record& next = *ranked[1];
  if (best.time->median_high_ns >= next.time->median_low_ns)
    return fmt::format(
        "fastest that passes: {}; {} may be as fast, since the intervals of their medians overlap",
        best.impl, next.impl);
  return fmt::format("fastest that passes: {}, {} as fast as the next, {}", best.impl,
                     faster(next.time->median_ns / best.time->median_ns), next.impl);
}

// Passing records by time, then the others by verdict.
void sort(Block& block) {
  const auto key = [](const Record* record) {
    return std::tuple(!is_ranked(*record), record->outcome.verdict(),
                      record->time ? record->time->median_ns : 0.0);
  };
  std::ranges::stable_sort(block, {}, key);
}

std::string heading(const Record& record) {
  return fmt::format("{}{}: {}, {} of tensors\n",
                     record.suite.empty() ? "" : case_title(record) + ": ", printable(record.spec),
                     print_flops(record.flops), print_bytes(record.min_bytes));
}

std::string print_block(Block block, bool colour) {
  size_t width = 14;
  for (const Record* record : block) width = std::max(width, record->impl.size());
  sort(block);
  std::string text = heading(*block.front());
  text +=
      fmt::format("  {:<{}}  {:<11} {:>9} {:^23} {:>7} {:>7} {:>9}  {:<17} {:>9}\n", "", width,
                  "verdict", "time", "interval", "GFLOP/s", "GB/s", "roofline", "limit", "memory");
  std::string refusals;
  for (const Record* record : block) {
    if (record->outcome.verdict() == Verdict::kUnsupported) {
      refusals += fmt::format("  {:<{}}  {}\n", printable(record->impl), width,
                              printable(record->outcome.reason));
      continue;
    }
    text += fmt::format("  {:<{}}  {}{}\n", printable(record->impl), width,
                        verdict_column(record->outcome.verdict(), colour), row(*record)) +
            print_hints(*record, width);
  }
  if (!refusals.empty()) text += "do not take it:\n" + refusals;
  return text + conclusion(block) + "\n";
}

std::string roofline_legend(const core::Results& results, const Peaks& peaks) {
  const auto has_roofline = [&](bool of_cpu) {
    return std::ranges::any_of(results.records, [&](const Record& record) {
      return record.roofline && (record.device == "cpu") == of_cpu;
    });
  };
  const bool of_cpu = peaks.gflops > 0 && has_roofline(true), of_gpu = has_roofline(false);
  if (!of_cpu && !of_gpu) return {};
  std::string text =
      "roofline: the least time that the limits of this machine allow, as a share of the median; "
      "limit: which binds";
  if (of_cpu)
    text += fmt::format(
        ". Measured on {2} thread{3}: {0} GFLOP/s of float32 multiply-adds, {1} GB/s of reads from "
        "memory",
        three_digits(peaks.gflops), three_digits(peaks.gbs), peaks.threads,
        peaks.threads == "1" ? "" : "s");
  if (of_gpu) text += ". A GPU's limits follow from its units and clocks";
  return text + "\n";
}

std::string legend(const core::Results& results, const Peaks& peaks) {
  const bool any_few = std::ranges::any_of(results.records, [](const Record& record) {
    return is_ranked(record) && has_few_samples(record);
  });
  std::string text = fmt::format(
      "interval: of the median, {:.0f} %{}; GB/s: as if each tensor were moved once; memory: peak "
      "beyond the tensors\n",
      kWantedCoverage * 100,
      any_few ? " (*: too few samples for that; from least to largest)" : "");
  text += roofline_legend(results, peaks);
  if (const std::string excess = print_excess(results.records); !excess.empty())
    text += "warning: " + excess + "\n";
  return text;
}

}  // namespace

std::string print_bench(const core::Results& results, bool colour) {
  const Peaks peaks = peaks_of(results.header);
  std::string text;
  for (const Block& block : by_case(results.records)) text += print_block(block, colour) + "\n";
  if (std::ranges::any_of(results.records, is_ranked)) text += legend(results, peaks);
  return text + cut_short(results);
}

}  // namespace attest::reports
