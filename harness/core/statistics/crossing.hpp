// Where two quantities cross as a size grows.
#pragma once
#include <span>
#include <vector>

#include "core/statistics/power_law.hpp"

namespace attest::core {

/// Two neighbouring sizes between which the order of two quantities changes: at `last` the one is
/// less, at `first` the other. Sizes in between were measured but did not tell them apart, or were
/// not measured.
struct Crossing {
  double last = 0, first = 0;
  bool first_was_less = false;  // up to `last`, the first of the two quantities is less
};

/// The comparison of two quantities at the sizes that both have.
struct Crossings {
  std::vector<Crossing> crossings;  // by size
  std::vector<double> sizes;        // that both have
  // -1: at the largest size that tells them apart the first is less; 1: the second; 0: no size does
  int at_end = 0;
};

/// Two values differ if the interval of their ratio lies wholly outside [1 / (1 + tie), 1 + tie].
/// Both series are sorted by size. Nothing is extrapolated.
Crossings find_crossings(std::span<const Sized> first, std::span<const Sized> second, double tie);

}  // namespace attest::core
