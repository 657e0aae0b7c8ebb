// Bugs planted in gradients that are wrong only where two features meet, or at the end of a tile of
// 64. BackwardBugs leaves them out; DefaultSuite has a case of its own for each. Below them stand
// bugs that only large problems show. The default suite has no problem so large.
#pragma once
#include <map>
#include <set>
#include <string>

namespace attest::testing {

inline const std::set<std::string> kBackwardPairBugs = {
    "backward_slope_tiled",          "backward_dbias_of_last_group",
    "backward_dbias_of_hidden",      "backward_drel_bias_of_key_head",
    "backward_dsinks_sloped",        "backward_dsinks_of_key_head",
    "backward_last_key_of_its_tile", "backward_last_query_of_its_tile"};

// With the smallest problem that shows them.
inline const std::map<std::string, std::string> kBackwardLargeBugs = {
    {"backward_tile_loses_queries", "softmax_backward seq_len_q=4099 head_dim=32"}};

}  // namespace attest::testing
