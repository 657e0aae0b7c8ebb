// A tiled online softmax that can be told to do one thing wrong. Right, it is an ordinary implementation: the mutants differ from
// it in nothing but their bug.
#pragma once
#include <cstdint>

namespace mutants {

enum class Mutation {
  kNone,
  kDroppedTile,     // the last full tile of keys is skipped
  kSkippedRescale,  // at the first tile where a row's maximum rises, what was summed before is not rescaled
  kWrongScale,      // softmax_scale is 2 % too large
  kSwappedHead,     // heads 0 and 1 of the output change places
  kCausalOffByOne,  // j < i instead of j <= i
  kStaleOutput,     // the last block of rows is not written: what was there before stays
  kTruncatedTail,   // keys beyond a multiple of 16 are ignored
  kZeros,           // the output is 0
};

constexpr int64_t kTile = 64;         // keys of a tile
constexpr int64_t kChannels = 32;     // channels are padded to a multiple of this
constexpr int64_t kTailKeys = 16;     // of kTruncatedTail
constexpr int64_t kStaleRows = 16;    // of kStaleOutput
constexpr float kScaleError = 1.02f;  // of kWrongScale

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// One tile of keys, converted to float32.
struct Tile {
  int64_t begin;    // its first key place
  const float* kt;  // [head_dim, kTile]
  const float* v;   // [kTile, padded head_dim_v], zero where padded
  bool wild;        // V has an Inf or a NaN in it
};

/// All query rows of one (sequence, head) and what is known of them so far. Rows are padded to an even number.
struct Rows {
  int64_t rows, head_dim, channels;  // channels: padded head_dim_v
  const float* q;                    // [rows, head_dim], times softmax_scale
  const int64_t* begin;              // [rows], the keys that each sees: begin .. end - 1
  const int64_t* end;
  float* top;          // [rows], largest logit
  float* total;        // [rows], sum of exp(logit - top)
  float* sum;          // [rows, channels], the same times v
  uint8_t* keep_once;  // [rows], 1: the next rescale is skipped; null in all but kSkippedRescale
};

/// Adds a tile to all rows; the widest vectors that this machine has.
void add_tile(const Rows& rows, const Tile& tile);

}  // namespace mutants
