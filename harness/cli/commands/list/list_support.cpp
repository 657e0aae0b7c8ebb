#include "cli/commands/list/list_support.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/measure/limits/probe.hpp"
#include "core/session/session.hpp"
#include "reports/words/units.hpp"

namespace attest::cli {
namespace {

using core::Record;

// A limit that no estimate reaches: a problem is slow, but not refused.
constexpr double kAnyTime_s = 1e9;

/// `record`: of a session that runs nothing.
void print_problem(const Record& record) {
  fmt::print("{}: {}, {} of tensors\n", record.spec, reports::print_flops(record.flops),
             reports::print_bytes(record.min_bytes));
}

/// Measures the CPU, which takes most of a second.
void print_estimate(const Record& record, int threads) {
  const core::Probe probe = core::probe_machine(threads);
  const double gflops = probe.fma().gflops.all, gbs = probe.memory().read_gbs.all;
  const double least_ns = std::max(record.flops / gflops, record.min_bytes / gbs);
  fmt::print(
      "estimate: a run takes at least {}, as {} thread{} of this machine reach{} {} GFLOP/s and "
      "{} GB/s\n",
      reports::print_time(least_ns), probe.threads, probe.threads == 1 ? "" : "s",
      probe.threads == 1 ? "es" : "", reports::three_digits(gflops), reports::three_digits(gbs));
}

bool is_on_cpu(const core::Registry::Entry& entry) {
  return entry.implementation->device == ATTEST_CPU;
}

std::string answer(const Record& record) {
  const core::Outcome& outcome = record.outcome;
  if (outcome.passes())
    return fmt::format(
        "yes, fits: needs {}, {} of it workspace; {}", reports::print_bytes(record.estimated_bytes),
        reports::print_bytes(double(record.memory.workspace_bytes)), record.arithmetic);
  if (outcome.code == core::ReasonCode::kSkippedMemory)
    return "yes, does not fit: " + outcome.reason;
  if (outcome.code == core::ReasonCode::kSkippedTime)
    return "yes, takes too long: " + outcome.reason;
  const bool refused = outcome.verdict() == core::Verdict::kUnsupported;
  return fmt::format("{}: {}", refused ? "no" : name(outcome.verdict()), outcome.reason);
}

}  // namespace

void list_support(const std::string& spec, PluginOptions& options) {
  core::Plan plan = core::plan_spec({.spec = spec}, {}, "list");
  const core::Implementations implementations = options.load();
  core::RunOptions run{.limits = options.limits, .dry_run = true};
  run.limits.case_limit_s = kAnyTime_s;
  core::Session session(std::move(plan), implementations, run);
  const size_t width = implementations.name_width();
  bool is_first = true;
  for (const core::Registry::Entry& entry : implementations.chosen()) {
    const Record record = session.run_one(0, &entry);
    if (is_first) {
      print_problem(record);
      if (std::ranges::any_of(implementations.chosen(), is_on_cpu))
        print_estimate(record, run.limits.threads);
    }
    is_first = false;
    fmt::print("{:<{}} {}\n", record.impl, width, answer(record));
  }
}

}  // namespace attest::cli
