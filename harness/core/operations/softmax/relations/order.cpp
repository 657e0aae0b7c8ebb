// Permutations: keys that the same queries see, queries that see the same keys.
#include <algorithm>
#include <numeric>
#include <set>

#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/relations/relations.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

// Terms that hang on the places of a pair, as ALiBi's and a grid's do, cannot follow a permutation,
// nor can the choice of the first of equal keys.
bool places_matter(const Problem& problem) {
  if (problem.features & (ATTEST_WITH_ALIBI | ATTEST_WITH_GLOBAL)) return true;
  const auto& p = problem.as<attest_softmax_params>();
  if (p.top_k > 0 && p.top_k_ties == ATTEST_TOP_K_FIRST) return true;
  return p.grid_height > 0 && (problem.features & (ATTEST_WITH_REL_BIAS | ATTEST_WITH_BIAS |
                                                   ATTEST_WITH_MASK | ATTEST_WITH_BLOCK_MASK) ||
                               p.shift_bias != 0);
}

// Whether BIAS or MASK differ along `axis`: then all sequences share them, and one permutation
// serves all.
bool terms_along(const Tensors& inputs, int axis) {
  for (const int32_t role : {ATTEST_BIAS, ATTEST_MASK})
    if (inputs[size_t(role)] && inputs[size_t(role)].spec.dim[axis] > 1) return true;
  return false;
}

// source[place] for the places of one sequence, or of all.
using Places = std::vector<int64_t>;

Places identity(int64_t count) {
  Places places(static_cast<size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  return places;
}

// Rows of the storage, dims 0 and 2 of a tensor, from places of each sequence.
template <class CellOf>
Rearrangement cells(int32_t role, const TensorSpec& spec, const std::vector<Places>& places,
                    const std::vector<int64_t>& lengths, const CellOf& cell_of) {
  Rearrangement moved{role, 0, 2, identity(spec.dim[0] * spec.dim[2])};
  auto at = [&](size_t b, int64_t place) {
    const Cell cell = cell_of(int64_t(b), place);
    return cell.outer * spec.dim[2] + cell.row;
  };
  for (size_t b = 0; b < places.size(); ++b)
    for (int64_t j = 0; j < lengths[b]; ++j)
      moved.source[size_t(at(b, j))] = at(b, places[b][size_t(j)]);
  return moved;
}

// The edges of the blocks of BLOCK_MASK, whose tokens stay among themselves. `size` 0: no blocks.
void add_blocks(int64_t size, int64_t length, std::set<int64_t>& boundaries) {
  for (int64_t edge = size; size > 0 && edge < length; edge += size) boundaries.insert(edge);
}

// Places where the set of rows that see a key changes.
void add_boundaries(const Geometry& geometry, int64_t b, std::set<int64_t>& boundaries) {
  boundaries.insert(geometry.length_kv(b));
  for (int64_t i = 0; i < geometry.length_q(b); ++i) {
    const Interval keys = geometry.keys(b, i);
    if (keys.size() > 0) boundaries.insert({keys.begin, keys.end});
  }
}

// The places of each segment between boundaries by growing score with a query, of sequence b, that
// sees it.
void order_keys(const Geometry& geometry, const Tensors& inputs, int64_t b,
                const std::set<int64_t>& boundaries, Places& places) {
  const Tensor &q = inputs[ATTEST_Q], &k = inputs[ATTEST_K];
  const int64_t width = q.spec.dim[3];
  std::vector<double> query(static_cast<size_t>(width)), key(query), score(places.size());
  auto load_cell = [&](const Tensor& from, Cell cell, std::vector<double>& row) {
    load_row(from.data, from.spec.dtype,
             cell.outer * from.spec.stride[0] + cell.row * from.spec.stride[2], width,
             from.spec.stride[3], row.data());
  };
  int64_t begin = 0, i = 0;
  for (const int64_t end : boundaries) {
    while (i < geometry.length_q(b) && geometry.keys(b, i).end <= begin) ++i;
    if (end - begin > 1 && end <= geometry.length_kv(b) && i < geometry.length_q(b)) {
      load_cell(q, geometry.query(b, i), query);
      for (int64_t j = begin; j < end; ++j) {
        load_cell(k, geometry.key(b, j), key);
        score[size_t(j)] = std::inner_product(query.begin(), query.end(), key.begin(), 0.0);
      }
      std::stable_sort(places.begin() + begin, places.begin() + end,
                       [&](int64_t x, int64_t y) { return score[size_t(x)] < score[size_t(y)]; });
    }
    begin = end;
  }
}

// One page may belong to several sequences: then their keys cannot move apart.
bool shares_cells(const Geometry& geometry) {
  std::set<std::pair<int64_t, int64_t>> seen;
  for (int64_t b = 0; b < geometry.batch(); ++b)
    for (int64_t j = 0; j < geometry.length_kv(b); ++j) {
      const Cell cell = geometry.key(b, j);
      if (!seen.insert({cell.outer, cell.row}).second) return true;
    }
  return false;
}

bool moves(const std::vector<Rearrangement>& rearrangements) {
  return std::any_of(rearrangements.begin(), rearrangements.end(), [](const Rearrangement& one) {
    return one.source != identity(int64_t(one.source.size()));
  });
}

void add_moved_terms(const Tensors& inputs, int axis, const Places& places,
                     std::vector<Rearrangement>& moved) {
  for (const int32_t role : {ATTEST_BIAS, ATTEST_MASK})
    if (inputs[size_t(role)] && inputs[size_t(role)].spec.dim[axis] > 1)
      moved.push_back({role, -1, axis, places});
}

// Shuffles each stretch of places between boundaries.
void shuffle(const std::set<int64_t>& boundaries, Places& places) {
  constexpr uint64_t kSeed = 0x71756572696573;
  int64_t begin = 0;
  for (const int64_t end : boundaries) {
    for (int64_t n = end - begin; n > 1; --n)
      std::swap(
          places[size_t(begin + n - 1)],
          places[size_t(begin) + size_t(random_below(kSeed, uint64_t(begin + n), uint64_t(n)))]);
    begin = end;
  }
}

}  // namespace

std::unique_ptr<Relation> key_permutation(const Problem& problem, const Tensors& inputs) {
  const auto& p = problem.as<attest_softmax_params>();
  const Geometry geometry(problem, inputs);
  if (places_matter(problem) || (p.page_size > 0 && shares_cells(geometry))) return nullptr;
  const bool common = terms_along(inputs, 3);
  std::vector<Places> places(size_t(p.batch), identity(p.seq_len_kv));
  std::vector<std::set<int64_t>> boundaries(size_t(p.batch));
  std::vector<int64_t> lengths(static_cast<size_t>(p.batch));
  for (int64_t b = 0; b < p.batch; ++b) {
    add_boundaries(geometry, b, boundaries[common ? 0 : size_t(b)]);
    lengths[size_t(b)] = geometry.length_kv(b);
    add_blocks(p.block_kv, lengths[size_t(b)], boundaries[common ? 0 : size_t(b)]);
  }
  const auto longest = std::max_element(lengths.begin(), lengths.end()) - lengths.begin();
  for (int64_t b = 0; b < p.batch; ++b)
    if (!common || b == longest)
      order_keys(geometry, inputs, b, boundaries[common ? 0 : size_t(b)], places[size_t(b)]);
  if (common) std::fill(places.begin(), places.end(), Places(places[size_t(longest)]));
  std::vector<Rearrangement> moved;
  for (const int32_t role : {ATTEST_K, ATTEST_V})
    moved.push_back(cells(role, problem.tensor[size_t(role)], places, lengths,
                          [&](int64_t b, int64_t j) { return geometry.key(b, j); }));
  if (!moves(moved)) return nullptr;
  add_moved_terms(inputs, 3, places[0], moved);
  return rearranged("key-permutation", problem, inputs, std::move(moved));
}

std::unique_ptr<Relation> query_permutation(const Problem& problem, const Tensors& inputs) {
  const auto& p = problem.as<attest_softmax_params>();
  if (places_matter(problem)) return nullptr;
  const Geometry geometry(problem, inputs);
  const bool common = terms_along(inputs, 2);
  std::vector<Places> places(size_t(p.batch), identity(p.seq_len_q));
  std::vector<std::set<int64_t>> boundaries(size_t(p.batch));
  std::vector<int64_t> lengths(static_cast<size_t>(p.batch));
  for (int64_t b = 0; b < p.batch; ++b) {
    std::set<int64_t>& own = boundaries[common ? 0 : size_t(b)];
    lengths[size_t(b)] = geometry.length_q(b);
    own.insert(lengths[size_t(b)]);
    add_blocks(p.block_q, lengths[size_t(b)], own);
    for (int64_t i = 1; i < lengths[size_t(b)]; ++i) {
      const Interval keys = geometry.keys(b, i), before = geometry.keys(b, i - 1);
      if (keys.begin != before.begin || keys.end != before.end) own.insert(i);
    }
  }
  for (int64_t b = 0; b < p.batch; ++b)
    shuffle(boundaries[common ? 0 : size_t(b)], places[size_t(b)]);
  std::vector<Rearrangement> moved;
  for (const int32_t role : {ATTEST_Q, ATTEST_O, ATTEST_LSE})
    if (problem.has(role))
      moved.push_back(cells(role, problem.tensor[size_t(role)], places, lengths,
                            [&](int64_t b, int64_t i) { return geometry.query(b, i); }));
  if (!moves(moved)) return nullptr;
  add_moved_terms(inputs, 2, places[0], moved);
  return rearranged("query-permutation", problem, inputs, std::move(moved));
}

}  // namespace attest::core
