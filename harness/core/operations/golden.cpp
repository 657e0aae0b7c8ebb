#include "core/operations/golden.hpp"

#include <mutex>

namespace attest::core {

std::vector<int64_t> Golden::exact_rows(const Arithmetic& arithmetic, int32_t role) const {
  std::vector<int64_t> rows;
  std::mutex lock;
  expect(arithmetic, [&](const Expected& expected) {
    if (expected.role != role || !expected.value) return;
    const std::lock_guard guard(lock);
    rows.insert(rows.end(), expected.rows.begin(), expected.rows.end());
  });
  return rows;
}

}  // namespace attest::core
