// The inner loops of the mutants, which every one of them shares: a tile of keys is added to rows
// of an online softmax, in the widest vectors that this machine has. What a mutation changes here
// is decided once a row and tile.
#pragma once
#include <cstdint>
#include <cstring>

#include "mutants/operations/mutation.hpp"

namespace mutants {

constexpr int64_t kTile = 64;       // keys of a tile
constexpr int64_t kChannels = 32;   // channels are padded to a multiple of this
constexpr float kUsualEps = 1e-6f;  // of linear attention

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// One tile of keys, converted to float32.
struct Tile {
  int64_t begin;    // its first key place
  int64_t keys;     // of the sequence: columns from there on are padding
  const float* kt;  // [head_dim, kTile]
  const float* v;   // [kTile, channels], zero where padded
  bool wild;        // V has an Inf or a NaN in it
};

/// Turns scores softmax_scale q.k of row i and a tile into logits, -inf where hidden.
struct Terms {
  virtual ~Terms() = default;
  virtual void apply(int64_t row, int64_t first_key, int64_t keys, float* scores) const = 0;
};

/// Query rows of one (sequence, head) and what is known of them so far. Rows are padded to an even
/// number.
struct Rows {
  Mutation mutation;
  int64_t rows, head_dim, channels;  // channels: head_dim_v, padded
  int64_t odd_key;                   // kDroppedKey, kDoubledKey: the key; else -1
  float largest_score;               // kScoreOverflow: what is beyond is infinite; else infinite
  const Terms* terms;                // null: logits are scores
  const float* q;                    // [rows, head_dim], times softmax_scale
  const int64_t* begin;              // [rows], the keys that each sees: begin .. end - 1
  const int64_t* end;
  float* top;     // [rows], largest logit
  float* total;   // [rows], sum of exp(logit - top)
  float* sum;     // [rows, channels], the same times v
  uint8_t* flag;  // [rows], 1: the next rescale of the sum is skipped
};

/// Adds a tile to all rows.
void add_tile(const Rows& rows, const Tile& tile);

/// `count` elements of 16 bits to float32.
void widen_half(const uint16_t* from, int64_t count, float* to);
void widen_bfloat16(const uint16_t* from, int64_t count, float* to);

/// c[i] += a * b[i].
void add_scaled(float a, const float* b, int64_t count, float* c);

/// Returns the dot product of two rows of `count` elements. Eight sums run side by side; the
/// elements that are left over are added last.
float product(const float* a, const float* b, int64_t count);

/// Sets to[i] = keep * to[i] + weight * row[i].
void blend(float keep, float weight, const float* row, int64_t count, float* to);

/// Rounded to so many bits of mantissa, whatever the exponent: 11 as in f16, 8 as in bf16.
inline float rounded(float x, int bits) {
  uint32_t stored;
  std::memcpy(&stored, &x, sizeof stored);
  const uint32_t unit = 1u << (24 - bits);
  stored = (stored + unit / 2) & ~(unit - 1);
  std::memcpy(&x, &stored, sizeof stored);
  return x;
}

}  // namespace mutants
