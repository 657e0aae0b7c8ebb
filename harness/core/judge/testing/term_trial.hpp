// One term of a sigma on trial: needed, and no larger than needed.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "core/judge/check.hpp"
#include "core/operations/term_factor.hpp"

namespace attest::core::testing {

using Edit = std::function<double(int64_t row, int64_t channel, double value)>;
/// Changes the elements of a dense tensor of rank 4.
template <class Inputs>
void edit(const Inputs& inputs, int32_t role, const Edit& change) {
  const Tensor& x = inputs.tensors[size_t(role)];
  const int64_t width = x.spec.dim[3];
  for (int64_t n = 0; n < element_count(x.spec); ++n)
    store(x.data, x.spec.dtype, n, change(n / width, n % width, load(x.data, x.spec.dtype, n)));
}

/// Expects that the term's honest kernel passes on `inputs`, but not without the term, and that a
/// bug of two gates fails, but not with eight times the term. `emulate(size)` leaves that kernel's
/// outputs in the tensors, with a bug of that size. `fill`: what the inputs are to the golden. If
/// the case has `bug_at_most` above 0, the bug of two gates is no larger than that.
/// Prints a row of the operation's table of terms.
template <class TermCase, class Inputs>
void put_on_trial(const TermCase& term, const Inputs& inputs, const char* bug_words,
                  const std::function<void(double size)>& emulate, const Fill& fill = {}) {
  const auto ratio = [&](double factor, double size) {
    const ScopedTermFactor scope(term.term, factor);
    emulate(size);
    const Problem& problem = inputs.problem;
    const Judgement judgement =
        judge(problem, *problem.operation->golden(problem, fill, inputs.tensors), term.arithmetic,
              inputs.tensors);
    return std::max(judgement.max_ratio, judgement.rms_ratio);
  };
  const double passes = ratio(1, 0), without = ratio(0, 0);
  EXPECT_LE(passes, 1) << "an honest kernel is failed";
  EXPECT_GT(without, 1)
      << "without the term an honest kernel passes as well: it is not needed here";
  // Looks for the size at which the bug fails by two gates.
  double size = 5e-3, bug = ratio(1, size);
  const auto is_near_two = [&] { return std::fabs(bug - 2) < 0.7; };
  for (int step = 0; step < 3 || (step < 9 && !is_near_two()); ++step, bug = ratio(1, size))
    size *= 2 / bug;
  const double slack = ratio(8, size);
  EXPECT_GT(bug, 1) << "a bug passes";
  if constexpr (requires { term.bug_at_most; }) {
    if (term.bug_at_most > 0) {
      EXPECT_LE(size, term.bug_at_most) << "smaller bugs pass: the term is too large";
    }
  }
  EXPECT_LE(slack, 1)
      << "eight times the term does not hide the bug: something else is what fails it";
  std::printf("| %s | %s | %.2f | %.3g | %s by %.2g: %.2f | %.2f |\n", term.name, term.honest,
              passes, without, bug_words, size, bug, slack);
}

/// Expects that each term of its enumeration is on trial.
template <class TermCase>
void expect_every_term(const std::vector<TermCase>& cases) {
  using Term = decltype(TermCase::term);
  for (size_t term = 0; term < size_t(Term::kCount); ++term)
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(),
                            [&](const TermCase& c) { return c.term == Term(term); }))
        << "no case for term " << term;
}

/// Expects that a page has a row of six columns for each case.
template <class TermCase>
void expect_rows_on_page(const std::vector<TermCase>& cases, const std::filesystem::path& page) {
  std::ifstream file(page);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const TermCase& c : cases) {
    const std::string start = std::string("\n| ") + c.name + " | " + c.honest + " | ";
    const size_t at = text.find(start);
    EXPECT_NE(at, std::string::npos) << page << " has no row" << start;
    if (at == std::string::npos) continue;
    const std::string row = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
    EXPECT_EQ(std::count(row.begin(), row.end(), '|'), 7) << page << ": " << row;
  }
}

}  // namespace attest::core::testing
