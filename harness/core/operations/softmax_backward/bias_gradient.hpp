// The gradient of one slice of a bias: of one sequence and head, or of all that share the slice.
#pragma once
#include <deque>

#include "core/operations/softmax_backward/backward_rows.hpp"

namespace attest::core::backward {

class BiasSlice {
 public:
  /// Slice (b, h) of DBIAS, [batch|1, num_heads|1, ...]. Reads all heads that have it. `ties_hold`
  /// is that of RowEdge. Calls OpenMP.
  BiasSlice(const Problem& problem, const Tensors& tensors, const PairErrors& errors,
            bool ties_hold, int64_t b, int64_t h);

  /// Writes the value and the sigma of element (i, j) of the slice. On a grid, i and j are tokens.
  /// If all queries share one row of the bias, i must be 0, and the element is the sum over all
  /// queries. `sum` must have width 1.
  void element(const PairErrors& errors, int64_t i, int64_t j, GradientSum& sum, double* value,
               double* sigma) const;
  /// Returns a bound of the magnitudes of the elements of row i, which queries must not share.
  double bound(int64_t i) const;

 private:
  struct Head {
    HeadRows rows;
    Interval members;  // the query heads of its group that have the slice
    double largest_v = 0;
  };

  const Params p_;
  const DType dtype_;
  const bool shared_by_queries_;
  std::deque<Head> heads_;
};

}  // namespace attest::core::backward
