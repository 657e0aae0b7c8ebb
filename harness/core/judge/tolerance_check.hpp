// The tolerance check: before an implementation fails, the harness emulates the declared arithmetic
// on some rows. The emulation has to pass the same gates.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core {

/// One row of an output as the golden expects it.
struct ExpectedRow {
  int32_t role = 0;
  int64_t row = 0;
  std::vector<double> value, sigma;
};

/// A few of the rows that were judged. The choice does not depend on the order in which threads add
/// rows.
class RowSample {
 public:
  static constexpr size_t kMost = 15;
  /// Adds one row of the chunk to the sample, or drops it.
  void add(const Expected& chunk);
  void merge(const RowSample& other);
  const std::map<uint64_t, ExpectedRow>& rows() const { return rows_; }

 private:
  void cut();
  std::map<uint64_t, ExpectedRow> rows_;  // by a hash of the row; the kMost smallest hashes stay
};

/// Row `index` of the chunk.
ExpectedRow expected_row(const Expected& chunk, size_t index);

/// The errors of an honest kernel, as shares of the gates.
struct Emulated {
  double largest = 0, rms = 0;
  std::string where;  // the largest error: "element 3 of row 7 of o is ..."
  double ratio() const { return largest > rms ? largest : rms; }
};

/// Emulates the honest kernels of the declared arithmetic and returns the worst of them. It
/// emulates the first of `rows` and as many others as are cheap. The first row is the one that an
/// implementation is about to fail for.
Emulated emulated_errors(const Problem& problem, const Golden& golden, const Arithmetic& arithmetic,
                         const Tensors& inputs, const std::vector<ExpectedRow>& rows);

}  // namespace attest::core
