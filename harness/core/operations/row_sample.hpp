// Which rows of a sequence are judged, where all of them would take too long.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace attest::core {

/// Positions that every sample contains. A fill may make the rows of these positions special.
std::array<int64_t, 4> marked_places(int64_t length);

/// `count` of the positions 0 .. length - 1, ascending; all if there are no more. They contain the
/// first, the last and the marked positions, and up to three quarters are `wanted`. Half of the
/// others lie beside multiples of 16 .. 1,024 and of `block` (patch or window size; 0: none); the
/// rest are random.
std::vector<int64_t> sample_places(int64_t length, int64_t count, int64_t block, uint64_t seed,
                                   std::span<const int64_t> wanted = {});

}  // namespace attest::core
