// The tolerance's own judge: before an implementation is failed, the declared arithmetic is
// emulated on some rows, and has to pass.
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

/// A few of the rows that were judged: the same ones whatever the threads do.
class RowSample {
 public:
  static constexpr size_t kMost = 15;
  /// Considers one row of the chunk.
  void add(const Expected& chunk);
  void merge(const RowSample& other);
  const std::map<uint64_t, ExpectedRow>& rows() const { return rows_; }

 private:
  void cut();
  std::map<uint64_t, ExpectedRow> rows_;  // by a hash of the row: those of the least hashes stay
};

ExpectedRow expected_row(const Expected& chunk, size_t index);

/// How far an honest kernel gets, as shares of the gates, and where.
struct Emulated {
  double largest = 0, rms = 0;
  std::string where;  // of the largest: "element 3 of row 7 of o is ..."
  double ratio() const { return largest > rms ? largest : rms; }
};

/// The worst of the honest kernels of the declared arithmetic, emulated on the first of these rows
/// and as many others as are cheap. `rows` begins with the row that an implementation is to be
/// failed for.
Emulated emulated_errors(const Problem& problem, const Golden& golden, const Arithmetic& arithmetic,
                         const Tensors& inputs, const std::vector<ExpectedRow>& rows);

}  // namespace attest::core
