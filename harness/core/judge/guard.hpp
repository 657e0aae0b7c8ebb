// The tolerance's own judge: before an implementation is failed, the declared arithmetic is emulated on some rows, and has to
// pass.
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

/// "" when an honest kernel, emulated in the declared arithmetic on the first of these rows and as many others as are cheap, is
/// within the gates; else what is wrong, in one sentence. `rows` begins with the row that an implementation is to be failed for.
std::string tolerance_fault(const Problem& problem, const Golden& golden, const Arithmetic& arithmetic, const Tensors& inputs,
                            const std::vector<ExpectedRow>& rows);

}  // namespace attest::core
