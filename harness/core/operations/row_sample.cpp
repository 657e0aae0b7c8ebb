#include "core/operations/row_sample.hpp"

#include <algorithm>

#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

// A plausible tile edge is a multiple of a power of two, near either end or anywhere.
std::vector<int64_t> edges(int64_t length, int64_t block) {
  std::vector<int64_t> places;
  auto around = [&](int64_t edge) {
    for (int64_t place = edge - 1; place <= edge + 1; ++place)
      if (place >= 0 && place < length) places.push_back(place);
  };
  for (const int64_t tile :
       {int64_t(16), int64_t(32), int64_t(64), int64_t(128), int64_t(256), int64_t(1024), block}) {
    if (tile <= 0) continue;
    const int64_t tiles = length / tile;
    for (const int64_t n : {int64_t(1), int64_t(2), tiles / 2, tiles - 1, tiles}) around(n * tile);
  }
  return places;
}

}  // namespace

std::array<int64_t, 4> marked_places(int64_t length) {
  return {length / 4, length / 3, length * 2 / 3, length * 3 / 4};
}

std::vector<int64_t> sample_places(int64_t length, int64_t count, int64_t block, uint64_t seed,
                                   std::span<const int64_t> wanted) {
  if (count >= length) {
    std::vector<int64_t> all(static_cast<size_t>(length));
    for (size_t i = 0; i < all.size(); ++i) all[i] = int64_t(i);
    return all;
  }
  std::vector<bool> chosen(static_cast<size_t>(length));
  int64_t places = 0;
  const auto choose = [&](int64_t place) {
    places += !chosen[size_t(place)];
    chosen[size_t(place)] = true;
  };
  choose(0);
  choose(length - 1);
  for (const int64_t place : marked_places(length))
    if (places < count) choose(place);
  for (size_t n = 0; n < wanted.size() && places < count * 3 / 4; ++n) choose(wanted[n]);
  const int64_t with_edges = wanted.empty() ? count / 2 : places + (count - places) / 2;
  const std::vector<int64_t> candidates = edges(length, block);
  // Drawn at random, so that with few rows a head each head has other edges.
  for (uint64_t draw = 0; !candidates.empty() && draw < uint64_t(count) && places < with_edges;
       ++draw)
    choose(candidates[size_t(random_below(seed, draw, candidates.size()))]);
  uint64_t draw = uint64_t(count);
  while (places < count) choose(int64_t(random_below(seed, draw++, uint64_t(length))));
  std::vector<int64_t> in_order;
  for (int64_t place = 0; place < length; ++place)
    if (chosen[size_t(place)]) in_order.push_back(place);
  return in_order;
}

}  // namespace attest::core
