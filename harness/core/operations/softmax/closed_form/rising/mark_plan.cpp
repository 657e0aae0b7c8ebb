#include "core/operations/softmax/closed_form/rising/mark_plan.hpp"

namespace attest::core {

MarkPlan::MarkPlan(bool repeats, int64_t period, std::span<const int64_t> lengths, int64_t most)
    : repeats_(repeats), period_(period) {
  const Marks marks(period, most);
  codes_ = marks.size();
  if (!repeats)
    for (const int64_t length : lengths) marks_.try_emplace(length, length, codes_);
  marks_.try_emplace(period, marks);
}

// Sequences that have fewer marks than there are codes leave some out in the middle, so that the
// last mark of each has the last code.
int64_t MarkPlan::code_of(const Marks& marks, int64_t index) const {
  return index < marks.size() / 2 ? index : index + codes_ - marks.size();
}

int64_t MarkPlan::code_at(int64_t length, int64_t j) const {
  const Marks& marks = of(length);
  const int64_t index = marks.index_of(repeats_ ? j % period_ : j);
  return index < 0 ? -1 : code_of(marks, index);
}

int64_t MarkPlan::place(int64_t code, int64_t length, int64_t begin) const {
  const Marks& marks = of(length);
  const int64_t index = code < marks.size() / 2 ? code : code - codes_ + marks.size();
  if (index < 0 || index >= marks.size() || code_of(marks, index) != code) return -1;
  const int64_t place = marks.place(index);
  return repeats_ ? place + (begin - place + period_ - 1) / period_ * period_ : place;
}

}  // namespace attest::core
