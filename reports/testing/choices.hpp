// Records to choose from, and the choices among them, for tests.
#pragma once
#include <fmt/format.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reports/choice/choice.hpp"
#include "reports/testing/records.hpp"

namespace attest::reports {

using core::Record;

/// Passes in 10 ns (9 to 11, 15 at most) with 0.4 of its gate and 100 bytes, at 1,000 tokens.
inline Record taken(const std::function<void(Record&)>& change = [](Record&) {}) {
  Record record = attest::testing::passed("a");
  record.spec = "softmax dtype=f16 seq_len_q=1000 head_dim=64";
  record.max_ratio = 0.4;
  record.memory = {};
  record.memory.peak_bytes = 100;
  record.time->median_ns = 10;
  record.time->median_low_ns = 9;
  record.time->median_high_ns = 11;
  record.time->max_ns = 15;
  change(record);
  return record;
}

inline Record sized(int64_t tokens, double ns, core::ReasonCode code = core::ReasonCode::kPass) {
  return taken([&](Record& r) {
    r.case_name = fmt::format("n{}", tokens);
    r.spec = fmt::format("softmax dtype=f16 seq_len_q={} head_dim=64", tokens);
    r.outcome.code = code;
    core::TimeRecord& time = *r.time;
    time.median_ns = time.median_low_ns = time.median_high_ns = time.max_ns = ns;
  });
}

inline Choice chosen_from(std::vector<Record> records, std::optional<int64_t> tokens,
                          const ChoiceLimits& limits) {
  static Input input;  // outlives the choice
  input.runs = {attest::testing::file(std::move(records))};
  const std::vector<ProblemRecords> problems = tokens ? families(input) : cases(input);
  return choose(problems.at(0), tokens, limits);
}

/// "b usable, a rejected deadline".
inline std::string answer_of(std::vector<Record> records, const ChoiceLimits& limits,
                             std::optional<int64_t> tokens = {}) {
  std::string text;
  for (const Candidate& one : chosen_from(std::move(records), tokens, limits).candidates)
    text += fmt::format("{}{} {}{}{}", text.empty() ? "" : ", ", one.impl, name(one.usable),
                        one.limit.empty() ? "" : " ", one.limit);
  return text;
}

/// Skipped on a CPU, where a run was estimated to take so long; declares 50 bytes of workspace.
inline Record skipped(double estimated_ns, int64_t tokens = 1000) {
  Record record = sized(tokens, 1, core::ReasonCode::kSkippedTime);
  record.device = "cpu";
  record.time.reset();
  record.estimated_ns = estimated_ns;
  record.memory = {};
  record.memory.workspace_bytes = 50;
  record.repro =
      "attest repro --impl a --inputs 'x y' --threads 2 --timeout 9s --case-limit 8s "
      "'softmax'";
  return record;
}

}  // namespace attest::reports
