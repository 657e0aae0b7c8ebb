// Rows that are equal, bit for bit: whatever is computed from them alone rounds alike.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace attest::core {

/// Places whose row occurs at least twice, sorted by group (its first place), then by place.
struct EqualRows {
  std::vector<int32_t> place, group;

  /// Where the group ends that begins at `begin`.
  size_t group_end(size_t begin) const;
};

/// By 64-bit hashes of `count` rows of `width` numbers. `load` writes row `place` and says whether
/// it counts; several threads call it at once.
EqualRows find_equal_rows(int64_t count, int64_t width,
                          const std::function<bool(int64_t place, double* row)>& load);

}  // namespace attest::core
