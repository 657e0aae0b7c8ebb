#include "core/inputs/remembering_golden.hpp"

#include <algorithm>

namespace attest::core {

RememberingGolden::Chunk RememberingGolden::copy_of(const Expected& chunk) {
  const size_t count = chunk.element_count();
  const bool is_exact = chunk.value != nullptr;
  const double* const value_or_low = is_exact ? chunk.value : chunk.low;
  const double* const sigma_or_high = is_exact ? chunk.sigma : chunk.high;
  return {.layout = {.role = chunk.role,
                     .leading = chunk.leading,
                     .width = chunk.width,
                     .shared = chunk.shared},
          .rows = {chunk.rows.begin(), chunk.rows.end()},
          .value_or_low = {value_or_low, value_or_low + count},
          .sigma_or_high = {sigma_or_high, sigma_or_high + count},
          .is_exact = is_exact};
}

Expected RememberingGolden::view_of(const Chunk& chunk) {
  Expected view = chunk.layout;
  view.rows = chunk.rows;
  (chunk.is_exact ? view.value : view.low) = chunk.value_or_low.data();
  (chunk.is_exact ? view.sigma : view.high) = chunk.sigma_or_high.data();
  return view;
}

std::shared_ptr<const RememberingGolden::Expectations> RememberingGolden::known(
    const Arithmetic& arithmetic) const {
  const std::lock_guard guard(lock_);
  const auto at =
      std::ranges::find_if(kept_, [&](const auto& kept) { return kept->arithmetic == arithmetic; });
  return at == kept_.end() ? nullptr : *at;
}

void RememberingGolden::keep(std::shared_ptr<const Expectations> computed) const {
  const std::lock_guard guard(lock_);
  numbers_ += computed->numbers;
  kept_.push_back(std::move(computed));
  while (numbers_ > kMostNumbers) {
    numbers_ -= kept_.front()->numbers;
    kept_.pop_front();
  }
}

void RememberingGolden::expect(const Arithmetic& arithmetic, const Sink& sink) const {
  if (const auto before = known(arithmetic)) {
    for (const Chunk& chunk : before->chunks) sink(view_of(chunk));
    return;
  }
  const auto computed = std::make_shared<Expectations>();
  computed->arithmetic = arithmetic;
  std::mutex lock;
  golden_->expect(arithmetic, [&](const Expected& chunk) {
    sink(chunk);
    const std::lock_guard guard(lock);
    const bool fit_before = computed->numbers <= kMostNumbers;
    computed->numbers += kNumbersOfChunk + chunk.rows.size() + 2 * chunk.element_count();
    if (computed->numbers <= kMostNumbers)
      computed->chunks.push_back(copy_of(chunk));
    else if (fit_before)
      computed->chunks = {};
  });
  if (computed->numbers <= kMostNumbers) keep(computed);
}

}  // namespace attest::core
