#include "core/operations/softmax/problem/geometry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

bool is_grid(const attest_softmax_params& params) { return params.grid_height > 0; }

int64_t integer(const Tensor& tensor, int64_t index) {
  return int64_t(load(tensor.data, ATTEST_I32, index * tensor.spec.stride[0]));
}

struct SequenceLengths {
  std::vector<int64_t> length, first;
};

// Of one side: `tokens` are the rows of the packed tensor.
SequenceLengths read_lengths(const char* side, const Tensor& cu_seqlens, const Tensor& seq_lens,
                             int64_t batch, int64_t longest, int64_t tokens) {
  SequenceLengths lengths{std::vector<int64_t>(size_t(batch), longest),
                          std::vector<int64_t>(size_t(batch), 0)};
  for (int64_t b = 0; b < batch; ++b) {
    int64_t& length = lengths.length[size_t(b)];
    if (cu_seqlens) {
      const int64_t begin = integer(cu_seqlens, b), end = integer(cu_seqlens, b + 1);
      if (begin < 0 || end < begin || end > tokens || end - begin > longest)
        throw Error(
            fmt::format("cu_seqlens_{0}: sequence {1} has rows {2} .. {3}; they must grow, lie in "
                        "0 .. {4} and be at most seq_len_{0} = {5}",
                        side, b, begin, end, tokens, longest));
      lengths.first[size_t(b)] = begin;
      length = end - begin;
    } else if (seq_lens) {
      length = integer(seq_lens, b);
      if (length < 0 || length > longest)
        throw Error(
            fmt::format("seq_lens_{0}: sequence {1} has {2}; must lie in 0 .. seq_len_{0} = {3}",
                        side, b, length, longest));
    }
  }
  return lengths;
}

}  // namespace

int64_t diagonal_place(const attest_softmax_params& params, int64_t i, int64_t length_q,
                       int64_t length_kv) {
  return i + params.diagonal_offset +
         (params.diagonal == ATTEST_BOTTOM_RIGHT ? length_kv - length_q : 0);
}

Interval visible_keys(const attest_softmax_params& params, int64_t i, int64_t length_q,
                      int64_t length_kv) {
  if (is_grid(params)) {
    const int64_t size = params.window_height * params.window_width, begin = i / size * size;
    return {begin, begin + size};
  }
  if (params.global_tokens > 0) return {0, length_kv};
  int64_t begin = 0, end = length_kv;
  const int64_t p = diagonal_place(params, i, length_q, length_kv);
  if (params.window_left >= 0) begin = std::max(begin, p - params.window_left);
  if (params.window_right >= 0) end = std::min(end, p + params.window_right + 1);
  if (const int64_t size = params.patch_size; size > 0) {
    const int64_t patch_end = (i / size + 1) * size;
    const bool last = patch_end > length_kv;
    begin = std::max(begin, last ? length_kv - size : patch_end - size);
    end = std::min(end, patch_end);
  }
  begin = std::min(begin, length_kv);
  return {begin, std::max(begin, end)};
}

bool hidden_by_band(const attest_softmax_params& params, int64_t i, int64_t j, int64_t length_q,
                    int64_t length_kv) {
  if (i < params.global_tokens || j < params.global_tokens || params.global_tokens == 0)
    return false;
  const int64_t p = diagonal_place(params, i, length_q, length_kv);
  return (params.window_left >= 0 && j < p - params.window_left) ||
         (params.window_right >= 0 && j > p + params.window_right);
}

namespace {

// The keys of the band that are no global tokens.
Interval band_beside_globals(const attest_softmax_params& params, int64_t i, int64_t length_q,
                             int64_t length_kv) {
  attest_softmax_params band = params;
  band.global_tokens = 0;
  const Interval keys = visible_keys(band, i, length_q, length_kv);
  return {std::max(keys.begin, std::min(params.global_tokens, length_kv)), keys.end};
}

}  // namespace

double visible_pairs(const attest_softmax_params& params, int64_t length_q, int64_t length_kv) {
  if (is_grid(params)) return double(length_q) * double(params.window_height * params.window_width);
  if (!has_band(params) && params.patch_size <= 0) return double(length_q) * double(length_kv);
  double pairs = 0;
  const int64_t globals = std::min(params.global_tokens, length_kv);
  for (int64_t i = 0; i < length_q && params.global_tokens > 0; ++i)
    pairs += i < globals
                 ? double(length_kv)
                 : double(globals + band_beside_globals(params, i, length_q, length_kv).size());
  if (params.global_tokens > 0) return pairs;
  for (int64_t i = 0; i < length_q; ++i)
    pairs += double(visible_keys(params, i, length_q, length_kv).size());
  return pairs;
}

Geometry::Geometry(const Problem& problem, const Tensors& tensors)
    : params_(problem.as<attest_softmax_params>()),
      q_(tensors[ATTEST_Q]),
      k_(tensors[ATTEST_K]),
      bias_(tensors[ATTEST_BIAS]),
      mask_(tensors[ATTEST_MASK]),
      block_mask_(tensors[ATTEST_BLOCK_MASK]),
      rel_bias_(tensors[ATTEST_REL_BIAS]),
      slopes_(tensors[ATTEST_ALIBI_SLOPES]),
      sinks_(tensors[ATTEST_SINKS]),
      order_(tensors[ATTEST_ORDER]),
      pages_(tensors[ATTEST_PAGE_TABLE]),
      packed_q_(tensors[ATTEST_CU_SEQLENS_Q]),
      packed_kv_(tensors[ATTEST_CU_SEQLENS_KV]),
      shifted_(is_grid(params_) && params_.shift_bias != 0 &&
               (params_.shift_y != 0 || params_.shift_x != 0)) {
  SequenceLengths q = read_lengths("q", tensors[ATTEST_CU_SEQLENS_Q], tensors[ATTEST_SEQ_LENS_Q],
                                   batch(), params_.seq_len_q, q_.spec.dim[2]);
  SequenceLengths kv =
      read_lengths("kv", tensors[ATTEST_CU_SEQLENS_KV], tensors[ATTEST_SEQ_LENS_KV], batch(),
                   params_.seq_len_kv, k_.spec.dim[2]);
  length_q_ = std::move(q.length);
  first_q_ = std::move(q.first);
  length_kv_ = std::move(kv.length);
  first_kv_ = std::move(kv.first);
  if (is_grid(params_)) lay_out_grid();
  if (order_) check_order();
  if (pages_) check_pages();
}

// An order is a permutation: two places on one row would leave its output undefined.
void Geometry::check_order() const {
  const int64_t rows = order_.spec.dim[1];
  std::vector<bool> seen(size_t(rows), false);
  for (int64_t o = 0; o < order_.spec.dim[0]; ++o) {
    seen.assign(size_t(rows), false);
    for (int64_t place = 0; place < rows; ++place) {
      const auto row = int64_t(order_.at({o, place}));
      if (row < 0 || row >= rows)
        throw Error(
            fmt::format("order: row {} at place {}; must lie in 0 .. {}", row, place, rows - 1));
      if (seen[size_t(row)])
        throw Error(fmt::format(
            "order: row {} stands at two places, {} is the second; every row stands at one", row,
            place));
      seen[size_t(row)] = true;
    }
  }
}

void Geometry::check_pages() const {
  for (int64_t b = 0; b < batch(); ++b)
    for (int64_t j = 0; j < length_kv(b); j += params_.page_size) {
      const int64_t page = key(b, j).outer;
      if (page < 0 || page >= k_.spec.dim[0])
        throw Error(fmt::format("page_table: page {} at key {} of sequence {}; must lie in 0 .. {}",
                                page, j, b, k_.spec.dim[0] - 1));
    }
}

// Once, since every pair asks for both of its places.
void Geometry::lay_out_grid() {
  const auto height = int32_t(params_.window_height), width = int32_t(params_.window_width);
  grid_.reserve(size_t(params_.grid_height * params_.grid_width));
  for (int32_t top = 0; top < params_.grid_height; top += height)
    for (int32_t left = 0; left < params_.grid_width; left += width)
      for (int32_t y = 0; y < height; ++y)
        for (int32_t x = 0; x < width; ++x) grid_.push_back({top + y, left + x, y, x});
  place_.resize(grid_.size());
  for (size_t place = 0; place < grid_.size(); ++place)
    place_[size_t(token(int64_t(place)))] = int64_t(place);
}

int64_t Geometry::token(int64_t place) const {
  if (!is_grid(params_)) return place;
  const GridPoint& point = grid_point(place);
  return (point.y + params_.shift_y) % params_.grid_height * params_.grid_width +
         (point.x + params_.shift_x) % params_.grid_width;
}

Cell Geometry::query(int64_t b, int64_t i) const {
  const int64_t place = first_q_[size_t(b)] + token(i), outer = packed_q_ ? 0 : b;
  return {outer, order_ ? int64_t(order_.at({outer, place})) : place};
}

Cell Geometry::key(int64_t b, int64_t j) const {
  if (pages_) return {int64_t(pages_.at({b, j / params_.page_size})), j % params_.page_size};
  const int64_t place = first_kv_[size_t(b)] + token(j), outer = packed_kv_ ? 0 : b;
  return {outer, order_ ? int64_t(order_.at({outer, place})) : place};
}

int64_t Geometry::output_row(int64_t b, int64_t h, int64_t i) const {
  const Cell cell = query(b, i);
  return (cell.outer * params_.num_heads + h) * q_.spec.dim[2] + cell.row;
}

int64_t Geometry::key_row(int64_t b, int64_t kv_head, int64_t j) const {
  const Cell cell = key(b, j);
  return (cell.outer * params_.num_kv_heads + kv_head) * k_.spec.dim[2] + cell.row;
}

namespace {

/// The rows of a tensor, leading 3, that hold no position of a sequence. `length(b)` says how many
/// positions sequence b has, and `cell(b, n)` where position n of it is.
template <class Length, class CellOf>
std::vector<int64_t> rows_without_positions(const TensorSpec& spec, int64_t batch,
                                            const Length& length, const CellOf& cell) {
  std::vector<bool> used(size_t(spec.dim[0] * spec.dim[2]));
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t n = 0; n < length(b); ++n) {
      const Cell at = cell(b, n);
      used[size_t(at.outer * spec.dim[2] + at.row)] = true;
    }
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < row_count(spec, 3); ++row) {
    const int64_t outer = row / (spec.dim[1] * spec.dim[2]);
    if (!used[size_t(outer * spec.dim[2] + row % spec.dim[2])]) rows.push_back(row);
  }
  return rows;
}

}  // namespace

std::vector<int64_t> Geometry::idle_rows() const {
  return rows_without_positions(
      q_.spec, batch(), [this](int64_t b) { return length_q(b); },
      [this](int64_t b, int64_t i) { return query(b, i); });
}

std::vector<int64_t> Geometry::idle_key_rows() const {
  return rows_without_positions(
      k_.spec, batch(), [this](int64_t b) { return length_kv(b); },
      [this](int64_t b, int64_t j) { return key(b, j); });
}

// What is added to the score of one pair; -inf hides it.
double Geometry::pair_term(int64_t b, int64_t h, int64_t i, int64_t j) const {
  const int64_t query_token = token(i), key_token = token(j);
  if (mask_ && mask_.at({b, h, query_token, key_token}) == 0) return kHidden;
  if (block_hidden(b, h, i, j)) return kHidden;
  if (hidden_by_band(params_, i, j, length_q(b), length_kv(b))) return kHidden;
  double term = bias_ ? bias_.at({b, h, query_token, key_token}) : 0;
  if (slopes_) term -= slopes_.at({b, h}) * std::fabs(double(diagonal(b, i) - j));
  if (rel_bias_) term += rel_bias(h, i, j);
  if (shifted_ && region(i) != region(j)) term += double(params_.shift_bias);
  return term;
}

double Geometry::sink(int64_t h) const { return sinks_ ? sinks_.at({h}) : kHidden; }

double Geometry::rel_bias(int64_t h, int64_t i, int64_t j) const {
  const GridPoint query = grid_point(i), key = grid_point(j);
  return rel_bias_.at({h, query.window_y - key.window_y + params_.window_height - 1,
                       query.window_x - key.window_x + params_.window_width - 1});
}

// Rolling puts rows y < shift_y behind the last ones, and columns alike.
int64_t Geometry::region(int64_t place) const {
  const GridPoint& point = grid_point(place);
  return (point.y >= params_.grid_height - params_.shift_y ? 2 : 0) +
         (point.x >= params_.grid_width - params_.shift_x ? 1 : 0);
}

void Geometry::add_pair_terms(int64_t b, int64_t h, int64_t i, Interval keys,
                              double* scores) const {
  auto add = [&](int64_t k, double term) {
    scores[k] = term == kHidden ? kHidden : scores[k] + term;
  };
  if (is_grid(params_)) {
    for (int64_t k = 0; k < keys.size(); ++k) add(k, pair_term(b, h, i, keys.begin + k));
    return;
  }
  if (slopes_) {
    const double slope = slopes_.at({b, h});
    const int64_t p = diagonal(b, i);
    for (int64_t k = 0; k < keys.size(); ++k)
      scores[k] -= slope * std::fabs(double(p - keys.begin - k));
  }
  add_rows_of_pairs(b, h, i, keys, scores);
  if (block_mask_) hide_blocks(b, h, i, keys, scores);
  if (params_.global_tokens > 0) hide_band(b, i, keys, scores);
}

void Geometry::hide_blocks(int64_t b, int64_t h, int64_t i, Interval keys, double* scores) const {
  const int64_t size = params_.block_kv;
  for (int64_t j = keys.begin, end; j < keys.end; j = end) {
    end = std::min((j / size + 1) * size, keys.end);
    if (block_hidden(b, h, i, j))
      std::fill(scores + (j - keys.begin), scores + (end - keys.begin), kHidden);
  }
}

void Geometry::hide_band(int64_t b, int64_t i, Interval keys, double* scores) const {
  if (i < params_.global_tokens) return;
  const Interval band = band_beside_globals(params_, i, length_q(b), length_kv(b));
  for (int64_t j = std::max(keys.begin, params_.global_tokens); j < keys.end; ++j)
    if (!band.contains(j)) scores[j - keys.begin] = kHidden;
}

void Geometry::add_rows_of_pairs(int64_t b, int64_t h, int64_t i, Interval keys,
                                 double* scores) const {
  if (!bias_ && !mask_) return;
  auto add = [&](int64_t k, double term) {
    scores[k] = term == kHidden ? kHidden : scores[k] + term;
  };
  constexpr int64_t kChunk = 256;
  double terms[kChunk];
  auto row = [&](const Tensor& tensor, int64_t first, int64_t count) {
    const TensorSpec& spec = tensor.spec;
    load_row(tensor.data, spec.dtype,
             b * spec.stride[0] + h * spec.stride[1] + i * spec.stride[2] + first * spec.stride[3],
             count, spec.stride[3], terms);
  };
  for (int64_t done = 0; done < keys.size(); done += kChunk) {
    const int64_t count = std::min(kChunk, keys.size() - done);
    if (bias_) {
      row(bias_, keys.begin + done, count);
      for (int64_t k = 0; k < count; ++k) add(done + k, terms[k]);
    }
    if (mask_) {
      row(mask_, keys.begin + done, count);
      for (int64_t k = 0; k < count; ++k)
        if (terms[k] == 0) scores[done + k] = kHidden;
    }
  }
}

bool Geometry::visible(int64_t b, int64_t h, int64_t i, int64_t j) const {
  return keys(b, i).contains(j) && (!pair_terms() || pair_term(b, h, i, j) != kHidden);
}

}  // namespace attest::core
