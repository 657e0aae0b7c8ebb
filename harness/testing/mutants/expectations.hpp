// What is expected of every mutant: on which families of cases it is wrong, from which size on, and
// which check at least says so.
#pragma once
#include <string>
#include <vector>

#include "testing/mutants/cases.hpp"

namespace attest::testing {

/// The families whose keys are all of one sequence.
inline constexpr const char* kDense = "plain causal";

struct Expected {
  const char* mutant;
  const char* families;            // separated by blanks
  int64_t from = 61;               // tokens
  const char* check = "codebook";  // a fill; null: nothing sees it, `note` says why
  const char* dtypes = "f32 f16 bf16";
  const char* note = "";
};
const std::vector<Expected>& expectations();

/// The same of steps.so, which expectations() has too (step_expectations.cpp).
std::vector<Expected> step_expectations();

/// The smallest case that the row is about, in its first family and dtype.
MutantCase smallest_case(const Expected& row);

/// The row for this mutant on this case, or null: it is equivalent there, or not worth the time.
const Expected* expected(const std::string& mutant, const MutantCase& wanted);
/// Whether any row has the mutant on that family, at whatever size.
bool concerns(const std::string& mutant, const Family& family);

}  // namespace attest::testing
