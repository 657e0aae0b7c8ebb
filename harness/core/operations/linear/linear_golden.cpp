// The float64 golden of linear attention and the standard deviation of an honest error.
//
// With m = max(phi, 1), since elu + 1 loses what it loses at 1 however small phi is (sums of phi lose what phi does), and
// D = phi(q) z + eps, first order in the roundings, c over channels, j over keys:
//   delta o = sum_c delta phi(q)_c (S_c - z_c o) / D + sum_c phi(q)_c (delta S_c - o delta z_c) / D
//   S = sum_j phi(k)_j^T v_j, z = sum_j phi(k)_j, A1 = sum_j m_j^2 v_j, A2 = sum_j m_j^2 v_j^2, A0 = sum_j m_j^2,
//   P2 = sum_j phi(k)_j^2 v_j^2, P0 = sum_j phi(k)_j^2
// Each variance below is quadratic in (S, z, A..) and in o, so one declared arithmetic is three matrices X, Y, Z:
//   variance = (sum_c phi(q)_c^2 (X_c - 2 o Y_c + o^2 Z_c) + u_phi^2 / 3 sum_c m(q)_c^2 (S_c - o z_c)^2) / D^2 + (terms in o
//   alone)
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/operations/linear/kernels.hpp"
#include "core/operations/linear/linear.hpp"

namespace attest::core {
namespace {

using linear::multiply_add;
using linear::padded;
constexpr int64_t kChunk = 64;  // rows or keys at a time: three [64, head_dim] blocks stay in the second-level cache

struct Sizes {
  int64_t head_dim, width;  // width: head_dim_v padded
  int64_t matrix() const { return head_dim * width; }
};

// Sums over the keys of one (batch, kv head): S, A1, A2, P2 [head_dim, width], z, A0, P0 [head_dim].
struct Moments {
  explicit Moments(Sizes s)
      : S(size_t(s.matrix())), A1(S.size()), A2(S.size()), P2(S.size()), z(size_t(s.head_dim)), A0(z.size()), P0(z.size()) {}
  std::vector<double> S, A1, A2, P2, z, A0, P0;

  void add(const Moments& other) {
    auto sum = [](std::vector<double>& to, const std::vector<double>& from) {
      std::transform(to.begin(), to.end(), from.begin(), to.begin(), std::plus<>());
    };
    sum(S, other.S), sum(A1, other.A1), sum(A2, other.A2), sum(P2, other.P2);
    sum(z, other.z), sum(A0, other.A0), sum(P0, other.P0);
  }
};

// What a declared arithmetic adds up to.
struct Variances {
  double phi, state, keys, channels, out, eta_squared, value;

  Variances(const Arithmetic& arithmetic, const attest_linear_params& p, DType stored_v) {
    auto square = [](double x) { return x * x; };
    // phi is kept in the operand dtype of the first product; S and z enter the second one in that of PV.
    phi = square(std::max(unit_roundoff(arithmetic.qk), arithmetic.probability_rel_error)) / 3;
    const double u_state = unit_roundoff(arithmetic.pv), u_accumulator = unit_roundoff(arithmetic.accumulator);
    state = square(u_state) / 3;
    const int64_t chain = arithmetic.sum_chain > 0 ? std::min(arithmetic.sum_chain, p.seq_len_kv) : p.seq_len_kv;
    keys = square(u_accumulator) * double(chain) / 3;
    channels = square(u_accumulator) * double(p.head_dim) / 3;
    out = square(unit_roundoff(arithmetic.output)) / 3;
    const double eta =
        arithmetic.has(ATTEST_FLUSHES_SUBNORMALS) ? smallest_normal(arithmetic.output) : half_subnormal(arithmetic.output);
    eta_squared = square(eta) / 3;
    value = u_state > unit_roundoff(stored_v) ? square(u_state) / 3 : 0;
  }
};

// X, Y [head_dim, width] and Z [head_dim] of the formula at the top; S2, Sz [head_dim, width] and z2 [head_dim] of its second
// part; root: sqrt(P2), for V rounded to an operand dtype.
struct Quadratic {
  std::vector<double> X, Y, S2, Sz, Z, z2, root;

  Quadratic(Sizes s, const Moments& m, const Variances& u) : X(m.S.size()), Y(X), S2(X), Sz(X), Z(m.z.size()), z2(Z), root(X) {
    for (int64_t c = 0; c < s.head_dim; ++c) {
      const double z = m.z[size_t(c)], a0 = m.A0[size_t(c)];
      auto chained = [&](double total, double squares) {
        return u.keys * (std::fabs(total) + std::sqrt(squares)) * (std::fabs(total) + std::sqrt(squares));
      };
      Z[size_t(c)] = u.phi * a0 + u.state * z * z + chained(z, m.P0[size_t(c)]);
      z2[size_t(c)] = u.phi * z * z;
      for (int64_t v = 0; v < s.width; ++v) {
        const auto i = size_t(c * s.width + v);
        const double S = m.S[i];
        X[i] = u.phi * m.A2[i] + u.state * S * S + chained(S, m.P2[i]) + 2 * u.channels * S * S;
        Y[i] = u.phi * m.A1[i];
        S2[i] = u.phi * S * S, Sz[i] = u.phi * S * z;
        root[i] = std::sqrt(m.P2[i]);
      }
    }
  }
};

class LinearGolden final : public Golden {
 public:
  LinearGolden(const Problem& problem, const Tensors& tensors)
      : p_(problem.as<attest_linear_params>()), sizes_{p_.head_dim, padded(p_.head_dim_v)}, tensors_(tensors) {}

  std::string method() const override { return "float64, all rows"; }

  void expect(const Arithmetic& arithmetic, const Sink& sink) const override {
    const Variances variances(arithmetic, p_, tensors_[ATTEST_V].spec.dtype);
    const int64_t group = p_.num_heads / p_.num_kv_heads, chunks = (p_.seq_len_q + kChunk - 1) / kChunk;
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t kv_head = 0; kv_head < p_.num_kv_heads; ++kv_head) {
        const Moments moments = all_moments(b, kv_head);
        const Quadratic quadratic(sizes_, moments, variances);
#pragma omp parallel
        {
          Rows rows(sizes_);
#pragma omp for schedule(dynamic, 4)
          for (int64_t task = 0; task < group * chunks; ++task)
            expect_rows(rows, b, kv_head * group + task / chunks, task % chunks * kChunk, moments, quadratic, variances, sink);
        }
      }
    }
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
          row(size_t(kChunk)) {}
    std::vector<double> phi, square, wide, value, x, y, root;
    std::vector<int64_t> row;
  };

  static bool counts(const Tensor& mask, int64_t b, int axis, int64_t index) {
    if (!mask) return true;
    const int64_t offset = mask.spec.stride[0] * b + mask.spec.stride[axis] * index;
    return load(mask.data, ATTEST_BOOL, offset) != 0;
  }

  // phi and m^2 of `count` rows of Q or K; all zero where the mask says so, whatever lies there.
  void load_mapped(const Tensor& from, int64_t b, int64_t head, int64_t first, int64_t count, const Tensor& mask, int axis,
                   Rows& rows) const {
    const TensorSpec& spec = from.spec;
    const int64_t d = sizes_.head_dim;
    for (int64_t r = 0; r < count; ++r)
      load_row(from.data, spec.dtype, b * spec.stride[0] + head * spec.stride[1] + (first + r) * spec.stride[2], d,
               spec.stride[3], &rows.phi[size_t(r * d)]);
    linear::feature_map(rows.phi.data(), padded(count * d), rows.phi.data(), rows.wide.data());
    for (int64_t r = 0; mask && r < count; ++r) {
      if (counts(mask, b, axis, first + r)) continue;
      std::fill_n(&rows.phi[size_t(r * d)], d, 0.0);
      std::fill_n(&rows.wide[size_t(r * d)], d, 0.0);
    }
    for (size_t n = 0; n < size_t(count * d); ++n) rows.square[n] = rows.phi[n] * rows.phi[n];
  }

  // Keys in segments that depend on the problem alone, summed in their order: the same numbers from any number of threads.
  Moments all_moments(int64_t b, int64_t kv_head) const {
    const int64_t most = std::max<int64_t>(1, (int64_t{32} << 20) / (24 * sizes_.matrix()));
    const int64_t segments = std::clamp<int64_t>(p_.seq_len_kv / 4096, 1, std::min<int64_t>(16, most));
    std::vector<Moments> parts(static_cast<size_t>(segments), Moments(sizes_));
#pragma omp parallel for schedule(dynamic)
    for (int64_t s = 0; s < segments; ++s)
      add_moments(b, kv_head, p_.seq_len_kv * s / segments, p_.seq_len_kv * (s + 1) / segments, parts[size_t(s)]);
    for (int64_t s = 1; s < segments; ++s) parts[0].add(parts[size_t(s)]);
    return std::move(parts[0]);
  }

  void add_moments(int64_t b, int64_t kv_head, int64_t begin, int64_t end, Moments& m) const {
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
          load_row(v.data, v.spec.dtype, b * v.spec.stride[0] + kv_head * v.spec.stride[1] + (first + r) * v.spec.stride[2],
                   p_.head_dim_v, v.spec.stride[3], values);
        else
          std::fill_n(values, p_.head_dim_v, 0.0);
        for (int64_t e = 0; e < width; ++e) squares[e] = values[e] * values[e];
        for (int64_t c = 0; c < d; ++c)
          m.z[size_t(c)] += rows.phi[size_t(r * d + c)], m.A0[size_t(c)] += rows.wide[size_t(r * d + c)],
              m.P0[size_t(c)] += rows.square[size_t(r * d + c)];
      }
      multiply_add(rows.phi.data(), 1, d, rows.x.data(), m.S.data(), d, width, count);
      multiply_add(rows.wide.data(), 1, d, rows.x.data(), m.A1.data(), d, width, count);
      multiply_add(rows.wide.data(), 1, d, rows.y.data(), m.A2.data(), d, width, count);
      multiply_add(rows.square.data(), 1, d, rows.y.data(), m.P2.data(), d, width, count);
    }
  }

  void expect_rows(Rows& rows, int64_t b, int64_t head, int64_t first, const Moments& m, const Quadratic& quadratic,
                   const Variances& u, const Sink& sink) const {
    const int64_t d = sizes_.head_dim, width = sizes_.width, count = std::min(kChunk, p_.seq_len_q - first);
    load_mapped(tensors_[ATTEST_Q], b, head, first, count, tensors_[ATTEST_QUERY_MASK], 2, rows);
    for (auto* sums : {&rows.value, &rows.x, &rows.y, &rows.root}) std::fill(sums->begin(), sums->end(), 0.0);
    multiply_add(rows.phi.data(), d, 1, m.S.data(), rows.value.data(), count, width, d);
    multiply_add(rows.square.data(), d, 1, quadratic.X.data(), rows.x.data(), count, width, d);
    multiply_add(rows.square.data(), d, 1, quadratic.Y.data(), rows.y.data(), count, width, d);
    multiply_add(rows.wide.data(), d, 1, quadratic.S2.data(), rows.x.data(), count, width, d);
    multiply_add(rows.wide.data(), d, 1, quadratic.Sz.data(), rows.y.data(), count, width, d);
    if (u.value > 0) multiply_add(rows.phi.data(), d, 1, quadratic.root.data(), rows.root.data(), count, width, d);
    for (int64_t r = 0; r < count; ++r) {
      rows.row[size_t(r)] = (b * p_.num_heads + head) * p_.seq_len_q + first + r;
      double normaliser = double(p_.eps), z = 0;
      for (int64_t c = 0; c < d; ++c) {
        normaliser += rows.phi[size_t(r * d + c)] * m.z[size_t(c)];
        z += rows.square[size_t(r * d + c)] * quadratic.Z[size_t(c)] + rows.wide[size_t(r * d + c)] * quadratic.z2[size_t(c)];
      }
      // Results move to the front, head_dim_v apart; a row never overtakes the ones still to be read.
      for (int64_t e = 0; e < p_.head_dim_v; ++e) {
        const auto from = size_t(r * width + e), to = size_t(r * p_.head_dim_v + e);
        const double o = rows.value[from] / normaliser, rounded_v = rows.root[from] / normaliser;
        const double products = (rows.x[from] - 2 * o * rows.y[from] + o * o * z) / (normaliser * normaliser);
        // A cancellation that ends below 0 says 0; NaN stays.
        const double variance =
            (products < 0 ? 0 : products) + (u.out + 3 * u.channels) * o * o + u.value * rounded_v * rounded_v + u.eta_squared;
        rows.value[to] = o, rows.x[to] = std::sqrt(variance);
      }
    }
    sink({.role = ATTEST_O,
          .leading = 3,
          .width = p_.head_dim_v,
          .rows = {rows.row.data(), size_t(count)},
          .value = rows.value.data(),
          .sigma = rows.x.data()});
  }

  attest_linear_params p_;
  Sizes sizes_;
  Tensors tensors_;
};

}  // namespace

std::unique_ptr<Golden> linear_golden(const Problem& problem, const Tensors& tensors) {
  return std::make_unique<LinearGolden>(problem, tensors);
}

}  // namespace attest::core
