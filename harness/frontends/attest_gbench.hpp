// This header makes a benchmark of Google Benchmark from every (implementation, case). The filters
// and reports of Google Benchmark work on them, and so does its compare.py.
//
//   #include <attest_gbench.hpp>
//   int main(int argc, char** argv) {
//     // plugins, suites, vectors ...
//     return attest::gbench::run(argc, argv, {{"./mine.so"}, {"smoke"}});
//   }
//
//   mine_benchmark --benchmark_filter='smoke/softmax/.*/mine/'
//
// attest_conformance.hpp says how the names are made.
#pragma once
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attest_conformance.hpp"

namespace attest::gbench {

using conformance::Options;

/// Counts over the benchmarks that have run so far.
struct Tally {
  int bad = 0;  // how many implementations failed, crashed or ran out of time
};

/// Sets the counters of one benchmark. Rates are what one run does, divided by the median time.
inline void count(benchmark::State& state, const conformance::Outcome& outcome) {
  const conformance::Times& times = *outcome.times;
  const auto put = [&](const char* name, double value) {
    if (value > 0) state.counters[name] = value;
  };
  put("FLOP/s", times.flops / times.median_ns * 1e9);
  put("bytes/s", times.least_bytes / times.median_ns * 1e9);
  put("tokens/s", times.queries / times.median_ns * 1e9);
  put("bytes", times.least_bytes);
  put("peak_bytes", times.peak_bytes);
  put("roofline", times.roofline);
  put("runs", double(times.runs));
  put("median_low_ns", times.median_low_ns);
  put("median_high_ns", times.median_high_ns);
  put("cold_median_ns", times.cold_median_ns);
  put("impl_threads", times.threads);
  state.counters["max_ratio"] = outcome.max_ratio;
}

/// Judges and times one (implementation, case). attest's worker process runs the implementation and
/// takes the samples. The benchmark has one iteration, whose time is that of the median run. If the
/// implementation has no time, the benchmark has an error that gives the reason.
inline void measure(benchmark::State& state, conformance::Conformance& all, std::size_t index,
                    Tally& tally) {
  const conformance::Outcome outcome = all.run(index);
  tally.bad += outcome.kind == conformance::Outcome::Kind::kBad;
  if (!outcome.times) {
    const std::string why = outcome.verdict + " (" + outcome.code + "): " + outcome.reason;
    state.SkipWithError(why.c_str());
    return;
  }
  for (auto _ : state) state.SetIterationTime(outcome.times->median_ns * 1e-9);
  count(state, outcome);
}

/// Registers the benchmarks; to be called before benchmark::RunSpecifiedBenchmarks. Throws
/// std::runtime_error as the constructor of conformance::Conformance does.
inline std::shared_ptr<const Tally> add(Options options) {
  options.timed = true;
  const auto all = std::make_shared<conformance::Conformance>(options);
  const auto tally = std::make_shared<Tally>();
  for (std::size_t i = 0; i < all->tests().size(); ++i) {
    const conformance::Test& test = all->tests()[i];
    benchmark::RegisterBenchmark(
        (test.group + "/" + test.name).c_str(),
        [all, i, tally](benchmark::State& state) { measure(state, *all, i, *tally); })
        ->Iterations(1)
        ->UseManualTime();
  }
  return tally;
}

/// Writes Google Benchmark's JSON in a form that compare.py reads rightly. The CPU time of an entry
/// is its wall time: attest measures no CPU time, and Google Benchmark would write that of this
/// process, which only waits. Google Benchmark writes 0 if an entry has no time, and compare.py
/// would take that for infinitely fast. Such an entry gets a name of its own, which ends in
/// "(no time)", so compare.py does not compare it with an entry that has a time.
class JsonReporter : public benchmark::JSONReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<Run> changed = runs;
    for (Run& run : changed) {
      run.cpu_accumulated_time = run.real_accumulated_time;
      if (run.iterations == 0) run.run_name.function_name += " (no time)";
    }
    benchmark::JSONReporter::ReportRuns(changed);
  }
};

/// The value of Google Benchmark's option `name`, from the arguments or from the environment.
inline std::string option(int argc, char** argv, const char* name, const char* variable) {
  const char* given = std::getenv(variable);
  std::string value = given ? given : "";
  const std::string prefix = std::string("--") + name + "=";
  for (int i = 1; i < argc; ++i)
    if (const std::string_view argument = argv[i]; argument.substr(0, prefix.size()) == prefix)
      value = argument.substr(prefix.size());
  return value;
}

/// A complete main(), with Google Benchmark's options. Returns 0 if no implementation was bad, 1 if
/// one was, 64 if the options are wrong.
inline int run(int argc, char** argv, Options options) {
  const std::string out = option(argc, argv, "benchmark_out", "BENCHMARK_OUT"),
                    out_format = option(argc, argv, "benchmark_out_format", "BENCHMARK_OUT_FORMAT"),
                    format = option(argc, argv, "benchmark_format", "BENCHMARK_FORMAT");
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 64;
  std::shared_ptr<const Tally> tally;
  try {
    tally = add(std::move(options));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 64;
  }
  JsonReporter file, json;
  benchmark::BenchmarkReporter *screen_reporter = format == "json" ? &json : nullptr,
                               *file_reporter =
                                   !out.empty() && (out_format.empty() || out_format == "json")
                                       ? &file
                                       : nullptr;
  benchmark::RunSpecifiedBenchmarks(screen_reporter, file_reporter);
  benchmark::Shutdown();
  return tally->bad ? 1 : 0;
}

}  // namespace attest::gbench
