#include "core/operations/softmax/golden/passes/key_passes.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/operations/softmax/golden/passes/prefix_sums.hpp"
#include "core/operations/softmax/golden/passes/second_pass.hpp"
#include "core/operations/softmax/golden/passes/top_k.hpp"
#include "core/operations/softmax/golden/product_phases.hpp"
#include "core/operations/softmax/golden/roundings/leaning_roundings.hpp"
#include "core/operations/softmax/golden/roundings/shared_roundings.hpp"
#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {

using namespace passes;

namespace {

// Whether a row of the tile may see a key of the block.
bool meet(const Tile& tile, const KeyBlock& block) {
  if (block.grouped()) return true;
  const Interval keys = block.span();
  return std::any_of(tile.rows.begin(), tile.rows.end(), [&](const JudgedRow& row) {
    return row.keys.begin < keys.end && row.keys.end > keys.begin;
  });
}

// Adds `count` scores to a row's range, number of keys, and sum of exp(score - row.largest).
void add_scores(const double* scores, int64_t count, RowScores& row, double& sum) {
  const kernels::Range found = kernels::range(scores, count);
  if (found.count == 0) return;
  const double largest = std::max(row.largest, found.largest);
  if (row.keys > 0) sum *= std::exp(row.largest - largest);
  sum += kernels::sum_exp(scores, largest, count);
  row.least = std::min(row.least, found.least);
  row.largest = largest;
  row.keys += found.count;
}

}  // namespace

struct KeyPasses::Impl {
  Impl(const Problem& problem, const Tensors& tensors, const Geometry& places, bool common,
       bool equal_holds)
      : geometry(places),
        has_softcap(problem.as<attest_softmax_params>().softcap > 0),
        common_channel(common),
        ties_hold(equal_holds),
        shape(problem.as<attest_softmax_params>()),
        queries(tensors[ATTEST_Q], places, problem.as<attest_softmax_params>()),
        keys(tensors[ATTEST_K], places, shape),
        values(tensors[ATTEST_V], places, shape),
        tile_scores(problem.as<attest_softmax_params>(), places, shape),
        second_pass(places, shape),
        prefixes(shape) {
    const auto& p = problem.as<attest_softmax_params>();
    if (p.top_k > 0) {
      search.emplace(p);
      swaps.emplace(p, shape);
    }
  }

  const Geometry& geometry;
  const bool has_softcap, common_channel, ties_hold;
  const BlockShape shape;
  Queries queries;
  Keys keys;
  Values values;
  TileScores tile_scores;
  SecondPass second_pass;
  PrefixSums prefixes;
  std::optional<SharedRoundings> shared;    // made when first needed: SigmaModel::needs_shared
  std::optional<LeaningRoundings> leaning;  // likewise: SigmaModel::leans
  std::vector<bool> is_flat;                // [rows of the task]: AlikePhases::is_flat
  std::vector<ProductPhases> products;      // of the flat rows of a tile, made when first needed
  std::optional<Matrix> alike_products;     // [kTaskRows, value_stride], likewise
  std::vector<double> common_dots;          // [rows of the task]; empty unless common_channel
  std::optional<TopKSearch> search;         // if the problem has top_k
  std::optional<TopKSwaps> swaps;           // likewise

  // Calls load(block) for every block of keys, then body(block, tile) for every tile of rows that
  // may see some of them.
  template <class Load, class Body>
  void for_tiles(const KeyOrder& order, std::span<const JudgedRow> rows, const Load& load,
                 const Body& body) {
    for (int64_t begin = 0; begin < order.size();) {
      const KeyBlock block(order, begin, shape.keys);
      load(block);
      for (size_t first = 0; first < rows.size(); first += size_t(kTileRows)) {
        const size_t count = std::min(size_t(kTileRows), rows.size() - first);
        const Tile tile{int64_t(first), rows.subspan(first, count)};
        if (meet(tile, block)) body(block, tile);
      }
      begin += block.count();
    }
  }

  void score(const RowTask& task, std::span<const JudgedRow> rows, const EqualKeys& equal,
             std::span<RowScores> scores) {
    queries.load(rows);
    std::fill(scores.begin(), scores.end(),
              RowScores{.least = -kHidden, .largest = kHidden, .lse = kHidden, .keys = 0});
    if (search) find_edges(task, rows, equal, scores);
    std::vector<double> exp_sums(rows.size(), 0.0);  // of exp(score - largest)
    for_tiles(
        KeyOrder(task.keys, equal), rows, [&](const KeyBlock& block) { keys.load(task, block); },
        [&](const KeyBlock& block, const Tile& tile) {
          tile_scores.find(queries, keys, block, tile);
          hide(scores, block, tile);
          for (int64_t r = 0; r < tile.count(); ++r) {
            const auto row = size_t(tile.first + r);
            add_scores(tile_scores.scores.row(r), block.count(), scores[row], exp_sums[row]);
          }
        });
    for (size_t r = 0; r < rows.size(); ++r)
      if (scores[r].keys > 0) scores[r].close(exp_sums[r], geometry.sink(rows[r].h));
  }

  // Which keys of each row count in a problem with top_k.
  void find_edges(const RowTask& task, std::span<const JudgedRow> rows, const EqualKeys& equal,
                  std::span<RowScores> scores) {
    search->start(rows.size());
    for_tiles(
        KeyOrder(task.keys, equal), rows, [&](const KeyBlock& block) { keys.load(task, block); },
        [&](const KeyBlock& block, const Tile& tile) {
          tile_scores.find(queries, keys, block, tile);
          for (int64_t r = 0; r < tile.count(); ++r)
            search->add(size_t(tile.first + r), tile_scores.scores.row(r), block);
        });
    for (size_t r = 0; r < rows.size(); ++r) scores[r].edge = search->edge(r);
  }
  void hide(std::span<const RowScores> scores, const KeyBlock& block, const Tile& tile) {
    for (int64_t r = 0; search && r < tile.count(); ++r)
      hide_below(scores[size_t(tile.first + r)].edge, block, tile_scores.scores.row(r));
  }

  // The errors of the keys at the edges.
  void start_swaps(const RowTask& task, std::span<const JudgedRow> rows, const KeyOrder& order,
                   std::span<const RowScores> scores, const SigmaModel& model) {
    swaps->start(scores, model, ties_hold);
    for_tiles(
        order, rows,
        [&](const KeyBlock& block) {
          keys.load(task, block);
          keys.find_magnitudes(model.squares(), block.count());
        },
        [&](const KeyBlock& block, const Tile& tile) {
          tile_scores.find_with_errors(queries, keys, block, tile, model, common_dots);
          swaps->find_edges(tile_scores, block, tile);
        });
  }

  void finish(const RowTask& task, std::span<const JudgedRow> rows, const EqualKeys& equal,
              std::span<const RowScores> scores, const SigmaModel& model,
              const RowResults& results) {
    const KeyOrder order(task.keys, equal);
    const auto count = int64_t(rows.size());
    queries.load(rows);
    queries.find_magnitudes(count, model.squares(), common_channel);
    if (common_channel) find_common_dots(task, rows);
    second_pass.start(count, order.has_groups());
    if (model.needs_shared()) {
      if (!shared) shared.emplace(shape);
      shared->start(queries, count, model);
    }
    if (model.leans()) {
      if (!leaning) leaning.emplace(shape);
      leaning->start(model);
    }
    if (swaps) start_swaps(task, rows, order, scores, model);
    values.largest = 0;
    for_tiles(
        order, rows,
        [&](const KeyBlock& block) {
          keys.load(task, block);
          keys.find_magnitudes(model.squares(), block.count());
          values.load(task, block);
          if (model.needs_shared()) shared->load(keys, values, block);
        },
        [&](const KeyBlock& block, const Tile& tile) {
          tile_scores.find_with_errors(queries, keys, block, tile, model, common_dots);
          if (swaps) swaps->add(tile_scores, values, block, tile);
          hide(scores, block, tile);
          second_pass.add(tile_scores, values, block, tile, scores, model);
          if (model.needs_shared())
            shared->add(tile_scores, second_pass.weights().probabilities, queries, keys, values,
                        block, tile);
          if (model.leans())
            leaning->add(second_pass.weights().probabilities, values, block, tile, scores);
        });
    second_pass.finish(model);
    if (model.needs_prefix()) find_prefixes(task, rows, scores);
    find_alike_products(task, rows, scores, model);
    for (int64_t r = 0; r < count; ++r) write_row(r, scores[size_t(r)], model, results);
  }

  // Keys that no row sees may be NaN; the others are alike in channel 0. Nothing is left of it
  // behind a softcap.
  void find_common_dots(const RowTask& task, std::span<const JudgedRow> rows) {
    common_dots.assign(rows.size(), 0.0);
    const double key = keys.first_finite(task, 0);
    for (size_t r = 0; r < rows.size() && !has_softcap; ++r)
      common_dots[r] = queries.scaled.row(int64_t(r))[0] * key;
  }

  // The third pass takes keys in the order of their places, equal or not.
  void find_prefixes(const RowTask& task, std::span<const JudgedRow> rows,
                     std::span<const RowScores> scores) {
    prefixes.start(scores);
    for_tiles(
        KeyOrder(task.keys, {}), rows,
        [&](const KeyBlock& block) {
          keys.load(task, block);
          values.load(task, block);
        },
        [&](const KeyBlock& block, const Tile& tile) {
          tile_scores.find(queries, keys, block, tile);
          hide(scores, block, tile);
          prefixes.add(tile_scores.scores, values, block, tile, second_pass.sums().pv);
        });
  }

  // Another pass over a sample of the keys, for rows whose weights are nearly equal.
  void find_alike_products(const RowTask& task, std::span<const JudgedRow> rows,
                           std::span<const RowScores> scores, const SigmaModel& model) {
    is_flat.clear();
    for (size_t r = 0; r < rows.size(); ++r)
      is_flat.push_back(second_pass.sums().scalars[r].phases.is_flat(scores[r], model));
    for (size_t first = 0; first < rows.size(); first += size_t(kTileRows)) {
      const size_t count = std::min(size_t(kTileRows), rows.size() - first);
      std::vector<int64_t> flat;  // rows of the tile
      for (size_t r = 0; r < count; ++r)
        if (is_flat[first + r]) flat.push_back(int64_t(r));
      if (!flat.empty())
        find_alike_products(task, {int64_t(first), rows.subspan(first, count)}, flat, scores,
                            model);
    }
  }
  void find_alike_products(const RowTask& task, const Tile& tile, std::span<const int64_t> flat,
                           std::span<const RowScores> scores, const SigmaModel& model) {
    if (!alike_products) alike_products.emplace(kTaskRows, shape.value_stride);
    while (products.size() < flat.size()) products.emplace_back(shape.value_stride);
    for (size_t n = 0; n < flat.size(); ++n) {
      const int64_t r = tile.first + flat[n];
      RowSums sums = second_pass.sums().row(r);
      sums.largest_v = values.largest;
      products[n].start(scores[size_t(r)], sums, model);
    }
    const KeyOrder order = KeyOrder::sample(task.keys, ProductPhases::kStep);
    std::vector<double> p(size_t(shape.key_stride));
    for (int64_t begin = 0; begin < order.size(); begin += shape.keys) {
      const KeyBlock block(order, begin, shape.keys);
      if (!meet(tile, block)) continue;
      keys.load(task, block);
      values.load(task, block);
      tile_scores.find(queries, keys, block, tile);
      hide(scores, block, tile);
      for (size_t n = 0; n < flat.size(); ++n) {
        const double* score = tile_scores.scores.row(flat[n]);
        const double lse = scores[size_t(tile.first + flat[n])].lse;
        for (int64_t key = 0; key < block.count(); ++key) p[size_t(key)] = score[key] - lse;
        kernels::exp(p.data(), p.data(), block.count());
        products[n].add(p.data(), values.values.row(0), block.count());
      }
    }
    for (size_t n = 0; n < flat.size(); ++n)
      products[n].write(model, alike_products->row(tile.first + flat[n]));
  }

  void write_row(int64_t r, const RowScores& row, const SigmaModel& model,
                 const RowResults& results) {
    RowSums of_row = second_pass.sums().row(r);
    of_row.largest_v = values.largest;
    if (common_channel) of_row.common_dot = common_dots[size_t(r)];
    if (model.needs_prefix()) {
      of_row.prefix = prefixes.largest().row(r);
      of_row.rises = prefixes.rises(r);
    }
    SharedRoundings::Variances of_shared;
    if (model.needs_shared()) {
      of_shared = shared->find(r, of_row.pv);
      of_row.shared_scores = of_shared.scores.data();
      of_row.shared_values = of_shared.values.data();
    }
    LeaningRoundings::Errors of_leaning;
    if (model.leans()) {
      of_leaning = leaning->find(r, of_row.pv);
      of_row.leaning = of_leaning.o.data();
      of_row.leaning_normaliser = of_leaning.normaliser;
    }
    if (is_flat[size_t(r)]) of_row.alike_products = alike_products->row(r);
    if (swaps) swaps->write(r, of_row);
    finish_row(row, of_row, model, shape.head_dim_v, r, results);
  }
};

KeyPasses::KeyPasses(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                     bool common_channel, bool ties_hold)
    : impl_(std::make_unique<Impl>(problem, tensors, geometry, common_channel, ties_hold)) {}
KeyPasses::~KeyPasses() = default;

void KeyPasses::score(const RowTask& task, std::span<const JudgedRow> rows, const EqualKeys& equal,
                      std::span<RowScores> scores) {
  impl_->score(task, rows, equal, scores);
}
void KeyPasses::finish(const RowTask& task, std::span<const JudgedRow> rows, const EqualKeys& equal,
                       std::span<const RowScores> scores, const SigmaModel& model,
                       const RowResults& results) {
  impl_->finish(task, rows, equal, scores, model, results);
}

int64_t KeyPasses::bytes(const attest_softmax_params& params, bool with_shared) {
  const BlockShape shape(params);
  constexpr int64_t kQueries = 2, kSums = 9, kPrefixes = 2;             // matrices of a task's rows
  constexpr int64_t kKeys = 2, kValues = 2, kScores = 7, kWeights = 8;  // of a block
  const int64_t numbers = kQueries * kTaskRows * shape.head_dim +
                          kKeys * shape.head_dim * shape.key_stride +
                          kValues * shape.keys * shape.value_stride +
                          (kScores + kWeights) * kTileRows * shape.key_stride +
                          (kSums + kPrefixes) * kTaskRows * shape.value_stride;
  return numbers * int64_t(sizeof(double)) + (with_shared ? SharedRoundings::bytes(shape) : 0) +
         (with_shared || SigmaModel::is_small(params.softcap) ? LeaningRoundings::bytes(shape)
                                                              : 0) +
         (params.top_k > 0 ? TopKSearch::bytes(params) + TopKSwaps::bytes(shape) : 0);
}

}  // namespace attest::core
