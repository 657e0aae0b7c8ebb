// The float64 golden of linear attention, on all rows.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/operations/equal_rows.hpp"
#include "core/operations/linear/feature_map.hpp"
#include "core/operations/linear/linear.hpp"
#include "core/operations/linear/linear_sigma.hpp"
#include "core/operations/linear/rows.hpp"
#include "core/operations/linear/shared_errors.hpp"
#include "core/operations/numerics/product.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

using linear::counts, linear::load_one, linear::padded;
// Keys that are looked at for numbers that repeat; of chains shorter than 1 / kShortChains of the
// keys only few matter.
constexpr int64_t kSampled = 1024, kFewSampled = 64, kShortChains = 4;
// Of outputs that are looked at for errors that they share: rows, channels and keys.
constexpr int64_t kSampledRows = 32, kSampledChannels = 64, kSampledKeys = 256;
// Rows or keys at a time: three [64, head_dim] blocks stay in the second-level cache
constexpr int64_t kChunk = 64;
// The least share of a normaliser that is assumed to be left when its addends are lost.
constexpr double kLeft = 1e-3;

using linear::Moments, linear::Quadratic, linear::Sizes, linear::Variances;

class LinearGolden final : public Golden {
 public:
  LinearGolden(const Problem& problem, const Tensors& tensors)
      : p_(problem.as<attest_linear_params>()),
        sizes_{p_.head_dim, padded_columns(p_.head_dim_v)},
        tensors_(tensors) {
    const Tensor& k = tensors_[ATTEST_K];
    for (int64_t b = 0; b < p_.batch; ++b)
      for (int64_t kv_head = 0; kv_head < p_.num_kv_heads; ++kv_head)
        equal_.push_back(find_equal_rows(p_.seq_len_kv, p_.head_dim, [&](int64_t j, double* row) {
          if (!counts(tensors_[ATTEST_MASK], b, 3, j)) return false;
          load_one(k, b, kv_head, j, row);
          return true;
        }));
  }

  std::string method() const override { return "float64, all rows"; }

  void expect(const Arithmetic& arithmetic, const Sink& sink) const override {
    const Variances variances(LinearArithmetic::of(arithmetic), p_, tensors_[ATTEST_V].spec.dtype);
    const int64_t group = p_.num_heads / p_.num_kv_heads,
                  chunks = (p_.seq_len_q + kChunk - 1) / kChunk;
    double independent = 0;
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t kv_head = 0; kv_head < p_.num_kv_heads; ++kv_head) {
        Moments moments = all_moments(b, kv_head, variances);
        add_equal_keys(b, kv_head, variances, moments);
        if (variances.step > 0) find_repeated(b, kv_head, variances, moments);
        const Quadratic quadratic(sizes_, moments, variances);
#pragma omp parallel
        {
          Rows rows(sizes_);
#pragma omp for schedule(dynamic, 4)
          for (int64_t task = 0; task < group * chunks; ++task)
            expect_rows(rows, b, kv_head * group + task / chunks, task % chunks * kChunk, moments,
                        quadratic, variances, sink);
        }
        const linear::OutputSample sample =
            output_sample(b, kv_head, moments, quadratic, variances);
        if (sample.channels > 0) independent += linear::independent_errors(sample);
      }
    }
    const std::lock_guard guard(lock_);
    if (!known_independent(arithmetic))
      independent_.emplace_back(arithmetic, std::max<int64_t>(1, std::llround(independent)));
  }

  // Sums over the keys take most of the time, so `expect` counts.
  int64_t independent_rows(const Arithmetic& arithmetic, int32_t) const override {
    {
      const std::lock_guard guard(lock_);
      if (const auto known = known_independent(arithmetic)) return *known;
    }
    expect(arithmetic, [](const Expected&) {});
    const std::lock_guard guard(lock_);
    return known_independent(arithmetic).value();
  }

 private:
  // One thread's blocks: phi, phi^2 and m^2 [kChunk, head_dim], sums [kChunk, width].
  struct Rows {
    explicit Rows(Sizes s)
        : phi(size_t(kChunk * s.head_dim + linear::kLanes)),
          square(phi.size()),
          wide(phi.size()),
          value(size_t(kChunk * s.width)),
          x(value.size()),
          y(value.size()),
          root(value.size()),
          lean(value.size()),
          rounding(value.size()),
          small(value.size()),
          row(size_t(kChunk)) {}
    std::vector<double> phi, square, wide, value, x, y, root, lean, rounding, small;
    std::vector<int64_t> row;
  };

  // To be called with the lock held.
  std::optional<int64_t> known_independent(const Arithmetic& arithmetic) const {
    for (const auto& [known, count] : independent_)
      if (known == arithmetic) return count;
    return {};
  }

  // phi and m^2 of `count` rows of Q or K; all zero where the mask says so, whatever lies there.
  void load_mapped(const Tensor& from, int64_t b, int64_t head, int64_t first, int64_t count,
                   const Tensor& mask, int axis, Rows& rows) const {
    const int64_t d = sizes_.head_dim;
    for (int64_t r = 0; r < count; ++r)
      load_one(from, b, head, first + r, &rows.phi[size_t(r * d)]);
    linear::feature_map(rows.phi.data(), padded(count * d), rows.phi.data(), rows.wide.data());
    for (int64_t r = 0; mask && r < count; ++r) {
      if (counts(mask, b, axis, first + r)) continue;
      std::fill_n(&rows.phi[size_t(r * d)], d, 0.0);
      std::fill_n(&rows.wide[size_t(r * d)], d, 0.0);
    }
    for (size_t n = 0; n < size_t(count * d); ++n) rows.square[n] = rows.phi[n] * rows.phi[n];
  }

  // Keys in segments that depend on the problem alone, summed in their order: the same numbers from
  // any number of threads.
  Moments all_moments(int64_t b, int64_t kv_head, const Variances& u) const {
    const int64_t most = std::max<int64_t>(1, (int64_t{32} << 20) / (24 * sizes_.matrix()));
    const int64_t segments =
        std::clamp<int64_t>(p_.seq_len_kv / 4096, 1, std::min<int64_t>(16, most));
    std::vector<Moments> parts(static_cast<size_t>(segments), Moments(sizes_, u));
#pragma omp parallel for schedule(dynamic)
    for (int64_t s = 0; s < segments; ++s)
      add_moments(b, kv_head, p_.seq_len_kv * s / segments, p_.seq_len_kv * (s + 1) / segments, u,
                  parts[size_t(s)]);
    for (int64_t s = 1; s < segments; ++s) parts[0].add(parts[size_t(s)]);
    return std::move(parts[0]);
  }

  void add_moments(int64_t b, int64_t kv_head, int64_t begin, int64_t end, const Variances& u,
                   Moments& m) const {
    const int64_t d = sizes_.head_dim, width = sizes_.width;
    const Tensor &v = tensors_[ATTEST_V], &mask = tensors_[ATTEST_MASK];
    Rows rows(sizes_);
    for (int64_t first = begin; first < end; first += kChunk) {
      const int64_t count = std::min(kChunk, end - first);
      load_mapped(tensors_[ATTEST_K], b, kv_head, first, count, mask, 3, rows);
      for (int64_t r = 0; r < count; ++r) {
        double *values = &rows.x[size_t(r * width)], *squares = &rows.y[size_t(r * width)];
        const bool read = counts(mask, b, 3, first + r);
        if (read)
          load_one(v, b, kv_head, first + r, values);
        else
          std::fill_n(values, p_.head_dim_v, 0.0);
        for (int64_t e = 0; e < width; ++e) squares[e] = values[e] * values[e];
        for (int64_t c = 0; c < d; ++c) {
          m.z[size_t(c)] += rows.phi[size_t(r * d + c)];
          m.A0[size_t(c)] += rows.wide[size_t(r * d + c)];
          m.P0[size_t(c)] += rows.square[size_t(r * d + c)];
        }
        m.keys += read;
        for (size_t e = 0; e < m.V1.size(); ++e) {
          m.V1[e] += values[e];
          m.V2[e] += squares[e];
        }
      }
      if (u.key_step.matters()) {
        for (int64_t n = 0; n < count * d; ++n) {
          const double addend = rows.phi[size_t(n)];
          m.rounding_z[size_t(n % d)] += u.key_step.rounding(addend);
          m.small_z[size_t(n % d)] += u.key_step.variance(addend);
          add_small(addend, &rows.x[size_t(n / d * width)], u.key_step, size_t(n % d * width),
                    m.rounding, m.small);
        }
      }
      add_keys(rows.phi, rows.x, m.S, count);
      add_keys(rows.wide, rows.x, m.A1, count);
      add_keys(rows.wide, rows.y, m.A2, count);
      add_keys(rows.square, rows.x, m.P1, count);
      add_keys(rows.square, rows.y, m.P2, count);
      m.note_reach();
    }
  }

  // sums += features^T values, over keys: features [keys, head_dim], values [keys, width], sums
  // [head_dim, width].
  void add_keys(const std::vector<double>& features, const std::vector<double>& values,
                std::vector<double>& sums, int64_t keys) const {
    const int64_t d = sizes_.head_dim, width = sizes_.width;
    add_terms({features.data(), 1, d}, {values.data(), width}, {sums.data(), width},
              {.rows = d, .inner = keys, .columns = width});
  }

  // Adds the rounding of one feature times a row of numbers, [width], to whole steps of the
  // accumulator, and its variance, to the elements from `at` on.
  void add_small(double feature, const double* row, const linear::SmallestStep& step, size_t at,
                 std::vector<double>& rounding, std::vector<double>& variance) const {
    for (int64_t e = 0; e < sizes_.width; ++e) {
      rounding[at + size_t(e)] += step.rounding(feature * row[e]);
      variance[at + size_t(e)] += step.variance(feature * row[e]);
    }
  }

  // sums += features state, over channels: features [rows, head_dim], state [head_dim, width], sums
  // [rows, width].
  void add_channels(const std::vector<double>& features, const std::vector<double>& state,
                    std::vector<double>& sums, int64_t rows) const {
    const int64_t d = sizes_.head_dim, width = sizes_.width;
    add_terms({features.data(), d}, {state.data(), width}, {sums.data(), width},
              {.rows = rows, .inner = d, .columns = width});
  }

  // A group of n equal keys with values that sum to V has m^2 (V - n o)^2 in place of m^2 sum (v -
  // o)^2.
  void add_equal_keys(int64_t b, int64_t kv_head, const Variances& u, Moments& m) const {
    const EqualRows& equal = equal_[size_t(b * p_.num_kv_heads + kv_head)];
    if (equal.place.empty()) return;
    const int64_t d = sizes_.head_dim, width = sizes_.width;
    m.E0.resize(m.z.size());
    m.E1.resize(m.S.size());
    m.E2.resize(m.S.size());
    Rows rows(sizes_);
    std::vector<double> sums(static_cast<size_t>(width)), value(sums),
        sizes(static_cast<size_t>(kChunk));
    for (size_t begin = 0, end = 0; begin < equal.place.size();) {
      int64_t count = 0;
      for (; count < kChunk && begin < equal.place.size(); begin = end, ++count) {
        end = equal.group_end(begin);
        load_one(tensors_[ATTEST_K], b, kv_head, equal.group[begin], &rows.phi[size_t(count * d)]);
        double *squares = &rows.x[size_t(count * width)], *crossed = &rows.y[size_t(count * width)];
        std::fill(sums.begin(), sums.end(), 0.0);
        std::fill_n(squares, width, 0.0);
        for (size_t n = begin; n < end; ++n) {
          load_one(tensors_[ATTEST_V], b, kv_head, equal.place[n], value.data());
          for (size_t e = 0; e < value.size(); ++e) {
            sums[e] += value[e];
            squares[e] -= value[e] * value[e];
          }
        }
        const double size = double(end - begin);
        for (size_t e = 0; e < sums.size(); ++e) {
          squares[e] += sums[e] * sums[e];
          crossed[e] = (size - 1) * sums[e];
        }
        sizes[size_t(count)] = size;
      }
      linear::feature_map(rows.phi.data(), padded(count * d), rows.phi.data(), rows.wide.data());
      for (int64_t r = 0; r < count; ++r) {
        const double size = sizes[size_t(r)];
        for (int64_t c = 0; c < d; ++c) {
          const double phi = rows.phi[size_t(r * d + c)];
          double& wide = rows.wide[size_t(r * d + c)];
          wide = u.alike_square(phi, wide);
          m.E0[size_t(c)] += wide * (size * size - size);
        }
      }
      add_keys(rows.wide, rows.y, m.E1, count);
      add_keys(rows.wide, rows.x, m.E2, count);
    }
  }

  static double finite(double x) { return std::isfinite(x) ? x : 0; }

  // Some keys that stand for all, a channel of theirs in each column; NaN and infinities are 0.
  std::vector<std::vector<double>> sample(const Tensor& from, int64_t b, int64_t kv_head,
                                          int64_t most) const {
    std::vector<std::vector<double>> columns(size_t(from.spec.dim[3]));
    std::vector<double> row(columns.size());
    const int64_t keys = p_.seq_len_kv, count = std::min(keys, most);
    for (int64_t n = 0; n < count; ++n) {
      const int64_t first = keys * n / count, next = keys * (n + 1) / count;
      const int64_t j =
          first + int64_t(random_bits(uint64_t(most), uint64_t(n)) % uint64_t(next - first));
      if (!counts(tensors_[ATTEST_MASK], b, 3, j)) continue;
      load_one(from, b, kv_head, j, row.data());
      for (size_t c = 0; c < row.size(); ++c) columns[c].push_back(finite(row[c]));
    }
    return columns;
  }

  // Calls take(x, count, chance that two numbers of the column are this one) for each number that
  // occurs more than once.
  template <class Take>
  static void repeats(std::vector<double>& column, const Take& take) {
    std::sort(column.begin(), column.end());
    const double pairs = double(column.size()) * double(column.size() - 1);
    for (size_t begin = 0, end; begin < column.size(); begin = end) {
      for (end = begin + 1; end < column.size() && column[end] == column[begin]; ++end) {
      }
      if (end - begin > 1)
        take(column[begin], double(end - begin),
             double(end - begin) * double(end - begin - 1) / pairs);
    }
  }

  // Addends of z are alike where keys are in a channel; those of S where values are too, by chance
  // or since the keys are equal.
  void find_repeated(int64_t b, int64_t kv_head, const Variances& u, Moments& m) const {
    const int64_t most = u.length > kShortChains ? kFewSampled : kSampled;
    const EqualRows& equal = equal_[size_t(b * p_.num_kv_heads + kv_head)];
    double equal_keys = 0;
    for (size_t begin = 0, end; begin < equal.group.size(); begin = end) {
      end = equal.group_end(begin);
      equal_keys += std::pow(double(end - begin) / double(p_.seq_len_kv), 2);
    }
    std::vector<std::vector<double>> k = sample(tensors_[ATTEST_K], b, kv_head, most),
                                     v = sample(tensors_[ATTEST_V], b, kv_head, most);
    std::vector<double> alike_k(k.size()), alike_v(v.size());
    m.repeated_z.resize(m.z.size());
    m.repeated.resize(m.S.size());
    for (size_t e = 0; e < v.size(); ++e)
      repeats(v[e], [&](double, double, double chance) { alike_v[e] += chance; });
    for (size_t c = 0; c < k.size(); ++c) {
      double total = 0;
      for (const double x : k[c]) total += linear::feature(x);
      repeats(k[c], [&](double x, double count, double chance) {
        alike_k[c] += chance;
        m.repeated_z[c] += u.repeated(chance, count * linear::feature(x) / total);
      });
      for (size_t e = 0; e < v.size(); ++e)
        m.repeated[c * size_t(sizes_.width) + e] =
            u.repeated(std::max(alike_k[c] * alike_v[e], std::min(equal_keys, alike_v[e])), 1);
    }
  }

  // Values and sigmas of `count` rows, in rows.value and rows.x, [count, head_dim_v].
  void find_rows(Rows& rows, int64_t b, int64_t head, int64_t first, int64_t count,
                 const Moments& m, const Quadratic& quadratic, const Variances& u) const {
    const int64_t d = sizes_.head_dim, width = sizes_.width;
    load_mapped(tensors_[ATTEST_Q], b, head, first, count, tensors_[ATTEST_QUERY_MASK], 2, rows);
    for (auto* sums :
         {&rows.value, &rows.x, &rows.y, &rows.root, &rows.lean, &rows.rounding, &rows.small})
      std::fill(sums->begin(), sums->end(), 0.0);
    add_channels(rows.phi, m.S, rows.value, count);
    add_channels(rows.square, quadratic.X, rows.x, count);
    add_channels(rows.square, quadratic.Y, rows.y, count);
    add_channels(rows.wide, quadratic.S2, rows.x, count);
    add_channels(rows.wide, quadratic.Sz, rows.y, count);
    if (u.value > 0) add_channels(rows.phi, quadratic.root, rows.root, count);
    if (!quadratic.lean.empty()) add_channels(rows.phi, quadratic.lean, rows.lean, count);
    if (u.key_step.matters()) add_channels(rows.phi, m.rounding, rows.rounding, count);
    for (int64_t n = 0; u.channel_step.matters() && n < count * d; ++n)
      add_small(rows.phi[size_t(n)], &m.S[size_t(n % d * width)], u.channel_step,
                size_t(n / d * width), rows.rounding, rows.small);
    for (int64_t r = 0; r < count; ++r) {
      rows.row[size_t(r)] = (b * p_.num_heads + head) * p_.seq_len_q + first + r;
      double normaliser = double(p_.eps), z = 0, lean = 0, rounding_z = 0, small_z = 0;
      for (int64_t c = 0; c < d; ++c) {
        const double addend = rows.phi[size_t(r * d + c)] * m.z[size_t(c)];
        normaliser += addend;
        rounding_z += u.channel_step.rounding(addend);
        small_z += u.channel_step.variance(addend);
        if (u.key_step.matters())
          rounding_z += rows.phi[size_t(r * d + c)] * m.rounding_z[size_t(c)];
        lean += rows.phi[size_t(r * d + c)] * quadratic.lean_z[size_t(c)];
        z += rows.square[size_t(r * d + c)] * quadratic.Z[size_t(c)] +
             rows.wide[size_t(r * d + c)] * quadratic.z2[size_t(c)];
      }
      // The less of the normaliser is left, the more an error weighs.
      const double divisor = std::clamp(normaliser + rounding_z, kLeft * normaliser, normaliser);
      // Results move to the front, head_dim_v apart; a row never overtakes the ones still to be
      // read.
      for (int64_t e = 0; e < p_.head_dim_v; ++e) {
        const auto from = size_t(r * width + e), to = size_t(r * p_.head_dim_v + e);
        const double o = rows.value[from] / normaliser, rounded_v = rows.root[from] / normaliser;
        const double products =
            (rows.x[from] - 2 * o * rows.y[from] + o * o * z) / (divisor * divisor);
        const double rounding = rows.rounding[from] - o * rounding_z;
        const double leaning = (rows.lean[from] * rows.lean[from] + o * o * lean * lean +
                                rounding * rounding + rows.small[from] + o * o * small_z) /
                                   (divisor * divisor) +
                               small_pairs(m, u, size_t(e), o, normaliser);
        // A cancellation that ends below 0 says 0; NaN stays.
        const double variance = (products < 0 ? 0 : products) + leaning +
                                (u.out + 3 * u.channels) * o * o +
                                u.value * (rounded_v * rounded_v + o * o) + u.eta_squared;
        rows.value[to] = o;
        rows.x[to] = std::sqrt(variance);
      }
    }
  }

  // The variance that smallest steps add without a state. Each weight is a sum of head_dim products
  // and is rounded to the operand of PV. What weights share in their errors may follow their
  // values, eps gains on what is left of the normaliser, and PV may lose what the normaliser does
  // not.
  double small_pairs(const Moments& m, const Variances& u, size_t e, double o,
                     double normaliser) const {
    const double weights = normaliser - double(p_.eps);
    if (m.V1.empty() || weights <= 0) return 0;
    const double weight = weights / m.keys, product = weight / double(p_.head_dim),
                 spread = std::max(m.V2[e] - 2 * o * m.V1[e] + o * o * m.keys, 0.0);
    const double random = double(p_.head_dim) * u.pair_step.variance(product) * spread +
                          u.weight_step.variance(weight) * m.V2[e] +
                          m.keys * u.pair_step.variance(weight) * (1 + o * o);
    const double shared = u.pair_step.shared_error(product),
                 gain = shared * double(p_.eps) / ((1 - shared) * weights + double(p_.eps)),
                 unweighed = u.weight_step.shared_error(weight);
    const double factor = std::max(u.pair_step.factor, u.weight_step.factor);
    return random / (normaliser * normaliser) +
           factor * factor *
               ((shared * shared + unweighed * unweighed) * spread / m.keys +
                (gain * gain + unweighed * unweighed) * o * o);
  }

  void expect_rows(Rows& rows, int64_t b, int64_t head, int64_t first, const Moments& m,
                   const Quadratic& quadratic, const Variances& u, const Sink& sink) const {
    const int64_t count = std::min(kChunk, p_.seq_len_q - first);
    find_rows(rows, b, head, first, count, m, quadratic, u);
    sink({.role = ATTEST_O,
          .leading = 3,
          .width = p_.head_dim_v,
          .rows = {rows.row.data(), size_t(count)},
          .value = rows.value.data(),
          .sigma = rows.x.data()});
  }

  // Rows in the middle of the first query head, and the channels that have a finite output there.
  linear::OutputSample output_sample(int64_t b, int64_t kv_head, const Moments& m,
                                     const Quadratic& quadratic, const Variances& u) const {
    const int64_t group = p_.num_heads / p_.num_kv_heads,
                  count = std::min(kSampledRows, p_.seq_len_q);
    Rows rows(sizes_);
    find_rows(rows, b, kv_head * group, (p_.seq_len_q - count) / 2, count, m, quadratic, u);
    linear::OutputSample outputs{.rows = group * p_.seq_len_q};
    for (int64_t e = 0; e < p_.head_dim_v; ++e) {
      const auto is_known = [&](int64_t r) {
        return std::isfinite(rows.value[size_t(r * p_.head_dim_v + e)]);
      };
      int64_t r = 0;
      while (r < count && !is_known(r)) ++r;
      outputs.channels += r < count;
    }
    for (int64_t r = 0; r < count; ++r) {
      std::vector<double>& query = outputs.queries.emplace_back(size_t(sizes_.head_dim));
      for (size_t c = 0; c < query.size(); ++c)
        query[c] = finite(rows.phi[size_t(r) * query.size() + c] * std::sqrt(m.A0[c]));
    }
    outputs.feature_share = shares(rows, count, m, Quadratic(sizes_, m, u.of_key_features()));
    outputs.state_share = shares(rows, count, m, Quadratic(sizes_, m, u.of_state()));
    outputs.values = sampled_values(b, kv_head);
    return outputs;
  }

  // What the variances of `part` are of those of rows that find_rows has found: for each row, the
  // mean over its channels.
  std::vector<double> shares(const Rows& found, int64_t count, const Moments& m,
                             const Quadratic& part) const {
    const int64_t d = sizes_.head_dim, width = sizes_.width;
    std::vector<double> x(found.x.size()), y(x.size()), share(static_cast<size_t>(count));
    add_channels(found.square, part.X, x, count);
    add_channels(found.square, part.Y, y, count);
    for (int64_t r = 0; r < count; ++r) {
      double normaliser = double(p_.eps), z = 0;
      for (int64_t c = 0; c < d; ++c) {
        normaliser += found.phi[size_t(r * d + c)] * m.z[size_t(c)];
        z += found.square[size_t(r * d + c)] * part.Z[size_t(c)];
      }
      for (int64_t e = 0; e < p_.head_dim_v; ++e) {
        const auto at = size_t(r * p_.head_dim_v + e), from = size_t(r * width + e);
        const double o = found.value[at], all = found.x[at] * normaliser;
        const double variance = x[from] - 2 * o * y[from] + o * o * z;
        if (variance > 0 && variance < all * all)
          share[size_t(r)] += variance / (all * all) / double(p_.head_dim_v);
        else if (variance > 0)
          share[size_t(r)] += 1 / double(p_.head_dim_v);
      }
    }
    return share;
  }

  std::vector<std::vector<double>> sampled_values(int64_t b, int64_t kv_head) const {
    std::vector<std::vector<double>> all = sample(tensors_[ATTEST_V], b, kv_head, kSampledKeys),
                                     some;
    const size_t step = (all.size() + size_t(kSampledChannels) - 1) / size_t(kSampledChannels);
    for (size_t e = 0; e < all.size(); e += step) some.push_back(std::move(all[e]));
    return some;
  }

  attest_linear_params p_;
  Sizes sizes_;
  Tensors tensors_;
  std::vector<EqualRows> equal_;  // [batch, num_kv_heads]
  mutable std::mutex lock_;
  mutable std::vector<std::pair<Arithmetic, int64_t>> independent_;  // for each that was asked for
};

}  // namespace

std::unique_ptr<Golden> linear_golden(const Problem& problem, const Tensors& tensors) {
  return std::make_unique<LinearGolden>(problem, tensors);
}

}  // namespace attest::core
