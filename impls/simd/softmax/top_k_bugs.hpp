// Bugs that tests plant in simd/softmax/top_k.cpp. flash_cpu has none: planted() is a constant
// there.
#pragma once

namespace impls {

enum class TopKBug {
  kNone,
  kFullListDrops,
  kLeastOfPart,
  kLargestForLeast,
  kCutToLess,
  kPlacesStay,
  kTiesAfterCut,
  kNoLastCut,
  kAllTiesStay,
  kPlaceInTile,
  kOneThreshold,
  kStaleThresholds,
  kTailDropped,
  kStaleTail,
  kNanDropped,
};

#ifdef ATTEST_TOP_K_PLANTED
inline TopKBug planted_bug = TopKBug::kNone;  // set between runs
inline bool planted(TopKBug bug) { return bug == planted_bug; }
#else
constexpr bool planted(TopKBug) { return false; }
#endif

}  // namespace impls
