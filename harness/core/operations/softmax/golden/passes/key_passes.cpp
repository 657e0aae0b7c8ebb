#include "core/operations/softmax/golden/passes/key_passes.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/operations/product.hpp"
#include "core/operations/softmax/golden/score_kernels.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

constexpr double kHidden = -std::numeric_limits<double>::infinity();
// Prefixes end before every key place that is a multiple of this: at the edges of any tile
constexpr int64_t kPrefixKeys = 16;
constexpr int64_t kTileRows = 24;  // rows whose weights are in the cache together

constexpr int64_t kColumns = 2 * kProductColumns;  // of a tile of a product

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
// Keys a block: K, V and their magnitudes for them fit into half a megabyte.
int64_t block_keys(const Params& p) {
  return std::clamp<int64_t>(16384 / std::max(p.head_dim, p.head_dim_v) / kColumns * kColumns, 32,
                             256);
}
// Rows of K transposed: a power of two apart they would share cache sets.
int64_t key_stride(const Params& p) { return block_keys(p) + 8; }
int64_t value_stride(const Params& p) { return round_up(p.head_dim_v, kColumns); }

bool finite(double x) {
  return (std::bit_cast<uint64_t>(x) & 0x7ff0000000000000u) != 0x7ff0000000000000u;
}

using Buffer = std::vector<double>;

// Sums over keys of one task's rows, [kTaskRows, value_stride] each.
struct Sums {
  Buffer pv, reach, p2v2, a2v2, e2v, e2v2, flushed, unsure, unsure2, prefix,
      partial;  // partial: sum p v on its way to a prefix
  explicit Sums(size_t size)
      : pv(size),
        reach(size),
        p2v2(size),
        a2v2(size),
        e2v(size),
        e2v2(size),
        flushed(size),
        unsure(size),
        unsure2(size),
        prefix(size),
        partial(size) {}
  void clear() {
    for (Buffer* buffer :
         {&pv, &reach, &p2v2, &a2v2, &e2v, &e2v2, &flushed, &unsure, &unsure2, &prefix, &partial})
      std::fill(buffer->begin(), buffer->end(), 0.0);
  }
};

// The open group of equal keys of one row: sums of a v and e v over those of one score (what is
// added may part equal keys), and of e v over all of them, with the error of what comes before the
// addition.
struct Group {
  Buffer av, a2v2, ev, shared_ev;
  Buffer unsure;  // sum p v where p may be lost
  double a = 0, e = 0, p = 0, score = 0, last = 0;
  double shared_e = 0, shared_p = 0, square = 0, qk = 0;
  int32_t id = -1;
  int64_t keys = 0;
};

}  // namespace

struct KeyPasses::Impl {
  Impl(const Problem& problem, const Tensors& tensors, const Geometry& places)
      : p(problem.as<Params>()),
        q_tensor(tensors[ATTEST_Q]),
        k_tensor(tensors[ATTEST_K]),
        v_tensor(tensors[ATTEST_V]),
        geometry(places),
        dim(p.head_dim),
        dim_v(p.head_dim_v),
        most_keys(block_keys(p)),
        ldk(key_stride(p)),
        ldv(value_stride(p)),
        q(size_t(kTaskRows * dim)),
        q_magnitude(q.size()),
        key_row(size_t(8 * dim)),
        k(size_t(dim * ldk)),
        k_magnitude(k.size()),
        v(size_t(most_keys * ldv)),
        v2(v.size()),
        s(size_t(kTileRows * ldk)),
        t(s.size()),
        m(s.size()),
        prob(s.size()),
        prob2(s.size()),
        lower(s.size()),
        last(s.size()),
        dots(s.size()),
        a2(s.size()),
        e2(s.size()),
        slope(size_t(ldk)),
        capped(slope.size()),
        sums(size_t(kTaskRows * ldv)) {}

  const Params& p;
  const Tensor &q_tensor, &k_tensor, &v_tensor;
  const Geometry& geometry;
  const int64_t dim, dim_v, most_keys, ldk, ldv;
  Buffer q, q_magnitude;  // [rows, head_dim], scaled
  Buffer key_row;         // [8, head_dim]
  Buffer k, k_magnitude;  // [head_dim, keys]
  Buffer v, v2;           // [keys, head_dim_v]; NaN and Inf are 0 here and listed in `wild`
  // [tile rows, keys]; t: SigmaModel::staged_square, lower: g of common_variance, last: the part of
  // t that the addition makes, dots: the scaled product times the slope of the softcap
  Buffer s, t, m, prob, prob2, lower, last, dots, a2, e2;
  Buffer slope, capped;  // [keys]
  Sums sums;
  std::vector<Group> groups;  // one a row, where keys are equal
  std::vector<kernels::WeightSums> weight_sums;
  Buffer common, mean_dot;   // [rows]: LseSums::common, LseSums::mean_dot
  double largest_v = 0;      // finite |v| of the task
  Buffer rises;              // [rows]: RowSums::rises
  std::vector<Buffer> tops;  // [rows]: the largest scores between two looks at the prefixes
  Buffer
      repeated;  // [rows]: sum of squares of the sizes of groups, see SigmaModel::coherent_variance
  struct Wild {
    int64_t key, channel;
    double value;
  };
  std::vector<Wild> wild;

  // The keys of a task in the order they are visited: lone ones, then equal ones group by group.
  std::vector<int32_t> order, group_of;
  size_t first_equal = 0;
  bool contiguous = true;
  Interval range;

  // The block at hand.
  int64_t block_begin = 0, block_count = 0;

  bool squares = false;

  int64_t place(int64_t key) const {
    return contiguous ? range.begin + block_begin + key : order[size_t(block_begin + key)];
  }
  bool grouped() const { return !contiguous && size_t(block_begin) >= first_equal; }

  void load_queries(const RowTask& task, const JudgedRow* rows) {
    const TensorSpec& spec = q_tensor.spec;
    for (size_t r = 0; r < task.end - task.begin; ++r) {
      const Cell cell = geometry.query(rows[r].b, rows[r].i);
      double* row = q.data() + int64_t(r) * dim;
      load_row(q_tensor.data, spec.dtype,
               cell.outer * spec.stride[0] + rows[r].h * spec.stride[1] + cell.row * spec.stride[2],
               dim, spec.stride[3], row);
      for (int64_t d = 0; d < dim; ++d) row[d] *= double(p.softmax_scale);
    }
    magnitudes(q, q_magnitude, int64_t(task.end - task.begin) * dim);
  }

  void magnitudes(const Buffer& from, Buffer& to, int64_t count) const {
    for (int64_t n = 0; n < count; ++n)
      to[size_t(n)] = squares ? from[size_t(n)] * from[size_t(n)] : std::fabs(from[size_t(n)]);
  }

  void order_keys(const RowTask& task, const EqualKeys& equal) {
    range = task.keys;
    order.clear(), group_of.clear();
    std::vector<bool> is_equal;
    for (size_t n = 0; n < equal.place.size(); ++n) {
      if (!range.contains(equal.place[n])) continue;
      is_equal.resize(size_t(range.size()), false);
      is_equal[size_t(equal.place[n] - range.begin)] = true;
    }
    contiguous = is_equal.empty();
    if (contiguous) return;
    for (int64_t j = range.begin; j < range.end; ++j)
      if (!is_equal[size_t(j - range.begin)]) order.push_back(int32_t(j));
    first_equal = order.size();
    for (size_t n = 0; n < equal.place.size(); ++n)
      if (range.contains(equal.place[n]))
        order.push_back(equal.place[n]), group_of.push_back(equal.group[n]);
  }

  // Calls body for every block of keys; a block does not mix lone and equal keys.
  template <class Body>
  void for_blocks(const Body& body) {
    for (block_begin = 0; block_begin < range.size(); block_begin += block_count) {
      block_count = std::min(most_keys, range.size() - block_begin);
      if (!contiguous && size_t(block_begin) < first_equal)
        block_count = std::min(block_count, int64_t(first_equal) - block_begin);
      body();
    }
  }

  int64_t offset(const TensorSpec& spec, const RowTask& task, int64_t key) const {
    const Cell cell = geometry.key(task.b, place(key));
    return cell.outer * spec.stride[0] + task.kv_head * spec.stride[1] + cell.row * spec.stride[2];
  }

  // Keys are transposed eight at a time, so that a cache line of the result is written at once.
  void load_keys(const RowTask& task) {
    const int64_t padded = round_up(block_count, kColumns);
    for (int64_t first = 0; first < padded; first += 8) {
      for (int64_t n = 0; n < 8; ++n) {
        double* row = key_row.data() + n * dim;
        if (first + n < block_count)
          load_row(k_tensor.data, k_tensor.spec.dtype, offset(k_tensor.spec, task, first + n), dim,
                   k_tensor.spec.stride[3], row);
        else
          std::fill_n(row, dim, 0.0);
      }
      for (int64_t d = 0; d < dim; ++d)
        for (int64_t n = 0; n < 8; ++n)
          k[size_t(d * ldk + first + n)] = key_row[size_t(n * dim + d)];
    }
  }

  void load_values(const RowTask& task) {
    wild.clear();
    for (int64_t key = 0; key < block_count; ++key) {
      double* row = v.data() + key * ldv;
      load_row(v_tensor.data, v_tensor.spec.dtype, offset(v_tensor.spec, task, key), dim_v,
               v_tensor.spec.stride[3], row);
      bool tame = true;
      for (int64_t d = 0; d < dim_v; ++d) tame &= finite(row[d]);
      for (int64_t d = 0; !tame && d < dim_v; ++d)
        if (!finite(row[d])) wild.push_back({key, d, row[d]}), row[d] = 0;
      for (int64_t d = 0; d < dim_v; ++d)
        largest_v = std::max(largest_v, std::fabs(row[d])),
        v2[size_t(key * ldv + d)] = row[d] * row[d];
    }
  }

  // Whether any row of the tile sees a key of the block; places in a block grow but for groups.
  bool meets(const JudgedRow* rows, int64_t count) const {
    if (grouped()) return true;
    const Interval block{place(0), place(block_count - 1) + 1};
    return std::any_of(rows, rows + count, [&](const JudgedRow& row) {
      return row.keys.begin < block.end && row.keys.end > block.begin;
    });
  }

  void hide(const JudgedRow& row, double* scores) const {
    if (contiguous) {
      const int64_t first = place(0);
      const int64_t begin = std::clamp<int64_t>(row.keys.begin - first, 0, block_count),
                    end = std::clamp<int64_t>(row.keys.end - first, begin, block_count);
      std::fill(scores, scores + begin, kHidden);
      std::fill(scores + end, scores + block_count, kHidden);
      if (geometry.pair_terms())
        geometry.add_pair_terms(row.b, row.h, row.i, {first + begin, first + end}, scores + begin);
      return;
    }
    for (int64_t key = 0; key < block_count; ++key) {
      const int64_t j = place(key);
      if (!row.keys.contains(j))
        scores[key] = kHidden;
      else if (geometry.pair_terms())
        geometry.add_pair_terms(row.b, row.h, row.i, {j, j + 1}, scores + key);
    }
  }

  bool staged() const { return p.softcap > 0 || geometry.pair_terms(); }

  // What is left of a magnitude behind the softcap: of an infinite one nothing, since its score is
  // the cap.
  void bend(double& magnitude, double by) const {
    magnitude = by == 0 ? 0 : magnitude * (squares ? by * by : by);
  }

  // Scores of tile rows first .. first + count - 1 with the block; what their errors follow from
  // too, where a model is given.
  void tile_scores(const JudgedRow* rows, int64_t first, int64_t count, const SigmaModel* model) {
    const bool with_magnitudes = model != nullptr;
    const int64_t padded = round_up(count, kProductRows), columns = round_up(block_count, kColumns);
    std::fill_n(s.data(), padded * ldk, 0.0);
    add_product({q.data() + first * dim, dim}, {k.data(), ldk}, {s.data(), ldk},
                {.rows = padded, .inner = dim, .columns = columns});
    if (with_magnitudes) {
      std::fill_n(m.data(), padded * ldk, 0.0);
      add_product({q_magnitude.data() + first * dim, dim}, {k_magnitude.data(), ldk},
                  {m.data(), ldk}, {.rows = padded, .inner = dim, .columns = columns});
    }
    for (int64_t r = 0; r < count; ++r) {
      double *scores = s.data() + r * ldk, *squares_of = t.data() + r * ldk;
      const bool stages = with_magnitudes && staged();
      if (stages) std::copy_n(scores, block_count, squares_of);
      if (p.softcap > 0) {
        kernels::softcap(scores, slope.data(), double(p.softcap), block_count);
        for (int64_t key = 0; with_magnitudes && key < block_count; ++key)
          bend(m[size_t(r * ldk + key)], slope[size_t(key)]);
      }
      if (stages) std::copy_n(scores, block_count, capped.data());
      hide(rows[first + r], scores);
      for (int64_t key = 0; stages && key < block_count; ++key) {
        const auto n = size_t(key);
        const double dot = p.softcap == 0  ? squares_of[n]
                           : slope[n] == 0 ? 0
                                           : squares_of[n] * slope[n];
        const double kept = dot * dot + (p.softcap > 0 ? capped[n] * capped[n] : 0);
        const bool added = scores[n] != capped[n] && scores[n] != kHidden;
        const size_t at = size_t(r * ldk) + n;
        dots[at] = dot;
        last[at] = added ? model->staged_square(0, scores[n] * scores[n]) : 0;
        squares_of[n] = model->staged_square(dot * dot, kept) + last[at];
        lower[at] = added ? std::min(std::fabs(scores[n]), std::fabs(capped[n])) : 0;
      }
    }
  }

  void score(const RowTask& task, const JudgedRow* rows, const EqualKeys& equal,
             RowScores* scores) {
    const auto count = int64_t(task.end - task.begin);
    load_queries(task, rows);
    order_keys(task, equal);
    std::vector<double> sum(size_t(count), 0.0);
    for (int64_t r = 0; r < count; ++r) scores[r] = {-kHidden, kHidden, kHidden, 0};
    for_blocks([&] {
      load_keys(task);
      for (int64_t first = 0; first < count; first += kTileRows) {
        const int64_t tile = std::min(kTileRows, count - first);
        if (!meets(rows + first, tile)) continue;
        tile_scores(rows, first, tile, nullptr);
        for (int64_t r = 0; r < tile; ++r)
          add_scores(s.data() + r * ldk, scores[first + r], sum[size_t(first + r)]);
      }
    });
    for (int64_t r = 0; r < count; ++r)
      if (scores[r].keys > 0) scores[r].close(sum[size_t(r)], geometry.sink(rows[r].h));
  }

  // Running maximum and sum of exp(s - maximum).
  void add_scores(const double* tile_row, RowScores& row, double& sum) const {
    const kernels::Range found = kernels::range(tile_row, block_count);
    if (found.count == 0) return;
    const double largest = std::max(row.largest, found.largest);
    if (row.keys > 0) sum *= std::exp(row.largest - largest);
    sum += kernels::sum_exp(tile_row, largest, block_count);
    row.least = std::min(row.least, found.least), row.largest = largest, row.keys += found.count;
  }

  void finish(const RowTask& task, const JudgedRow* rows, const EqualKeys& equal,
              const RowScores* scores, const SigmaModel& model, const RowResults& results) {
    const auto count = int64_t(task.end - task.begin);
    squares = model.squares();
    load_queries(task, rows);
    order_keys(task, equal);
    sums.clear();
    weight_sums.assign(size_t(count), {});
    rises.assign(size_t(count), 0.0), repeated.assign(size_t(count), 0.0),
        common.assign(size_t(count), 0.0), mean_dot.assign(size_t(count), 0.0), largest_v = 0;
    if (!contiguous)
      groups.assign(size_t(count),
                    Group{Buffer(size_t(dim_v)), Buffer(size_t(dim_v)), Buffer(size_t(dim_v)),
                          Buffer(size_t(dim_v)), Buffer(size_t(dim_v))});
    for_blocks([&] {
      load_keys(task);
      magnitudes(k, k_magnitude, dim * ldk);
      load_values(task);
      for (int64_t first = 0; first < count; first += kTileRows) {
        const int64_t tile = std::min(kTileRows, count - first);
        if (meets(rows + first, tile)) finish_tile(rows, scores, model, first, tile);
      }
    });
    for (int64_t r = 0; !contiguous && r < count; ++r) close_score(r, model), close_group(r);
    if (model.needs_prefix()) find_prefixes(task, rows, scores);
    for (int64_t r = 0; r < count; ++r) write_row(r, scores[r], model, results);
  }

  // The largest |sum of p (v - o)| over keys that come first, which takes o. Keys come in their
  // order, equal or not.
  void find_prefixes(const RowTask& task, const JudgedRow* rows, const RowScores* scores) {
    const auto count = int64_t(task.end - task.begin);
    order_keys(task, {});
    std::vector<double> mass(size_t(count), 0.0);
    tops.assign(size_t(count), {});
    for (int64_t r = 0; r < count; ++r)
      if (scores[r].keys > 0) mass[size_t(r)] = std::exp(scores[r].sink - scores[r].lse);
    for_blocks([&] {
      load_keys(task);
      load_values(task);
      for (int64_t first = 0; first < count; first += kTileRows) {
        const int64_t tile = std::min(kTileRows, count - first);
        if (!meets(rows + first, tile)) continue;
        tile_scores(rows, first, tile, nullptr);
        for (int64_t n = 0; n < tile * ldk; ++n)
          prob[size_t(n)] = s[size_t(n)] - scores[first + n / ldk].lse;
        kernels::exp(prob.data(), prob.data(), tile * ldk);
        add_prefixes(first, tile, mass.data() + first);
      }
    });
    for (int64_t r = 0; r < count; ++r) {
      std::vector<double>& seen = tops[size_t(r)];
      const double forwards = count_rises(seen, scores[r].sink);
      std::reverse(seen.begin(), seen.end());
      rises[size_t(r)] = std::max(forwards, count_rises(seen, scores[r].sink));
    }
  }

  // How often a running maximum rises after it was there.
  static double count_rises(const std::vector<double>& tops, double top) {
    double rises = 0;
    for (const double next : tops) {
      if (!(next > top)) continue;
      rises += top > kHidden;
      top = next;
    }
    return rises;
  }

  void add_prefixes(int64_t first, int64_t rows, double* mass) {
    for (int64_t key = 0, count = 0; key < block_count; key += count) {
      count = std::min(block_count - key, kPrefixKeys - place(key) % kPrefixKeys);
      add_product({prob.data() + key, ldk}, {v.data() + key * ldv, ldv},
                  {sums.partial.data() + first * ldv, ldv},
                  {.rows = round_up(rows, kProductRows), .inner = count, .columns = ldv});
      for (int64_t r = 0; r < rows; ++r) {
        double top = kHidden;
        for (int64_t n = key; n < key + count; ++n)
          mass[r] += prob[size_t(r * ldk + n)], top = std::max(top, s[size_t(r * ldk + n)]);
        tops[size_t(first + r)].push_back(top);
        for (auto n = size_t((first + r) * ldv); n < size_t((first + r + 1) * ldv); ++n)
          sums.prefix[n] =
              std::max(sums.prefix[n], std::fabs(sums.partial[n] - sums.pv[n] * mass[r]));
      }
    }
  }

  // Keys from `key` on that are added before the partial sums are looked at: up to the next
  // multiple of kReachKeys, so that what is seen does not depend on where a task or a block begins.
  int64_t until_look(int64_t key) const {
    return std::min(block_count - key,
                    contiguous ? kReachKeys - place(key) % kReachKeys : kReachKeys);
  }

  // sums.pv += prob v, a few keys at a time, so that the largest partial sum is seen.
  void add_values(int64_t first, int64_t rows) {
    for (int64_t key = 0, count = 0; key < block_count; key += count) {
      count = until_look(key);
      add_product({prob.data() + key, ldk}, {v.data() + key * ldv, ldv},
                  {sums.pv.data() + first * ldv, ldv},
                  {.rows = rows, .inner = count, .columns = ldv});
      const bool within = contiguous && (place(key) + count) % kReachKeys != 0 &&
                          block_begin + key + count < range.size();
      for (auto n = size_t(first * ldv); !within && n < size_t((first + rows) * ldv); ++n)
        sums.reach[n] = std::max(sums.reach[n], std::fabs(sums.pv[n]));
    }
  }

  void finish_tile(const JudgedRow* rows, const RowScores* scores, const SigmaModel& model,
                   int64_t first, int64_t count) {
    tile_scores(rows, first, count, &model);
    bool lost = model.flush_below > 0;
    for (int64_t r = 0; r < count; ++r) {
      const int64_t at = r * ldk;
      kernels::WeightSums of_block, &row_sums = weight_sums[size_t(first + r)];
      kernels::weights(s.data() + at, staged() ? t.data() + at : nullptr, m.data() + at,
                       weight_model(model, scores[first + r]), block_count, prob.data() + at,
                       prob2.data() + at, a2.data() + at, e2.data() + at, of_block);
      lost |= of_block.small > 1e-3 * model.u_acc;
      if (geometry.common_addends() && model.has_common_addends())
        for (int64_t key = 0; key < block_count; ++key)
          common[size_t(first + r)] += prob[size_t(at + key)] * lower[size_t(at + key)];
      for (int64_t key = 0; model.scale_bias > 0 && key < block_count; ++key)
        if (const double score = s[size_t(at + key)]; score != kHidden)
          mean_dot[size_t(first + r)] +=
              prob[size_t(at + key)] * std::fabs(staged() ? dots[size_t(at + key)] : score);
      row_sums.px2 += of_block.px2, row_sums.small += of_block.small;
      if (grouped()) {
        add_groups(first + r, at, model, scores[first + r]);
      } else {
        row_sums.p2 += of_block.p2, row_sums.a2 += of_block.a2, row_sums.e2 += of_block.e2,
            row_sums.p2t += of_block.p2t, row_sums.p2q += of_block.p2q;
      }
    }
    const int64_t padded = round_up(count, kProductRows);
    auto product = [&](const Buffer& weights, const Buffer& values, Buffer& out) {
      add_product({weights.data(), ldk}, {values.data(), ldv}, {out.data() + first * ldv, ldv},
                  {.rows = padded, .inner = block_count, .columns = ldv});
    };
    add_values(first, padded);
    product(prob2, v2, sums.p2v2);
    if (!grouped()) {
      product(e2, v, sums.e2v);
      product(e2, v2, sums.e2v2);
      if (needs_a2(model)) product(a2, v2, sums.a2v2);
    }
    for (const Wild& x : wild)
      for (int64_t r = 0; r < count; ++r)
        if (s[size_t(r * ldk + x.key)] != kHidden)
          sums.pv[size_t((first + r) * ldv + x.channel)] += prob[size_t(r * ldk + x.key)] * x.value;
    if (lost) add_lost(scores, model, first, count, product);
  }

  // Products with the probabilities that are lost, or may be, alone; prob and the others are not
  // needed afterwards.
  template <class Product>
  void add_lost(const RowScores* scores, const SigmaModel& model, int64_t first, int64_t count,
                const Product& product) {
    bool any = false, any_unsure = false;
    for (int64_t r = 0; r < count; ++r) {
      const SigmaModel::Flushing flushing = model.flushing(
          model.kappa(scores[first + r].top(), scores[first + r].lse), scores[first + r].keys);
      for (int64_t key = 0; key < block_count; ++key) {
        const auto at = size_t(r * ldk + key);
        const double weight = prob[at];
        prob[at] = weight < flushing.gone ? weight : 0;
        a2[at] = weight >= flushing.gone && weight < flushing.kept ? weight : 0,
        prob2[at] = a2[at] * a2[at];
        any |= prob[at] > 0, any_unsure |= a2[at] > 0;
      }
    }
    if (any_unsure) product(a2, v, sums.unsure);
    if (any_unsure && !grouped())
      product(prob2, v2, sums.unsure2);  // equal keys are lost together: close_score
    if (any) product(prob, v, sums.flushed);
  }

  // Equal keys lie side by side: they have one dot product, and those that get the same added have
  // one score.
  void add_groups(int64_t r, int64_t at, const SigmaModel& model, const RowScores& row) {
    Group& group = groups[size_t(r)];
    const SigmaModel::Flushing flushing = model.flushing(model.kappa(row.top(), row.lse), row.keys);
    for (int64_t key = 0; key < block_count; ++key) {
      const double score = s[size_t(at + key)];
      if (score == kHidden) continue;
      const int32_t id = group_of[size_t(block_begin + key) - first_equal];
      if (id != group.id || score != group.score) close_score(r, model);
      if (id != group.id) close_group(r);
      const double pk = prob[size_t(at + key)], magnitude = m[size_t(at + key)];
      group.last = staged() ? last[size_t(at + key)] : 0;
      group.square = (staged() ? t[size_t(at + key)] : score * score) - group.last;
      group.id = id, group.score = score, group.qk = model.qk_variance(magnitude), ++group.keys;
      const double a = std::sqrt(a2[size_t(at + key)]),
                   e = pk * std::sqrt(group.last * model.score_square());
      const double shared_e = pk * std::sqrt(group.square * model.score_square() + group.qk);
      group.a += a, group.e += e, group.p += pk, group.shared_e += shared_e, group.shared_p += pk;
      const double* values = v.data() + key * ldv;
      for (size_t d = 0; d < size_t(dim_v); ++d) {
        group.av[d] += a * values[d], group.a2v2[d] += a * a * values[d] * values[d];
        group.ev[d] += e * values[d], group.shared_ev[d] += shared_e * values[d];
      }
      for (size_t d = 0; pk >= flushing.gone && pk < flushing.kept && d < size_t(dim_v); ++d)
        group.unsure[d] += pk * values[d];
      const double own_rounding =
          model.theta / 3 * a * a;  // beside a common one where the normaliser sums them too
      add_lone(r, pk * pk * model.accumulation_variance(group.square, magnitude) + own_rounding,
               values);
    }
  }

  // What a key of a group has for itself: its dot product may be summed in another order.
  void add_lone(int64_t r, double variance, const double* values) {
    weight_sums[size_t(r)].e2 += variance;
    for (int64_t d = 0; d < dim_v; ++d) {
      const auto n = size_t(r * ldv + d);
      sums.e2v[n] += variance * values[d], sums.e2v2[n] += variance * values[d] * values[d];
    }
  }

  // The keys of one score end here. Their probabilities round alike beside one maximum; where an
  // online softmax has met them at several, they do not, and what would cancel between them is
  // left.
  void close_score(int64_t r, const SigmaModel& model) {
    Group& group = groups[size_t(r)];
    kernels::WeightSums& row = weight_sums[size_t(r)];
    const double share = model.theta / 3, p2 = group.p * group.p;
    row.p2 += p2, row.p2t += p2 * group.last;
    if (group.keys > 1) repeated[size_t(r)] += double(group.keys) * double(group.keys);
    row.a2 += group.a * group.a, row.e2 += group.e * group.e + share * group.a * group.a;
    for (int64_t d = 0; d < dim_v; ++d) {
      double &av = group.av[size_t(d)], &ev = group.ev[size_t(d)], &a2v2 = group.a2v2[size_t(d)];
      const auto n = size_t(r * ldv + d);
      sums.a2v2[n] += std::max(model.alike * model.alike * av * av, needs_a2(model) ? a2v2 : 0);
      sums.e2v[n] += ev * group.e + share * av * group.a;
      sums.e2v2[n] += ev * ev + share * av * av;
      sums.unsure2[n] += group.unsure[size_t(d)] * group.unsure[size_t(d)];
      av = a2v2 = ev = group.unsure[size_t(d)] = 0;
    }
    group.a = group.e = group.p = group.score = 0;
    group.keys = 0;
  }

  // The equal keys end here.
  void close_group(int64_t r) {
    Group& group = groups[size_t(r)];
    kernels::WeightSums& row = weight_sums[size_t(r)];
    const double p2 = group.shared_p * group.shared_p;
    row.p2t += p2 * group.square, row.p2q += p2 * group.qk,
        row.e2 += group.shared_e * group.shared_e;
    for (int64_t d = 0; d < dim_v; ++d) {
      double& ev = group.shared_ev[size_t(d)];
      const auto n = size_t(r * ldv + d);
      sums.e2v[n] += ev * group.shared_e, sums.e2v2[n] += ev * ev;
      ev = 0;
    }
    group.shared_e = group.shared_p = group.square = group.qk = group.last = 0;
    group.id = -1;
  }

  void write_row(int64_t r, const RowScores& row, const SigmaModel& model,
                 const RowResults& results) const {
    const auto n = size_t(r);
    const auto of = [&](const Buffer& sum) { return sum.data() + r * ldv; };
    const RowSums row_sums{.pv = of(sums.pv),
                           .reach = of(sums.reach),
                           .p2v2 = of(sums.p2v2),
                           .a2v2 = of(sums.a2v2),
                           .e2v = of(sums.e2v),
                           .e2v2 = of(sums.e2v2),
                           .flushed = of(sums.flushed),
                           .unsure = of(sums.unsure),
                           .unsure2 = of(sums.unsure2),
                           .prefix = model.needs_prefix() ? of(sums.prefix) : nullptr,
                           .weights = weight_sums[n],
                           .repeated = repeated[n],
                           .common = common[n],
                           .mean_dot = mean_dot[n],
                           .rises = rises[n],
                           .largest_v = largest_v};
    finish_row(row, row_sums, model, dim_v, r, results);
  }
};

KeyPasses::KeyPasses(const Problem& problem, const Tensors& tensors, const Geometry& geometry)
    : impl_(std::make_unique<Impl>(problem, tensors, geometry)) {}
KeyPasses::~KeyPasses() = default;

void KeyPasses::score(const RowTask& task, const JudgedRow* rows, const EqualKeys& equal,
                      RowScores* scores) {
  impl_->score(task, rows, equal, scores);
}
void KeyPasses::finish(const RowTask& task, const JudgedRow* rows, const EqualKeys& equal,
                       const RowScores* scores, const SigmaModel& model,
                       const RowResults& results) {
  impl_->finish(task, rows, equal, scores, model, results);
}

int64_t KeyPasses::bytes(const Params& p) {
  const int64_t doubles = (2 * kTaskRows + 8 + 2 * key_stride(p)) * p.head_dim +
                          (2 * block_keys(p) + 11 * kTaskRows) * value_stride(p) +
                          (10 * kTileRows + 2) * key_stride(p);
  return doubles * int64_t(sizeof(double));
}

}  // namespace attest::core
