#include "core/record/least_bytes.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>

namespace attest::core {
namespace {

// With features other than these, a run need not read every element: keys outside a window, pages
// of no sequence.
constexpr std::string_view kReadingAll[] = {"GQA",     "HEAD_DIM_V",  "SOFTCAP",   "BIAS", "LSE",
                                            "STRIDES", "MIXED_DTYPE", "UNALIGNED", "ALIBI"};

}  // namespace

double least_bytes(const Record& record) {
  std::istringstream features(record.features);
  for (std::string feature; std::getline(features, feature, '+');)
    if (!feature.empty() && std::ranges::find(kReadingAll, feature) == std::end(kReadingAll))
      return 0;
  return record.min_bytes;
}

}  // namespace attest::core
