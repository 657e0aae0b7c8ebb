// The functions that print the formats, one file each; formats.cpp enters them in its table.
#pragma once
#include <string>

#include "reports/input/input.hpp"
#include "reports/style.hpp"

namespace attest::reports {

/// The table that a run ends with, for each run.
std::string print_terminal(const Input& input, const Style& style);
/// For each case the implementations by speed.
std::string print_bench_format(const Input& input, const Style& style);
/// How implementations scale, from the records of sweeps.
std::string print_scaling_format(const Input& input, const Style& style);
/// A summary: the sentence, counts, the worst records, then all verdicts and reasons in parts that
/// open on a click. Rows are left out and counted where it would be larger than 900 kB.
std::string print_markdown(const Input& input, const Style& style);
/// A self-contained page that opens from disk and answers which implementation may be used.
std::string print_html(const Input& input, const Style& style);
/// JUnit XML in the form that Jenkins, GitLab and GitHub actions read: a testsuite for each run and
/// suite, a testcase for each record.
std::string print_junit(const Input& input, const Style& style);
/// One table, a row for each record; RFC 4180 with line feeds.
std::string print_csv(const Input& input, const Style& style);
/// The JSON of Google Benchmark, with what was timed: compare.py and other tools read it.
std::string print_benchmark_json(const Input& input, const Style& style);
/// Workflow commands of GitHub: an annotation for each of the worst records.
std::string print_github(const Input& input, const Style& style);
/// SARIF 2.1.0: the bad records as results.
std::string print_sarif(const Input& input, const Style& style);
/// The summary as JSON (summary.schema.json).
std::string print_summary_json(const Input& input, const Style& style);

}  // namespace attest::reports
