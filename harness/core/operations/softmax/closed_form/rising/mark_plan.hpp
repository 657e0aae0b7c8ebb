// Where the marks of a problem stand, and which key code each has.
#pragma once
#include <cstdint>
#include <map>
#include <span>

#include "core/operations/softmax/closed_form/rising/marks.hpp"

namespace attest::core {

class MarkPlan {
 public:
  MarkPlan() = default;
  /// Plans at most `most` marks for each sequence. `repeats`: intervals see each position modulo
  /// `period` once, so the marks are those of `period` keys, again and again. `lengths`: of all
  /// sequences, the keys up to the last one that a row sees; `period`: the most that a row sees.
  MarkPlan(bool repeats, int64_t period, std::span<const int64_t> lengths, int64_t most);

  /// The marks that have all codes.
  const Marks& marks() const { return marks_.at(period_); }
  /// The number of codes of marks.
  int64_t codes() const { return codes_; }
  /// Returns the code of the mark at position j of a sequence of `length` keys, or -1.
  int64_t code_at(int64_t length, int64_t j) const;
  /// Returns the first position from `begin` on of the mark with that code, or -1 if a sequence of
  /// `length` keys has none. Where intervals repeat, the position may lie beyond the end.
  int64_t place(int64_t code, int64_t length, int64_t begin) const;

 private:
  const Marks& of(int64_t length) const { return marks_.at(repeats_ ? period_ : length); }
  int64_t code_of(const Marks& marks, int64_t index) const;

  bool repeats_ = false;
  int64_t period_ = 1, codes_ = 0;
  std::map<int64_t, Marks> marks_;  // by length of sequence or window
};

}  // namespace attest::core
