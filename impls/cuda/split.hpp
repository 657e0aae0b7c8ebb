// Splits of keys among blocks, where rows alone are too few for the device (flash decoding, Dao et
// al. 2023): how many, and which tiles each has. Plain arithmetic, the same on host and device.
#pragma once
#include <cstdint>

#include "attest.hpp"

namespace split {

struct Range {
  int64_t begin, end;
};

/// The part-th of `parts` nearly equal parts of 0 .. count - 1; some are empty where parts > count.
ATTEST_HD inline Range part(int64_t count, int64_t parts, int64_t which) {
  return {count * which / parts, count * (which + 1) / parts};
}

constexpr int kMost = 256;

/// How many splits make `blocks` blocks of up to `tiles` tiles of keys each quickest on a device
/// with room for `slots` blocks at a time. A block's start costs as much as kStart tiles; merging,
/// as kMerge and a thirty-second a split.
inline int count(int64_t blocks, int64_t tiles, int64_t slots) {
  constexpr int64_t kStart = 2, kMerge = 4;
  const auto cost = [&](int64_t splits) {  // in thirty-seconds of a tile
    const int64_t waves = (blocks * splits + slots - 1) / slots;
    return 32 * waves * ((tiles + splits - 1) / splits + kStart) +
           (splits > 1 ? 32 * kMerge + splits : 0);
  };
  int best = 1;
  if (blocks >= slots) return best;
  for (int splits = 2; splits <= kMost && splits <= tiles; ++splits)
    if (cost(splits) < cost(best)) best = splits;
  return best;
}

struct Chunks {
  int64_t size, count;
};
/// Cuts `tokens`, that `blocks` blocks would walk through, into chunks of a multiple of `step`
/// tokens, so that there are blocks for all `slots`; chunks of less than eight steps are not worth
/// their merging. None is empty.
inline Chunks chunks(int64_t tokens, int64_t step, int64_t blocks, int64_t slots) {
  constexpr int64_t kLeastSteps = 8, kMostChunks = 128;
  const int64_t steps = (tokens + step - 1) / step;
  int64_t count = slots / blocks;
  count = count < steps / kLeastSteps ? count : steps / kLeastSteps;
  count = count < 1 ? 1 : count > kMostChunks ? kMostChunks : count;
  const int64_t size = (steps + count - 1) / count;
  return {size * step, (steps + size - 1) / size};
}

/// Cuts `tokens`, that `blocks` blocks would walk through, into chunks of a multiple of `step`
/// tokens, so that a device with room for `slots` blocks at a time is soonest done with all. A
/// block's start costs as much as `start` steps, and `merged` chunks as much as one. None is empty.
inline Chunks quickest_chunks(int64_t tokens, int64_t step, int64_t blocks, int64_t slots,
                              int64_t start, int64_t merged) {
  constexpr int64_t kMostChunks = 128;
  const int64_t steps = (tokens + step - 1) / step;
  const auto cost = [&](int64_t count) {
    const int64_t waves = (blocks * count + slots - 1) / slots;
    return waves * ((steps + count - 1) / count + start) + count / merged;
  };
  int64_t best = 1;
  for (int64_t count = 2; count <= kMostChunks && count <= steps; ++count)
    if (cost(count) < cost(best)) best = count;
  const int64_t size = (steps + best - 1) / best;
  return {size * step, (steps + size - 1) / size};
}

/// How many of `tasks` tasks of the same kind a block takes, at most `most`: what they share is
/// made once, but every slot has four blocks at least.
inline int64_t tasks_each(int64_t tasks, int64_t most, int64_t slots) {
  const int64_t each = tasks / (4 * slots);
  return each < 1 ? 1 : each > most ? most : each;
}

}  // namespace split
