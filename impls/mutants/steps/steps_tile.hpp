// The inner loops of steps: a tile of keys is added to rows of an online softmax. What a planted
// bug changes here is decided once for a row and a tile.
#pragma once
#include <cstdint>

#include "mutants/steps/steps.hpp"

namespace steps {

constexpr int64_t kRowsAtOnce = 4;  // of the inner loops; rows are padded to a multiple
constexpr int64_t kColumns = 16;    // columns at once: tiles and channels are multiples of this

/// What is known of one query row so far.
struct Row {
  int64_t begin, end;  // keys that its band shows it
  float top, total;    // largest logit; sum of exp(logit - top)
  int32_t rises;       // how often top has risen
  int32_t run;         // hidden keys up to here, without a visible one between them
  bool ended;          // what follows is taken for hidden
  bool after_hidden;   // its last tile was hidden
};

/// One tile of keys, converted to float32.
struct Tile {
  int64_t index, begin;  // its number, its first key
  int64_t size, keys;    // columns, of which so many are keys; the others are padding
  int64_t whole_tiles;   // of the sequence
  const float* kt;       // [head_dim, size]
  const float* v;        // [size, channels], zero where padded
  bool wild;             // V has an Inf or a NaN in it
};

/// Turns scores softmax_scale q.k of a row and a tile into logits, -inf where hidden.
struct Terms {
  virtual ~Terms() = default;
  virtual void apply(int64_t row, int64_t first_key, int64_t keys, float* scores) const = 0;
};

/// Query rows of one (sequence, head).
struct Rows {
  const Step* step;
  int64_t rows, head_dim, channels;  // channels: head_dim_v, padded
  float largest_score, least_score;  // scores are clipped there; infinite: they are not
  const Terms* terms;                // null: logits are scores
  const uint8_t* skips;              // [rows], 1: this row does without the tile; null: none does
  const float* q;                    // [rows, head_dim], times softmax_scale
  Row* row;                          // [rows]
  float* sum;                        // [rows, channels], sum of exp(logit - top) v
};

/// Adds a tile to all rows.
void add_tile(const Rows& rows, const Tile& tile);

}  // namespace steps
