#include "reports/words/noise.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/record/case_key.hpp"

namespace attest::reports {
namespace {

using core::Record;

constexpr double kNoisy = 0.1;  // interquartile range / median
constexpr size_t kNamed = 3;

bool spreads(const core::TimeRecord& time) {
  return time.q3_ns - time.q1_ns > kNoisy * time.median_ns;
}

}  // namespace

std::vector<std::string> noise_of(const Record& record) {
  if (!record.time) return {};
  std::vector<std::string> why;
  if (spreads(*record.time))
    why.push_back(
        fmt::format("half of its samples spread over {:.0f} % of the median",
                    100 * (record.time->q3_ns - record.time->q1_ns) / record.time->median_ns));
  if (record.noisy) why.insert(why.end(), record.noisy->begin(), record.noisy->end());
  return why;
}

void Noise::add(const Record& record) {
  if (!record.time) return;
  ++timed;
  if (!spreads(*record.time) && !record.noisy) return;
  ++noisy;
  spread += spreads(*record.time);
  disturbed += record.noisy.has_value();
  if (record.noisy)
    for (const std::string& reason : *record.noisy) ++reasons[reason];
  if (first.size() < kNamed) first.push_back(question_of(record).name());
}

void Noise::add(const std::vector<Record>& records) {
  for (const Record& record : records) add(record);
}

std::string Noise::print() const {
  if (noisy == 0) return "";
  std::vector<std::string> why;
  if (spread == noisy)
    why.push_back(fmt::format("half of {} samples spread over more than {:.0f} % of the median",
                              noisy == 1 ? "its" : "their", kNoisy * 100));
  else if (spread > 0)
    why.push_back(
        fmt::format("half of the samples of {} spread over more than {:.0f} % of the "
                    "median",
                    spread, kNoisy * 100));
  if (disturbed > 0) {
    const auto most =
        std::ranges::max_element(reasons, {}, [](const auto& reason) { return reason.second; });
    why.push_back(fmt::format("something happened to the machine during {}, as notes say: {}{}",
                              disturbed < noisy ? fmt::to_string(disturbed)
                              : noisy == 1      ? "it"
                                                : "them",
                              most->first, reasons.size() > 1 ? " ..." : ""));
  }
  return fmt::format("{} of {} times {} noisy: {}", noisy, timed, noisy == 1 ? "is" : "are",
                     fmt::join(why, "; "));
}

std::string Noise::names() const {
  if (noisy == 0) return "";
  return fmt::format("({}{})", fmt::join(first, ", "),
                     noisy > first.size() ? fmt::format(" and {} more", noisy - first.size()) : "");
}

}  // namespace attest::reports
