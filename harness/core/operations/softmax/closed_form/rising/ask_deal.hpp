// Deals asks (marks.hpp) to rows, so that few rows show as many steps of a kernel as they can.
//
//   AskDeal deal(asks);
//   for (const AskingRow& row : rows) turn(row, deal.next(row, places_of_marks(row)));
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/operations/softmax/closed_form/rising/marks.hpp"
#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {

/// A row of query head `head` at position i of sequence b.
struct AskingRow {
  int64_t b, i, head;
  Interval keys;
  int64_t origin;  // tiles count from this position
};

class AskDeal {
 public:
  explicit AskDeal(std::span<const Ask> asks) : asks_(asks), dealt_(asks.size()) {}

  /// Returns the number of the ask that shows most new steps in that row. Where none shows a new
  /// one, it returns the ask that the fewest rows have had. `places`: the position of each mark, or
  /// -1 if the row does not see it.
  int64_t next(const AskingRow& row, std::span<const int64_t> places);
  /// The number of deals so far that showed something new.
  int64_t new_deals() const { return new_deals_; }

 private:
  static constexpr size_t kSteps = 512;

  std::span<const Ask> asks_;
  std::vector<int64_t> dealt_;  // how many rows have had each ask
  std::array<bool, kSteps> shown_{};
  int64_t new_deals_ = 0;
};

}  // namespace attest::core
