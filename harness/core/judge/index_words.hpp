// Which of many indices are concerned, in a few words: "64 and up", "all with i % 4 = 1".
#pragma once
#include <string>
#include <vector>

namespace attest::core {

/// Describes the indices i of a dim with wrong[i], among those with judged[i]; both have the size
/// of the dim. "" if all or none of the judged indices are wrong. Otherwise the first of these that
/// applies:
///   "3"                                 one index
///   "48 and up, the last tile of 16"    the end of the dim; "up to 15" for its beginning
///   "64 to 127, a tile of 64"           another run of indices
///   "all with i % 4 = 1"                one or more classes of indices with a period of 2 to 256
///   "5 of 128: 3, 17, 40, 77, 101"      any others, the first six by number
/// Tiles are those of 16, 32, 64, 128 and 256 indices, from index 0 on.
std::string describe_indices(const std::vector<bool>& judged, const std::vector<bool>& wrong);

}  // namespace attest::core
