// The shared library behind attest_conformance.hpp: the runner of the core, one test at a time.
#include "attest_conformance.hpp"

#include <fmt/format.h>

#include <cctype>
#include <optional>
#include <set>
#include <utility>

#include "core/device/device_kinds.hpp"
#include "core/operations/declaration.hpp"
#include "core/problem/glob.hpp"
#include "core/problem/spec.hpp"
#include "core/run/rooflines/rooflines.hpp"
#include "core/run/vectors/vector_runner.hpp"
#include "core/session/session.hpp"
#include "core/tensor/error.hpp"

namespace attest::conformance {
namespace {

using core::Record;

// A name of letters, digits, '_' and '/' alone.
std::string plain(const std::string& text) {
  std::string name;
  for (const char c : text)
    name += std::isalnum(static_cast<unsigned char>(c)) || c == '/' ? c : '_';
  return name;
}

// Returns 0 if the operation has no queries, or if the record has no spec line that can be read.
double queries_of(const Record& record) {
  try {
    return core::query_count(core::parse_problem(record.spec));
  } catch (const core::Error&) {
    return 0;
  }
}

std::optional<Times> times_of(const Record& record) {
  if (!record.time || !record.outcome.passes()) return {};
  const core::TimeRecord& time = *record.time;
  return Times{.median_ns = time.median_ns,
               .median_low_ns = time.median_low_ns,
               .median_high_ns = time.median_high_ns,
               .cold_median_ns = time.cold_median_ns,
               .runs = int64_t(time.samples_ns.size()) * time.iterations_per_sample,
               .flops = record.flops,
               .least_bytes = record.min_bytes,
               .queries = queries_of(record),
               .peak_bytes = double(record.memory.peak_bytes.value_or(0)),
               .roofline = record.roofline ? record.roofline->share : 0,
               .threads = record.threads};
}

Outcome outcome_of(const Record& record) {
  Outcome outcome{.kind = Outcome::Kind::kNotRun,
                  .verdict = std::string(name(record.outcome.verdict())),
                  .code = std::string(name(record.outcome.code)),
                  .reason = record.outcome.reason,
                  .spec = record.spec,
                  .arithmetic = record.arithmetic,
                  .max_ratio = record.max_ratio,
                  .rms_ratio = record.rms_ratio,
                  .times = times_of(record)};
  if (record.outcome.passes()) outcome.kind = Outcome::Kind::kPass;
  if (record.outcome.is_bad()) outcome.kind = Outcome::Kind::kBad;
  return outcome;
}

}  // namespace

struct Conformance::State {
  struct Asked {
    size_t job;
    std::optional<core::Registry::Entry> entry;  // none: the reference
  };

  std::optional<core::Implementations> implementations;
  std::optional<core::Session> session;
  std::optional<int32_t> timed_threads;      // set if tests are timed
  std::optional<core::Rooflines> rooflines;  // from the first timed test on
  std::vector<Test> tests;
  std::vector<Asked> asked;  // of each test
  std::set<std::pair<std::string, std::string>> names;

  explicit State(const Options& options) {
    core::Plan plan = plan_of(options);
    const core::Limits limits = core::settle(
        {.threads = options.threads, .timeout_s = options.timeout_s, .budget_s = options.budget_s});
    core::Selection selection{
        .plugins = options.plugins, .globs = options.impls, .option = "impls:"};
    selection.with_found = options.plugins.empty() || !options.impls.empty();
    implementations.emplace(selection, limits);
    session.emplace(std::move(plan), *implementations,
                    core::RunOptions{.limits = limits,
                                     .least = core::parse_min_arithmetic(options.min_arithmetic,
                                                                         core::all_operations()),
                                     .timed = options.timed,
                                     .golden_device = core::find_golden_device()});
    if (options.timed) timed_threads = limits.threads;
    name_tests();
  }

  static core::Plan plan_of(const Options& options) {
    const core::CaseFilter filter{.cases = options.cases,
                                  .dtypes = options.dtypes,
                                  .fills = {},
                                  .quick = options.quick,
                                  .lenient = true};
    core::Plan plan = core::plan_suites(options.suites, filter);
    plan.append(core::plan_vectors(options.vectors, filter));
    core::require_matches("cases:", options.cases, plan.names);
    if (!plan.suites.empty()) core::require_matches("dtypes:", options.dtypes, plan.dtypes);
    if (plan.jobs.empty()) throw core::Error("no case is left to judge: name suites or vectors");
    return plan;
  }

  void name_tests() {
    const std::vector<core::Job>& jobs = session->plan().jobs;
    for (size_t i = 0; i < jobs.size(); ++i) {
      const core::Job& job = jobs[i];
      const std::string group = plain(fmt::format("{}/{}{}{}", job.suite, job.case_name,
                                                  job.dtype.empty() ? "" : "/", job.dtype));
      if (job.is_vector()) add_test(i, group, std::string(core::kReference), {});
      for (const core::Registry::Entry& entry : implementations->chosen())
        if (entry.called(job.only_impls()))
          add_test(i, group, plain(entry.implementation->name), entry);
    }
  }

  void add_test(size_t job, const std::string& group, const std::string& name,
                std::optional<core::Registry::Entry> entry) {
    std::string unique = name;
    for (int n = 2; !names.emplace(group, unique).second; ++n)
      unique = fmt::format("{}_{}", name, n);
    tests.push_back({group, unique});
    asked.push_back({job, std::move(entry)});
  }
};

Conformance::Conformance(const Options& options) : state_(std::make_unique<State>(options)) {}

Conformance::~Conformance() = default;

const std::vector<Test>& Conformance::tests() const { return state_->tests; }

Outcome Conformance::run(size_t test) {
  const State::Asked& asked = state_->asked.at(test);
  Record record = state_->session->run_one(asked.job, asked.entry ? &*asked.entry : nullptr);
  if (state_->timed_threads) {
    if (!state_->rooflines) state_->rooflines.emplace(*state_->timed_threads);
    state_->rooflines->add(record);
  }
  return outcome_of(record);
}

}  // namespace attest::conformance
