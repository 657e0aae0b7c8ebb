// Work for tests that takes many times longer if its 256 KiB are not in a cache.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "core/tensor/stopwatch.hpp"

namespace attest::core {

/// A chain of dependent loads, one for each cache line, in an order that no prefetcher guesses.
inline std::vector<uint64_t> make_chain() {
  std::vector<uint64_t> chain(4096 * 8);
  for (uint64_t i = 0; i < 4096; ++i)
    chain[i * 8] = (i * 1733 + 1) % 4096 * 8;  // visits every line: 1732 is a multiple of 4
  return chain;
}

/// Follows the chain once around; returns nanoseconds.
inline double chase_ns(const std::vector<uint64_t>& chain) {
  const auto start = Clock::now();
  uint64_t at = 0;
  for (int i = 0; i < 4096; ++i) at = chain[at];
  if (at != 0) throw std::logic_error("the chain is no ring");
  return nanoseconds_since(start);
}

}  // namespace attest::core
