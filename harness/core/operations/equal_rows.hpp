// Finds rows that are equal bit for bit. Values computed from such rows alone round alike.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace attest::core {

/// Places of rows that occur at least twice. Equal rows form a group, named by its first place.
/// Both arrays are sorted by group, then by place.
struct EqualRows {
  std::vector<int32_t> place, group;

  /// The end of the group that begins at index `begin`.
  size_t group_end(size_t begin) const;
};

/// Compares 64-bit hashes of `count` rows of `width` numbers. `load` writes row `place` and returns
/// whether the row counts; several threads call it at once.
EqualRows find_equal_rows(int64_t count, int64_t width,
                          const std::function<bool(int64_t place, double* row)>& load);

}  // namespace attest::core
