// Attention by its definition, in float64 and without any cleverness, for kernels_test (trial.hpp).
#include "simd/testing/trial.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace trial {

const attest_impl* load(const std::string& name) {
  const char* const folder = std::getenv("ATTEST_TRIAL_PLUGINS");
  const std::string path =
      (folder != nullptr ? std::string(folder) : std::string(ATTEST_BINARY_DIR) + "/plugins") +
      "/" + name + ".so";
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return nullptr;
  }
  return reinterpret_cast<const attest_impl* (*)(size_t)>(dlsym(library, "attest_plugin_v1"))(0);
}

namespace {

struct Sequence {
  int64_t q, kv, rows_q, rows_kv, batch_q, batch_kv, first_q, first_kv;
};

Sequence sequence(const Trial& t, int64_t b) {
  const attest_softmax_params& p = t.softmax();
  Sequence s{p.seq_len_q, p.seq_len_kv, p.seq_len_q, p.seq_len_kv, b, b, 0, 0};
  if (const Tensor* cu = t.find(ATTEST_CU_SEQLENS_Q)) {
    s.batch_q = 0;
    s.first_q = static_cast<int64_t>((*cu)({b}));
    s.q = s.rows_q = static_cast<int64_t>((*cu)({b + 1})) - s.first_q;
  }
  if (const Tensor* cu = t.find(ATTEST_CU_SEQLENS_KV)) {
    s.batch_kv = 0;
    s.first_kv = static_cast<int64_t>((*cu)({b}));
    s.kv = s.rows_kv = static_cast<int64_t>((*cu)({b + 1})) - s.first_kv;
  }
  if (const Tensor* lens = t.find(ATTEST_SEQ_LENS_Q)) s.q = static_cast<int64_t>((*lens)({b}));
  if (const Tensor* lens = t.find(ATTEST_SEQ_LENS_KV)) s.kv = static_cast<int64_t>((*lens)({b}));
  return s;
}

int64_t modulo(int64_t n, int64_t size) { return (n % size + size) % size; }

bool in_band_and_patch(const attest_softmax_params& p, const Sequence& s, int64_t i, int64_t j) {
  if (i < p.global_tokens || j < p.global_tokens) return true;
  const int64_t place =
      i + p.diagonal_offset + (p.diagonal == ATTEST_BOTTOM_RIGHT ? s.kv - s.q : 0);
  if (p.window_left >= 0 && j < place - p.window_left) return false;
  if (p.window_right >= 0 && j > place + p.window_right) return false;
  if (p.patch_size <= 0) return true;
  const int64_t first = i / p.patch_size * p.patch_size;
  if (first + p.patch_size > s.kv)
    return j >= s.kv - std::min(p.patch_size, s.kv);  // a short last patch
  return j >= first && j < first + p.patch_size;
}

/// Whether tokens i and j share a grid window, and what is added to their logit.
bool in_grid(const Trial& t, int64_t h, int64_t i, int64_t j, double& added) {
  const attest_softmax_params& p = t.softmax();
  if (p.grid_height <= 0) return true;
  const int64_t yi = modulo(i / p.grid_width - p.shift_y, p.grid_height),
                xi = modulo(i % p.grid_width - p.shift_x, p.grid_width);
  const int64_t yj = modulo(j / p.grid_width - p.shift_y, p.grid_height),
                xj = modulo(j % p.grid_width - p.shift_x, p.grid_width);
  if (yi / p.window_height != yj / p.window_height || xi / p.window_width != xj / p.window_width)
    return false;
  if (const Tensor* rel = t.find(ATTEST_REL_BIAS))
    added += (*rel)({h, yi - yj + p.window_height - 1, xi - xj + p.window_width - 1});
  // Rolling keeps the distance of two tokens of a window, unless it brought them together across
  // the grid's edge.
  if (yi - yj != i / p.grid_width - j / p.grid_width ||
      xi - xj != i % p.grid_width - j % p.grid_width)
    added += p.shift_bias;
  return true;
}

struct Row {
  const Trial& t;
  int64_t b, h, i;
  Sequence s;
  // Looked up once: of_key and logit are called for every key.
  const int64_t kv_head = h / (t.softmax().num_heads / t.softmax().num_kv_heads);
  const Tensor *order = t.find(ATTEST_ORDER), *pages = t.find(ATTEST_PAGE_TABLE),
               *mask = t.find(ATTEST_MASK), *blocks = t.find(ATTEST_BLOCK_MASK),
               *bias = t.find(ATTEST_BIAS), *slopes = t.find(ATTEST_ALIBI_SLOPES);
  const Channels q = of_query(t.tensor.at(ATTEST_Q));
  const Tensor& keys = t.tensor.at(ATTEST_K);

  int64_t row(int64_t place) const {
    return order == nullptr
               ? place
               : static_cast<int64_t>((*order)({order->spec.dim[0] == 1 ? 0 : b, place}));
  }
  Channels of_query(const Tensor& x) const {
    return x.channels({s.batch_q, h, s.first_q + row(i)});
  }
  /// Of K or V: through the page table, if there is one.
  Channels of_key(const Tensor& x, int64_t j) const {
    if (pages != nullptr) {
      const int64_t size = t.softmax().page_size;
      return x.channels({static_cast<int64_t>((*pages)({b, j / size})), kv_head, j % size});
    }
    return x.channels({s.batch_kv, kv_head, s.first_kv + row(j)});
  }
  /// The logit of key j and how much it is made of; -inf where hidden. `slope`: its derivative by
  /// the scaled score.
  double logit(int64_t j, double& size, double* slope = nullptr) const {
    const attest_softmax_params& p = t.softmax();
    double added = 0;
    if (slope != nullptr) *slope = 1;
    if (!in_band_and_patch(p, s, i, j) || !in_grid(t, h, i, j, added)) return -kInfinity;
    if (mask != nullptr && (*mask)({b, h, i, j}) == 0) return -kInfinity;
    if (blocks != nullptr && (*blocks)({b, h, i / p.block_q, j / p.block_kv}) == 0)
      return -kInfinity;
    if (bias != nullptr) {
      const double value = (*bias)({b, h, i, j});
      if (value == -kInfinity) return value;
      added += value;
    }
    if (slopes != nullptr) {
      const int64_t corner = p.diagonal == ATTEST_BOTTOM_RIGHT ? s.kv - s.q : 0;
      added -=
          (*slopes)({b, h}) * std::abs(static_cast<double>(i + p.diagonal_offset + corner - j));
    }
    const Channels k = of_key(keys, j);
    double dot = 0;
    size = std::abs(added);
    for (int64_t c = 0; c < p.head_dim; ++c) {
      const double term = q[c] * k[c] * p.softmax_scale;
      dot += term;
      size += std::abs(term);
    }
    if (p.softcap <= 0) return dot + added;
    if (slope != nullptr) *slope = 1 / std::pow(std::cosh(dot / p.softcap), 2);
    return p.softcap * std::tanh(dot / p.softcap) + added;
  }
};

/// Hides the keys that do not count among the top_k. False: logits are so near the least that does
/// that float32 may choose other keys. Equal ones are equal there, too.
bool keep_top_k(const attest_softmax_params& p, std::vector<double>& logit) {
  if (p.top_k == 0 || static_cast<size_t>(p.top_k) >= logit.size()) return true;
  std::vector<double> sorted = logit;
  std::sort(sorted.begin(), sorted.end(), std::greater<double>());
  const double least = sorted[static_cast<size_t>(p.top_k - 1)];
  int64_t ties = p.top_k;
  for (const double x : logit) ties -= x > least;
  const double near = 1e-5 * (1 + std::abs(least));
  bool is_clear = true;
  for (double& x : logit) {
    is_clear &= x == least || !(std::abs(x - least) < near);
    if (x < least || (x == least && p.top_k_ties == ATTEST_TOP_K_FIRST && ties-- <= 0))
      x = -kInfinity;
  }
  return is_clear;
}

void judge_row(const Row& at, Worst& worst) {
  const attest_softmax_params& p = at.t.softmax();
  const Tensor &v = at.t.tensor.at(ATTEST_V), &o = at.t.tensor.at(ATTEST_O);
  const bool counts = at.i < at.s.q;
  std::vector<double> logit(static_cast<size_t>(counts ? at.s.kv : 0)), size(logit.size());
  const Tensor* sinks = at.t.find(ATTEST_SINKS);
  double top = -kInfinity, sum = 0, spread = 0;
  bool poisoned = false;
  for (size_t j = 0; j < logit.size(); ++j) {
    logit[j] = at.logit(static_cast<int64_t>(j), size[j]);
    poisoned |= std::isnan(logit[j]);
    top = std::max(top, logit[j]);
  }
  if (!poisoned && !keep_top_k(p, logit)) return;
  for (size_t j = 0; j < logit.size(); ++j) {
    const double weight = logit[j] == -kInfinity ? 0 : std::exp(logit[j] - top);
    sum += weight;
    if (weight > 0) spread += weight * size[j];
    logit[j] = logit[j] == -kInfinity ? -1 : weight;  // -1: hidden
  }
  if (sinks != nullptr && sum > 0) sum += std::exp((*sinks)({at.h}) - top);
  const double logit_error = 1.5e-7 * (6 + (sum > 0 ? spread / sum : 0) * 4);
  std::vector<double> value(static_cast<size_t>(p.head_dim_v)), size_v(value.size());
  for (size_t j = 0; j < logit.size(); ++j) {
    if (logit[j] < 0) continue;
    const Channels of_v = at.of_key(v, static_cast<int64_t>(j));
    for (size_t c = 0; c < value.size(); ++c) {
      const double term = logit[j] / sum * of_v[static_cast<int64_t>(c)];
      value[c] += term;
      size_v[c] += std::abs(term);
    }
  }
  const Channels got = at.of_query(o);
  for (size_t c = 0; c < value.size(); ++c) {
    if (poisoned) value[c] = std::nan("");
    worst.meet(got[static_cast<int64_t>(c)], value[c],
               unit(o.spec.dtype) * std::abs(value[c]) + tiny(o.spec.dtype) +
                   (logit_error + at.t.weight_error + at.t.exp_error) * size_v[c]);
  }
  if (const Tensor* lse = at.t.find(ATTEST_LSE)) {
    const double expected = poisoned ? std::nan("") : sum == 0 ? -kInfinity : top + std::log(sum);
    worst.meet((*lse)({at.s.batch_q, at.h, at.s.first_q + at.row(at.i)}), expected,
               1.2e-7 * std::abs(expected) + logit_error + at.t.exp_error);
  }
}

}  // namespace

double judge_softmax(Trial& t) {
  for (auto& [role, tensor] : t.tensor) tensor.decode();
  Worst worst;
  for (int64_t b = 0; b < t.softmax().batch; ++b) {
    const Sequence s = sequence(t, b);
    for (int64_t h = 0; h < t.softmax().num_heads; ++h)
      for (int64_t i = 0; i < s.rows_q; ++i) judge_row({t, b, h, i, s}, worst);
  }
  return worst.ratio;
}

void write_forward(Trial& t) {
  for (auto& [role, tensor] : t.tensor) tensor.decode();
  const attest_softmax_params& p = t.softmax();
  Tensor &o = t.tensor.at(ATTEST_O), &lse = t.tensor.at(ATTEST_LSE);
  for (int64_t n = 0; n < p.batch * p.num_heads * p.seq_len_q; ++n) {
    const int64_t i = n % p.seq_len_q, h = n / p.seq_len_q % p.num_heads,
                  b = n / p.seq_len_q / p.num_heads;
    const Row at{t, b, h, i, sequence(t, b)};
    if (i >= at.s.rows_q) continue;
    std::vector<double> row(static_cast<size_t>(p.head_dim_v));
    double sum = 0, size = 0;
    for (int64_t j = 0; i < at.s.q && j < at.s.kv; ++j) {
      const double logit = at.logit(j, size);
      if (logit == -kInfinity) continue;  // no logit here is so large that exp overflows
      const double weight = std::exp(logit);
      const Channels v = at.of_key(t.tensor.at(ATTEST_V), j);
      sum += weight;
      for (size_t c = 0; c < row.size(); ++c) row[c] += weight * v[static_cast<int64_t>(c)];
    }
    if (const Tensor* sinks = t.find(ATTEST_SINKS); sinks != nullptr && sum > 0)
      sum += std::exp((*sinks)({h}));
    for (size_t c = 0; c < row.size(); ++c)
      o.set(o.at({at.s.batch_q, h, at.s.first_q + at.row(i), static_cast<int64_t>(c)}),
            sum == 0 ? 0 : row[c] / sum);
    lse.set(lse.at({at.s.batch_q, h, at.s.first_q + at.row(i)}),
            sum == 0 ? -kInfinity : std::log(sum));
  }
}

namespace {

/// Rows of a gradient and what errors they are allowed.
struct Gradient {
  int64_t width;
  std::vector<double> value, allowed;
  Gradient(int64_t rows, int64_t channels)
      : width(channels), value(static_cast<size_t>(rows * channels)), allowed(value.size()) {}
  void add(int64_t row, int64_t c, double term, double error) {
    value[static_cast<size_t>(row * width + c)] += term;
    allowed[static_cast<size_t>(row * width + c)] += error;
  }
  /// `first`: the first index of a row.
  void meet(const Tensor& got, int64_t b, int64_t h, int64_t first, double scale,
            Worst& worst) const {
    for (size_t n = 0; n < value.size(); ++n) {
      const auto at = static_cast<int64_t>(n);
      meet(got, {b, h, first + at / width, at % width}, n, scale, worst);
    }
  }
  /// All of a tensor.
  void meet(const Tensor& got, Worst& worst) const {
    const int64_t* const dim = got.spec.dim;
    for (size_t n = 0; n < value.size(); ++n) {
      const auto at = static_cast<int64_t>(n);
      const int64_t row = at / dim[3];
      meet(got, {row / dim[2] / dim[1], row / dim[2] % dim[1], row % dim[2], at % dim[3]}, n, 1,
           worst);
    }
  }

  /// Meets a tensor of one dim.
  void meet_each(const Tensor& got, Worst& worst) const {
    for (size_t n = 0; n < value.size(); ++n) meet(got, {static_cast<int64_t>(n)}, n, 1, worst);
  }

 private:
  void meet(const Tensor& got, std::initializer_list<int64_t> index, size_t n, double scale,
            Worst& worst) const {
    const double expected = scale * value[n];
    worst.meet(got(index), expected,
               unit(got.spec.dtype) * std::abs(expected) + tiny(got.spec.dtype) +
                   std::abs(scale) * allowed[n]);
  }
};

/// Adds the pairs of one query to the gradients of its keys, of the bias and of the sinks, and
/// meets that of the query.
void judge_query(const Row& at, Gradient& dk, Gradient& dv, Gradient& dbias, Gradient& dsinks,
                 Worst& worst) {
  const Trial& t = at.t;
  const attest_softmax_params& p = t.softmax();
  const Tensor& values = t.tensor.at(ATTEST_V);
  const Channels o = at.of_query(t.tensor.at(ATTEST_O)), d_o = at.of_query(t.tensor.at(ATTEST_DO));
  const int64_t batch = at.s.batch_q, row = at.s.first_q + at.row(at.i);
  const double lse = t.tensor.at(ATTEST_LSE)({batch, at.h, row});
  double delta = 0, delta_size = 0;
  for (int64_t c = 0; c < p.head_dim_v; ++c) {
    const double term = d_o[c] * o[c];
    delta += term;
    delta_size += std::abs(term);
  }
  if (const Tensor* sinks = t.find(ATTEST_SINKS); sinks != nullptr && lse != -kInfinity) {
    const double sink = (*sinks)({at.h}), weight = std::exp(sink - lse);
    dsinks.add(at.h, 0, -weight * delta,
               weight * (1.5e-7 * (6 + std::abs(sink) + std::abs(lse)) * std::abs(delta) +
                         4e-7 * delta_size));
  }
  Gradient dq(1, p.head_dim);
  for (int64_t j = 0; at.i < at.s.q && j < at.s.kv; ++j) {
    double size = 0, slope = 1, dot = 0, dot_size = 0;  // the dot: do.v
    const double logit = at.logit(j, size, &slope);
    if (logit == -kInfinity) continue;
    const Channels k = at.of_key(at.keys, j), v = at.of_key(values, j);
    for (int64_t c = 0; c < p.head_dim_v; ++c) {
      const double term = d_o[c] * v[c];
      dot += term;
      dot_size += std::abs(term);
    }
    const double weight = std::exp(logit - lse), d_logit = weight * (dot - delta),
                 ds = d_logit * slope, relative = 1.5e-7 * (6 + 4 * size + std::abs(lse)),
                 d_logit_error =
                     relative * std::abs(d_logit) + 4e-7 * weight * (dot_size + delta_size),
                 error = slope * d_logit_error;
    if (const Tensor* got = t.find(ATTEST_DBIAS)) {
      const int64_t* const dim = got->spec.dim;
      dbias.add((at.b % dim[0] * dim[1] + at.h % dim[1]) * dim[2] + at.i % dim[2], j, d_logit,
                d_logit_error);
    }
    const int64_t row_of_key = at.row(j);
    for (int64_t c = 0; c < p.head_dim; ++c) {
      dq.add(0, c, ds * k[c], error * std::abs(k[c]));
      dk.add(row_of_key, c, ds * at.q[c], error * std::abs(at.q[c]));
    }
    for (int64_t c = 0; c < p.head_dim_v; ++c)
      dv.add(row_of_key, c, weight * d_o[c], relative * weight * std::abs(d_o[c]));
  }
  dq.meet(t.tensor.at(ATTEST_DQ), batch, at.h, row, static_cast<double>(p.softmax_scale), worst);
}

}  // namespace

double judge_backward(Trial& t) {
  for (auto& [role, tensor] : t.tensor) tensor.decode();
  const attest_softmax_params& p = t.softmax();
  const int64_t group = p.num_heads / p.num_kv_heads;
  Worst worst;
  const Tensor* const got = t.find(ATTEST_DBIAS);
  Gradient dbias(got == nullptr ? 0 : got->spec.dim[0] * got->spec.dim[1] * got->spec.dim[2],
                 p.seq_len_kv);
  Gradient dsinks(p.num_heads, 1);
  for (int64_t n = 0; n < p.batch * p.num_kv_heads; ++n) {
    const int64_t b = n / p.num_kv_heads, kv_head = n % p.num_kv_heads;
    const Sequence s = sequence(t, b);
    Gradient dk(s.rows_kv, p.head_dim), dv(s.rows_kv, p.head_dim_v);
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h)
      for (int64_t i = 0; i < s.rows_q; ++i)
        judge_query({t, b, h, i, s}, dk, dv, dbias, dsinks, worst);
    dk.meet(t.tensor.at(ATTEST_DK), s.batch_kv, kv_head, s.first_kv,
            static_cast<double>(p.softmax_scale), worst);
    dv.meet(t.tensor.at(ATTEST_DV), s.batch_kv, kv_head, s.first_kv, 1, worst);
  }
  if (got != nullptr) dbias.meet(*got, worst);
  if (const Tensor* of_sinks = t.find(ATTEST_DSINKS)) dsinks.meet_each(*of_sinks, worst);
  return worst.ratio;
}

double judge_linear(Trial& t) {
  const auto phi = [](double x) { return x > 0 ? x + 1 : std::exp(x); };
  for (auto& [role, tensor] : t.tensor) tensor.decode();
  for (const int role : {ATTEST_Q, ATTEST_K})
    for (double& x : t.tensor.at(role).values) x = phi(x);
  const attest_linear_params& p = t.linear();
  const Tensor &q = t.tensor.at(ATTEST_Q), &k = t.tensor.at(ATTEST_K), &v = t.tensor.at(ATTEST_V),
               &o = t.tensor.at(ATTEST_O);
  const Tensor *mask = t.find(ATTEST_MASK), *query_mask = t.find(ATTEST_QUERY_MASK);
  Worst worst;
  for (int64_t n = 0; n < p.batch * p.num_heads * p.seq_len_q; ++n) {
    const int64_t i = n % p.seq_len_q, h = n / p.seq_len_q % p.num_heads,
                  b = n / p.seq_len_q / p.num_heads;
    const int64_t kv_head = h / (p.num_heads / p.num_kv_heads);
    const bool counts = query_mask == nullptr || (*query_mask)({b, 0, i, 0}) != 0;
    const Channels of_q = q.channels({b, h, i});
    std::vector<double> value(static_cast<size_t>(p.head_dim_v)), size(value.size());
    double sum = 0;
    for (int64_t j = 0; counts && j < p.seq_len_kv; ++j) {
      if (mask != nullptr && (*mask)({b, 0, 0, j}) == 0) continue;
      const Channels of_k = k.channels({b, kv_head, j}), of_v = v.channels({b, kv_head, j});
      double weight = 0;
      for (int64_t c = 0; c < p.head_dim; ++c) weight += of_q[c] * of_k[c];
      sum += weight;
      for (size_t c = 0; c < value.size(); ++c) {
        const double term = weight * of_v[static_cast<int64_t>(c)];
        value[c] += term;
        size[c] += std::abs(term);
      }
    }
    for (size_t c = 0; c < value.size(); ++c) {
      const double expected = value[c] / (sum + p.eps);
      worst.meet(o({b, h, i, static_cast<int64_t>(c)}), expected,
                 unit(o.spec.dtype) * std::abs(expected) + tiny(o.spec.dtype) +
                     1e-6 * size[c] / (sum + p.eps));
    }
  }
  return worst.ratio;
}

double judge_deformable(Trial& t, bool exact_places) {
  for (auto& [role, tensor] : t.tensor) tensor.decode();
  const attest_deformable_params& p = t.deformable();
  const Tensor &v = t.tensor.at(ATTEST_V), &o = t.tensor.at(ATTEST_O),
               &locations = t.tensor.at(ATTEST_LOCATIONS), &weights = t.tensor.at(ATTEST_WEIGHTS);
  Worst worst;
  std::vector<double> value(static_cast<size_t>(p.head_dim_v)), size(value.size());
  for (int64_t n = 0; n < p.batch * p.num_heads * p.seq_len_q; ++n) {
    const int64_t i = n % p.seq_len_q, h = n / p.seq_len_q % p.num_heads,
                  b = n / p.seq_len_q / p.num_heads;
    std::fill(value.begin(), value.end(), 0.0);
    std::fill(size.begin(), size.end(), 0.0);
    for (int64_t level = 0, first = 0; level < p.num_levels; ++level) {
      const int64_t height = p.level_height[level], width = p.level_width[level];
      for (int64_t point = 0; point < p.num_points; ++point) {
        const auto coordinate = [&](int64_t axis, int64_t pixels) {
          const double at = locations({b, h, i, level, point, axis});
          return p.align_corners != 0 ? at * static_cast<double>(pixels - 1)
                                      : at * static_cast<double>(pixels) - 0.5;
        };
        const double x = coordinate(0, width), y = coordinate(1, height);
        if (!(x > -1 && x < static_cast<double>(width) && y > -1 &&
              y < static_cast<double>(height)))
          continue;
        const double weight = weights({b, h, i, level, point});
        // Half a unit in the last place of a coordinate, of the product and of the difference
        const double off = exact_places ? 0 : 1.2e-7 * static_cast<double>(width + height + 1);
        for (int k = 0; k < 4; ++k) {
          const auto column = static_cast<int64_t>(std::floor(x)) + k % 2,
                     row = static_cast<int64_t>(std::floor(y)) + k / 2;
          if (column < 0 || column >= width || row < 0 || row >= height) continue;
          const double factor = (1 - std::abs(x - static_cast<double>(column))) *
                                (1 - std::abs(y - static_cast<double>(row)));
          for (size_t c = 0; c < value.size(); ++c) {
            const double pixel = v({b, h, first + row * width + column, static_cast<int64_t>(c)});
            value[c] += weight * factor * pixel;
            size[c] += std::abs(weight * pixel) * (factor + off / 1e-6);
          }
        }
      }
      first += height * width;
    }
    for (size_t c = 0; c < value.size(); ++c)
      worst.meet(o({b, h, i, static_cast<int64_t>(c)}), value[c],
                 unit(o.spec.dtype) * std::abs(value[c]) + tiny(o.spec.dtype) + 1e-6 * size[c]);
  }
  return worst.ratio;
}

}  // namespace trial
