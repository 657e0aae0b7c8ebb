// Which parameters and optional tensors problems give, and with which values.
#pragma once
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/record/record.hpp"
#include "reports/words/sizes.hpp"

namespace attest::reports {

/// The names of an operation's parameters and optional tensors, as spec lines have them.
struct OperationAxes {
  std::string operation;
  std::vector<std::string> names;
};

/// Counts the values of axes over problems.
class SeenAxes {
 public:
  struct Axis {
    std::set<std::string> values;
    size_t problems = 0;  // that give it
  };
  struct Operation {
    size_t problems = 0;
    std::map<std::string, Axis> axes;

    /// The values of an axis: words first, then numbers in order; with "-" where problems do not
    /// give it.
    std::vector<std::string> values_of(const std::string& axis) const;
  };

  /// `words`: of the problem's spec line, with its dtype.
  void add(const std::string& operation, const SpecWords& words);
  /// Counts the problem of a record, if it was judged.
  void add(const core::Record& record);
  const std::map<std::string, Operation>& operations() const { return operations_; }

 private:
  std::map<std::string, Operation> operations_;
};

/// Stands in suites for as many tokens as a sweep has. A record of such a case has their number.
inline constexpr const char* kAnyTokens = "tokens";
/// Whether a value is a finite number.
bool is_number(const std::string& value);

/// Stands for problems that do not give an axis.
inline constexpr const char* kNotGiven = "-";

}  // namespace attest::reports
