// One term of a sigma on trial: needed, and no larger than needed.
#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>

namespace attest::core::testing {

/// `ratio(factor, size)`: the share of its gate that an honest kernel has with a bug of that size, sigma's term times `factor`.
/// Expects that the honest kernel passes, but not without the term, and that a bug of two gates fails, but not with eight times
/// the term. Prints a row of the table in core/judge/README.md.
inline void put_on_trial(const char* name, const char* honest, const char* bug_words,
                         const std::function<double(double factor, double size)>& ratio) {
  const double passes = ratio(1, 0), without = ratio(0, 0);
  EXPECT_LE(passes, 1) << "an honest kernel is failed";
  EXPECT_GT(without, 1) << "without the term an honest kernel passes as well: it is not needed here";
  double size = 5e-3;
  for (int step = 0; step < 3; ++step) size *= 2 / ratio(1, size);  // of two gates
  const double bug = ratio(1, size), slack = ratio(8, size);
  EXPECT_GT(bug, 1) << "a bug passes";
  EXPECT_LE(slack, 1) << "eight times the term does not hide the bug: something else is what fails it";
  std::printf("| %s | %s | %.2f | %.3g | %s by %.2g: %.2f | %.2f |\n", name, honest, passes, without, bug_words, size, bug,
              slack);
}

}  // namespace attest::core::testing
