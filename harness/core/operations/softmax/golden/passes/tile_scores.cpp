#include "core/operations/softmax/golden/passes/tile_scores.hpp"

#include <algorithm>
#include <cmath>

#include "core/operations/softmax/golden/score_kernels.hpp"
#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core::passes {
namespace {}  // namespace

TileScores::TileScores(const attest_softmax_params& params, const Geometry& geometry,
                       const BlockShape& shape)
    : scores(kTileRows, shape.key_stride),
      magnitudes(kTileRows, shape.key_stride),
      slopes(kTileRows, shape.key_stride),
      sloped_dots(kTileRows, shape.key_stride),
      staged_squares(kTileRows, shape.key_stride),
      added_squares(kTileRows, shape.key_stride),
      lesser_sizes(kTileRows, shape.key_stride),
      at_caps(kTileRows, shape.key_stride),
      geometry_(geometry),
      softcap_(double(params.softcap)),
      capped_(size_t(shape.key_stride)) {}

void TileScores::find(const Queries& queries, const Keys& keys, const KeyBlock& block,
                      const Tile& tile) {
  multiply(queries.scaled, keys.transposed, block, tile, scores);
  for (int64_t r = 0; r < tile.count(); ++r) {
    if (softcap_ > 0) kernels::softcap(scores.row(r), slopes.row(r), softcap_, block.count());
    add_pair_terms(tile.rows[size_t(r)], block, scores.row(r));
  }
}

void TileScores::find_with_errors(const Queries& queries, const Keys& keys, const KeyBlock& block,
                                  const Tile& tile, const SigmaModel& model,
                                  std::span<const double> common_dots) {
  multiply(queries.scaled, keys.transposed, block, tile, scores);
  multiply(queries.magnitudes, keys.magnitudes, block, tile, magnitudes);
  for (int64_t r = 0; r < tile.count(); ++r) {
    double* row = scores.row(r);
    if (staged()) std::copy_n(row, block.count(), sloped_dots.row(r));
    if (softcap_ > 0) {
      kernels::softcap(row, slopes.row(r), softcap_, block.count());
      shrink(r, block.count(), model.squares());
    }
    if (staged()) std::copy_n(row, block.count(), capped_.data());
    add_pair_terms(tile.rows[size_t(r)], block, row);
    if (staged())
      note_stages(r, block.count(), model,
                  common_dots.empty() ? 0 : common_dots[size_t(tile.first + r)]);
  }
}

void TileScores::multiply(const Matrix& queries, const Matrix& keys, const KeyBlock& block,
                          const Tile& tile, Matrix& products) const {
  const int64_t rows = padded_rows(tile.count());
  products.clear(rows);
  add_product(
      queries.left(tile.first), keys.right(0), products.sum(0),
      {.rows = rows, .inner = queries.stride(), .columns = round_up(block.count(), kColumns)});
}

// Nothing is left of a magnitude, even of an infinite one, where the score is the cap.
void TileScores::shrink(int64_t r, int64_t keys, bool squares) {
  const double* slope = slopes.row(r);
  double* magnitude = magnitudes.row(r);
  for (int64_t key = 0; key < keys; ++key) {
    const double factor = squares ? slope[key] * slope[key] : slope[key];
    magnitude[key] = slope[key] == 0 ? 0 : magnitude[key] * factor;
  }
}

void TileScores::add_pair_terms(const JudgedRow& row, const KeyBlock& block,
                                double* row_scores) const {
  if (block.contiguous()) {
    const int64_t first = block.place(0);
    const int64_t begin = std::clamp<int64_t>(row.keys.begin - first, 0, block.count()),
                  end = std::clamp<int64_t>(row.keys.end - first, begin, block.count());
    std::fill(row_scores, row_scores + begin, kHidden);
    std::fill(row_scores + end, row_scores + block.count(), kHidden);
    if (geometry_.pair_terms())
      geometry_.add_pair_terms(row.b, row.h, row.i, {first + begin, first + end},
                               row_scores + begin);
    return;
  }
  for (int64_t key = 0; key < block.count(); ++key) {
    const int64_t place = block.place(key);
    if (!row.keys.contains(place))
      row_scores[key] = kHidden;
    else if (geometry_.pair_terms())
      geometry_.add_pair_terms(row.b, row.h, row.i, {place, place + 1}, row_scores + key);
  }
}

void TileScores::note_stages(int64_t r, int64_t keys, const SigmaModel& model, double common_dot) {
  const double *score = scores.row(r), *capped = capped_.data(), *slope = slopes.row(r);
  double *dot = sloped_dots.row(r), *staged_square = staged_squares.row(r),
         *added_square = added_squares.row(r), *lesser_size = lesser_sizes.row(r),
         *at_cap = at_caps.row(r);
  const bool has_softcap = softcap_ > 0;
  for (int64_t key = 0; key < keys; ++key) {
    double own_dot = dot[key] - common_dot;
    if (has_softcap) {
      dot[key] = slope[key] == 0 ? 0 : dot[key] * slope[key];
      own_dot = slope[key] == 0 ? 0 : own_dot * slope[key];
      at_cap[key] = model.is_at_cap(slope[key]) ? 1 : 0;
    }
    const double dot_square = dot[key] * dot[key];
    const double kept = dot_square + (has_softcap ? capped[key] * capped[key] : 0);
    const bool added = score[key] != capped[key] && score[key] != kHidden;
    added_square[key] = added ? model.staged_square(0, score[key] * score[key]) : 0;
    staged_square[key] =
        model.staged_square(dot_square, own_dot * own_dot, kept) + added_square[key];
    lesser_size[key] = added ? std::min(std::fabs(score[key]), std::fabs(capped[key])) : 0;
  }
}

}  // namespace attest::core::passes
