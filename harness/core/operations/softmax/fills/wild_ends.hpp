// The NaN and infinities of the fill "wild" that a row sees in its first or its last tile alone.
//
// A NaN of K would make all rows NaN that see it. So K gets +inf in a channel that only a few rows
// ask for. The query says what the score is: NaN where the query is 0 in that channel, +inf
// where it is positive, and -inf, which weighs nothing, where it is negative, as in all other rows.
// V gets NaN and infinities in channels of their own.
#pragma once
#include <cstdint>
#include <set>
#include <vector>

#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {

/// The positions of sequence b that may see them, the best first: their intervals have at least two
/// tiles of 16 keys, and two of the largest size of which any row sees two. None is a marked place.
std::vector<int64_t> end_rows(const Problem& problem, const Geometry& geometry, int64_t b);

/// Writes them into sequence b of Q, K and V. `taken`: the positions of keys that have a NaN or an
/// infinity already; they are left as they are.
void write_wild_ends(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                     int64_t b, std::set<int64_t> taken);

/// For problems with a softcap, whose scores are never infinite: writes a NaN into K that a row
/// sees in its last tile, and one that another row sees in its first, each in a key head of its own
/// if there are so many. The last key head of sequence b is left as it is unless there is no other.
void write_nan_keys_at_ends(const Problem& problem, const Tensors& tensors,
                            const Geometry& geometry, int64_t b);

}  // namespace attest::core
