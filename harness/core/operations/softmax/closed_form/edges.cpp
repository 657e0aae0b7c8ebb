#include "core/operations/softmax/closed_form/edges.hpp"

#include <algorithm>

#include "core/operations/softmax/closed_form/rising/marks.hpp"

namespace attest::core {
EdgePlaces::EdgePlaces(int64_t length, int64_t most) {
  auto add = [&](int64_t place) {
    if (place < 0 || place >= length || size() >= most) return;
    const auto same = [place](const auto& known) { return known.first == place; };
    if (std::none_of(places_.begin(), places_.end(), same)) places_.emplace_back(place, size());
  };
  add(length - 1);
  add(0);
  for (const int64_t part : {length - 1, int64_t{0}, length / 2})
    for (const int64_t tile : kTileSizes) {
      const int64_t edge = part == 0 ? tile : part / tile * tile;
      add(edge);
      add(edge - 1);
      add(edge + 1);
    }
  std::sort(places_.begin(), places_.end());
}

int64_t EdgePlaces::index_of(int64_t place) const {
  const auto at = std::lower_bound(places_.begin(), places_.end(), std::pair(place, int64_t{0}));
  return at != places_.end() && at->first == place ? at->second : -1;
}

}  // namespace attest::core
