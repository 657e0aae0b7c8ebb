// The matrix "mutant x check x size": rows that trials leave, one JSON line each, and what follows
// from them.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "testing/mutants/trial.hpp"

namespace attest::testing {

/// One trial as it is kept.
struct MatrixRow {
  std::string mutant, family, dtype;
  int64_t tokens = 0;
  std::string
      outcome;  // "caught", "equivalent", "got away"; of a plugin that is no mutant also "passes"
  std::vector<std::string> checks;  // that saw it: fills, or the record's code
  std::vector<std::string> by;      // beside each: what of the judgement said so
  bool all_checks = true;           // else only the first that saw it is here
  double worst = 0;                 // of what got away, as a share of the gates

  std::string key() const;
};

MatrixRow matrix_row(const Trial& trial, bool all_checks);
std::string to_line(const MatrixRow& row);
/// Throws core::Error.
MatrixRow row_of_line(const std::string& line);

/// What a check is worth: what it saw, and what nothing else at its cost, one run, saw.
struct CheckWorth {
  int64_t caught = 0, alone = 0;  // trials
  std::set<std::string> mutants_alone;
};
/// Rows of the mutants alone count, and of them those with all checks.
std::map<std::string, CheckWorth> worth_of_checks(const std::vector<MatrixRow>& rows);

/// What should have been caught and was not: mutants that got away where expectations() excuses
/// none, other implementations that pass wherever they were tried though nothing says that they are
/// right, and those that are right and were caught.
std::vector<std::string> escapes(const std::vector<MatrixRow>& rows);

/// What a file of rows holds.
struct MatrixRows {
  std::vector<MatrixRow> rows;
  std::map<std::string, int64_t> made_by;  // which build on which machine -> how many of them
  double seconds = 0;                      // of the mutants' trials
};
constexpr const char *kMadeBy = "made_by",
                     *kSeconds = "seconds";  // lines of the file that are no rows
/// A file that is not there has none. Further rounds of a fill, such as rising_2, count as that
/// fill. Throws core::Error.
MatrixRows read_rows(const std::string& path);

/// The whole report in Markdown.
std::string print_matrix(const MatrixRows& all);

}  // namespace attest::testing
