// A small picture of where an output is wrong: the largest error of each part of it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core {

/// A picture of an output's rows. The last dim that tells rows apart (the queries of attention)
/// lies across, the dims before it (batch and heads) lie down. A cell is the worst element of the
/// rows in it.
struct ErrorMap {
  std::string across, down;  // names of these dims: "query", "batch x head"; down may be empty
  int64_t columns = 1, lines = 1;  // how many indices lie across and down, before they share cells
  /// Lines of cells, a character each. ' ': no element was judged. '.': all are within their gates.
  /// '1' to '9': up to 10 to that power times a gate. 'x': more, not finite, or outside of what a
  /// sweep allows.
  std::vector<std::string> cells;
};

/// Collects the errors of one output.
class ErrorMapBuilder {
 public:
  static constexpr int64_t kMostColumns = 128, kMostLines = 24;

  /// `leading`: how many dims of `spec` tell rows apart (Expected::leading).
  ErrorMapBuilder(const TensorSpec& spec, int leading);

  /// `index`: of a row, `leading` numbers. `error`: of its worst element, as a share of its gate;
  /// infinity for what has no ratio.
  void add(const std::vector<int64_t>& index, double error);
  /// `role`: of the output, for the names of its dims.
  ErrorMap map(const Operation& operation, int32_t role) const;

 private:
  const TensorSpec& spec_;
  const int leading_;
  int64_t columns_ = 1, lines_ = 1;
  std::vector<std::string> cells_;
};

}  // namespace attest::core
