#include "testing/reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace abi_test {
namespace {

constexpr unsigned char kPattern = 0x5b;

size_t size_of(int32_t dtype) {
  switch (dtype) {
    case ATTEST_F16:
    case ATTEST_BF16: return 2;
    case ATTEST_F64:
    case ATTEST_I64: return 8;
    case ATTEST_BOOL:
    case ATTEST_F8E4M3:
    case ATTEST_F8E5M2: return 1;
    default: return 4;
  }
}

/// Of a format of 16 or 8 bits: bits of the mantissa, the exponent of the last place of subnormals,
/// the exponent field of what is no number (beyond all fields: every exponent counts), the sign.
struct Format {
  int mantissa, least, exponents;
  uint64_t sign;
};
Format format(int32_t dtype) {
  switch (dtype) {
    case ATTEST_F16: return {10, -24, 31, 0x8000};
    case ATTEST_F8E4M3: return {3, -9, 16, 0x80};
    case ATTEST_F8E5M2: return {2, -16, 31, 0x80};
    default: return {7, -133, 255, 0x8000};
  }
}
/// The only NaN of f8e4m3, which has no infinity: all bits but the sign.
constexpr uint64_t kNanOfE4M3 = 0x7f;

}  // namespace

double decode(int32_t dtype, uint64_t bits) {
  const Format f = format(dtype);
  const uint64_t magnitude = bits & (f.sign - 1);
  const auto exponent = int(magnitude >> f.mantissa);
  const double mantissa = double(bits & ((1u << f.mantissa) - 1)), hidden = double(1 << f.mantissa);
  double value = exponent == 0 ? std::ldexp(mantissa, f.least)
                               : std::ldexp(hidden + mantissa, f.least + exponent - 1);
  if (exponent == f.exponents)
    value = mantissa == 0 ? kInfinity : std::numeric_limits<double>::quiet_NaN();
  if (dtype == ATTEST_F8E4M3 && magnitude == kNanOfE4M3)
    value = std::numeric_limits<double>::quiet_NaN();
  return bits & f.sign ? -value : value;
}

uint64_t encode(int32_t dtype, double value) {
  const Format f = format(dtype);
  const bool finite_only = dtype == ATTEST_F8E4M3;
  const uint64_t sign = std::signbit(value) ? f.sign : 0,
                 infinity = finite_only ? kNanOfE4M3 : uint64_t(f.exponents) << f.mantissa;
  if (std::isnan(value)) return sign | infinity | 1u << (f.mantissa - 1);
  if (std::isinf(value)) return sign | infinity;
  int exponent = 0;
  std::frexp(value, &exponent);
  int last = std::max(exponent - f.mantissa - 1, f.least);  // exponent of the last place
  double places = std::nearbyint(std::ldexp(std::fabs(value), -last));
  if (places == double(2 << f.mantissa)) {
    places /= 2;
    ++last;
  }
  if (places < double(1 << f.mantissa)) return sign | uint64_t(places);
  const int biased = last - f.least + 1;
  if (biased >= f.exponents) return sign | infinity;
  const uint64_t code =
      uint64_t(biased) << f.mantissa | (uint64_t(places) - (uint64_t{1} << f.mantissa));
  return sign | code;
}

size_t Tensor::offset(const Index& index) const {
  int64_t elements = 0;
  for (size_t axis = 0; axis < index.rank; ++axis)
    elements += spec.dim[axis] == 1 ? 0 : index[axis] * spec.stride[axis];
  return first + size_t(elements) * size_of(spec.dtype);
}

double Tensor::at(const Index& index) const {
  const unsigned char* from = memory.data() + offset(index);
  const auto as = [from](auto value) {
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  switch (spec.dtype) {
    case ATTEST_F32: return double(as(float()));
    case ATTEST_I32: return double(as(int32_t()));
    case ATTEST_BOOL: return double(*from);
    case ATTEST_F64: return as(double());
    case ATTEST_F8E4M3:
    case ATTEST_F8E5M2: return decode(spec.dtype, *from);
    default: return decode(spec.dtype, as(uint16_t()));
  }
}

void Tensor::set(const Index& index, double value) {
  unsigned char* to = memory.data() + offset(index);
  const auto as = [to](auto stored) { std::memcpy(to, &stored, sizeof stored); };
  switch (spec.dtype) {
    case ATTEST_F32: return as(float(value));
    case ATTEST_I32: return as(int32_t(value));
    case ATTEST_BOOL: return as(static_cast<unsigned char>(value));
    case ATTEST_F64: return as(value);
    case ATTEST_F8E4M3:
    case ATTEST_F8E5M2: return as(static_cast<unsigned char>(encode(spec.dtype, value)));
    default: return as(uint16_t(encode(spec.dtype, value)));
  }
}

bool Tensor::surroundings_untouched() const {
  std::vector<bool> element(memory.size(), false);
  each([&](const Index& index) {
    const auto at = element.begin() + std::ptrdiff_t(offset(index));
    std::fill(at, at + std::ptrdiff_t(size_of(spec.dtype)), true);
  });
  for (size_t n = 0; n < memory.size(); ++n)
    if (!element[n] && memory[n] != kPattern) return false;
  return true;
}

Tensor make_tensor(int32_t dtype, const std::vector<int64_t>& dims, int64_t gap, bool aligned) {
  Tensor tensor;
  tensor.spec.dtype = dtype;
  tensor.spec.rank = int32_t(dims.size());
  int64_t stride = gap > 0 ? 2 : 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    tensor.spec.dim[axis] = dims[axis];
    tensor.spec.stride[axis] = dims[axis] == 1 ? 0 : stride;
    stride = stride * dims[axis] + gap;
  }
  tensor.memory.assign(size_t(stride) * size_of(dtype) + 256, kPattern);
  const auto address = reinterpret_cast<uintptr_t>(tensor.memory.data());
  tensor.first = 64 - address % 64 + 64 + (aligned ? 0 : size_of(dtype));
  return tensor;
}

Trial::Trial() {
  problem().struct_size = sizeof(attest_problem);
  problem().operation = ATTEST_SOFTMAX;
  problem().params = params_room;
  problem().tensor = specs;
  problem().threads = 1;
  p().struct_size = sizeof(attest_softmax_params);
  p().batch = p().num_heads = p().num_kv_heads = 1;
  p().window_left = p().window_right = -1;
}

std::vector<void*> Trial::finish() {
  std::vector<void*> data(ATTEST_ROLES, nullptr);
  for (size_t role = 0; role < ATTEST_ROLES; ++role) {
    specs[role] = tensor[role].spec;
    const bool is_output = problem().operation == ATTEST_SOFTMAX
                               ? role == ATTEST_O || role == ATTEST_LSE
                               : role == ATTEST_DQ || role == ATTEST_DK || role == ATTEST_DV;
    specs[role].access = is_output ? ATTEST_WRITE : ATTEST_READ;
    data[role] = tensor[role].data();
  }
  problem().features = features;
  return data;
}

namespace {

int64_t length(const Tensor& cu_seqlens, const Tensor& seq_lens, int64_t longest, int64_t b) {
  if (cu_seqlens) return int64_t(cu_seqlens.at({b + 1}) - cu_seqlens.at({b}));
  return seq_lens ? int64_t(seq_lens.at({b})) : longest;
}
Cell cell(const Trial& trial, const Tensor& cu_seqlens, int64_t b, int64_t place) {
  const Tensor& order = trial.tensor[ATTEST_ORDER];
  Cell at{b, place};
  if (cu_seqlens) at = {0, int64_t(cu_seqlens.at({b})) + place};
  if (order) at.row = int64_t(order.at({at.batch, at.row}));
  return at;
}

/// A token of a grid: where it stands after rolling.
struct Rolled {
  int64_t y, x;
};
Rolled rolled(const attest_softmax_params& p, int64_t token) {
  const int64_t y = token / p.grid_width - p.shift_y, x = token % p.grid_width - p.shift_x;
  return {y < 0 ? y + p.grid_height : y, x < 0 ? x + p.grid_width : x};
}

}  // namespace

int64_t length_q(const Trial& t, int64_t b) {
  return length(t.tensor[ATTEST_CU_SEQLENS_Q], t.tensor[ATTEST_SEQ_LENS_Q], t.p().seq_len_q, b);
}
int64_t length_kv(const Trial& t, int64_t b) {
  return length(t.tensor[ATTEST_CU_SEQLENS_KV], t.tensor[ATTEST_SEQ_LENS_KV], t.p().seq_len_kv, b);
}
Cell query_cell(const Trial& t, int64_t b, int64_t i) {
  return cell(t, t.tensor[ATTEST_CU_SEQLENS_Q], b, i);
}
Cell key_cell(const Trial& t, int64_t b, int64_t j) {
  if (const Tensor& pages = t.tensor[ATTEST_PAGE_TABLE])
    return {int64_t(pages.at({b, j / t.p().page_size})), j % t.p().page_size};
  return cell(t, t.tensor[ATTEST_CU_SEQLENS_KV], b, j);
}

bool in_reach(const Trial& trial, int64_t b, int64_t i, int64_t j) {
  const attest_softmax_params& p = trial.p();
  const int64_t tokens_q = length_q(trial, b), tokens_kv = length_kv(trial, b);
  if (i >= tokens_q || j >= tokens_kv) return false;
  const int64_t diagonal =
      i + p.diagonal_offset + (p.diagonal == ATTEST_BOTTOM_RIGHT ? tokens_kv - tokens_q : 0);
  const bool global = i < p.global_tokens || j < p.global_tokens;
  if (!global && p.window_left >= 0 && j < diagonal - p.window_left) return false;
  if (!global && p.window_right >= 0 && j > diagonal + p.window_right) return false;
  if (p.patch_size > 0) {
    const int64_t patch = i / p.patch_size;
    const bool is_short = (patch + 1) * p.patch_size > tokens_kv;
    if (!is_short && j / p.patch_size != patch) return false;
    if (is_short && j < tokens_kv - std::min(p.patch_size, tokens_kv)) return false;
  }
  if (p.grid_height > 0) {
    const Rolled query = rolled(p, i), key = rolled(p, j);
    if (query.y / p.window_height != key.y / p.window_height ||
        query.x / p.window_width != key.x / p.window_width)
      return false;
  }
  return true;
}

bool visible(const Trial& trial, int64_t b, int64_t h, int64_t i, int64_t j) {
  const Tensor &mask = trial.tensor[ATTEST_MASK], &bias = trial.tensor[ATTEST_BIAS];
  const Tensor& blocks = trial.tensor[ATTEST_BLOCK_MASK];
  const attest_softmax_params& p = trial.p();
  if (blocks && blocks.at({b, h, i / p.block_q, j / p.block_kv}) == 0) return false;
  return in_reach(trial, b, i, j) && !(mask && mask.at({b, h, i, j}) == 0) &&
         !(bias && bias.at({b, h, i, j}) == -kInfinity);
}

namespace {

// By which what Q, K or V stores for a position is multiplied. Factors of a block are those of
// positions i / block, which a tensor of one block or of none has no need of.
double factor(const Trial& trial, int32_t role, int64_t b, int64_t head, int64_t i) {
  const Tensor& factors = trial.tensor[role];
  if (!factors) return 1;
  const attest_softmax_params& p = trial.p();
  const int64_t block = role == ATTEST_Q_DESCALE ? p.descale_block_q : p.descale_block_kv;
  return factors.at({b, head, block == 0 ? 0 : i / block});
}

double scaled_score(const Trial& trial, int64_t b, int64_t h, int64_t i, int64_t j) {
  const attest_softmax_params& p = trial.p();
  const Cell query = query_cell(trial, b, i), key = key_cell(trial, b, j);
  const int64_t kv_head = h / (p.num_heads / p.num_kv_heads);
  double dot = 0;
  for (int64_t d = 0; d < p.head_dim; ++d)
    dot += trial.tensor[ATTEST_Q].at({query.batch, h, query.row, d}) *
           trial.tensor[ATTEST_K].at({key.batch, kv_head, key.row, d});
  dot *= factor(trial, ATTEST_Q_DESCALE, b, h, i) * factor(trial, ATTEST_K_DESCALE, b, kv_head, j);
  return double(p.softmax_scale) * dot;
}

double logit(const Trial& trial, int64_t b, int64_t h, int64_t i, int64_t j) {
  const attest_softmax_params& p = trial.p();
  double s = scaled_score(trial, b, h, i, j);
  if (p.softcap > 0) s = double(p.softcap) * std::tanh(s / double(p.softcap));
  if (const Tensor& bias = trial.tensor[ATTEST_BIAS]) s += bias.at({b, h, i, j});
  if (const Tensor& slopes = trial.tensor[ATTEST_ALIBI_SLOPES]) {
    const int64_t corner =
        p.diagonal == ATTEST_BOTTOM_RIGHT ? length_kv(trial, b) - length_q(trial, b) : 0;
    s -= slopes.at({b, h}) * std::fabs(double(i + corner + p.diagonal_offset - j));
  }
  if (p.grid_height == 0) return s;
  const Rolled at = rolled(p, i), other = rolled(p, j);
  const int64_t dy = at.y % p.window_height - other.y % p.window_height,
                dx = at.x % p.window_width - other.x % p.window_width;
  if (const Tensor& rel_bias = trial.tensor[ATTEST_REL_BIAS])
    s += rel_bias.at({h, dy + p.window_height - 1, dx + p.window_width - 1});
  // Rows and columns below the shift have gone round: whoever has, and whoever has not, were not
  // neighbours.
  const bool y_round = i / p.grid_width < p.shift_y, other_y_round = j / p.grid_width < p.shift_y;
  const bool x_round = i % p.grid_width < p.shift_x, other_x_round = j % p.grid_width < p.shift_x;
  if (y_round != other_y_round || x_round != other_x_round) s += double(p.shift_bias);
  return s;
}

// What top_k leaves of the keys of a row, which stand in order; whether the choice is unclear.
bool keep_top_k(const attest_softmax_params& p, std::vector<int64_t>& keys,
                std::vector<double>& logits) {
  constexpr double kRounding = 1e-5;  // of logits in float32, amply
  const auto k = size_t(p.top_k);
  if (k == 0 || keys.size() <= k) return false;
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&logits](size_t a, size_t b) { return logits[a] > logits[b]; });
  const double edge = logits[order[k - 1]], close = kRounding * (1 + std::fabs(edge));
  size_t count = k;
  while (p.top_k_ties == ATTEST_TOP_K_ALL_TIES && count < order.size() &&
         logits[order[count]] == edge)
    ++count;
  const bool is_unclear = count > k || edge - logits[order[k]] < close;
  order.resize(count);
  std::sort(order.begin(), order.end());
  for (size_t n = 0; n < count; ++n) {
    keys[n] = keys[order[n]];
    logits[n] = logits[order[n]];
  }
  keys.resize(count);
  logits.resize(count);
  return is_unclear;
}

}  // namespace

Reference attend(const Trial& trial, int64_t b, int64_t h, int64_t i) {
  const attest_softmax_params& p = trial.p();
  std::vector<int64_t> keys;
  std::vector<double> logits;
  for (int64_t j = 0; j < length_kv(trial, b); ++j)
    if (visible(trial, b, h, i, j)) {
      keys.push_back(j);
      logits.push_back(logit(trial, b, h, i, j));
    }
  Reference result{std::vector<double>(size_t(p.head_dim_v), 0),
                   std::vector<double>(size_t(p.head_dim_v), 0), -kInfinity, 0};
  result.is_unclear = keep_top_k(p, keys, logits);
  if (keys.empty()) return result;
  const double top = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const double s : logits) {
    total += std::exp(s - top);
    result.largest = std::max(result.largest, std::fabs(s));
  }
  if (const Tensor& sinks = trial.tensor[ATTEST_SINKS]) {
    total += std::exp(sinks.at({h}) - top);
    result.largest = std::max(result.largest, std::fabs(sinks.at({h})));
  }
  result.lse = top + std::log(total);
  for (size_t n = 0; n < keys.size(); ++n) {
    const Cell key = key_cell(trial, b, keys[n]);
    const int64_t kv_head = h / (p.num_heads / p.num_kv_heads);
    const double of_value = factor(trial, ATTEST_V_DESCALE, b, kv_head, keys[n]);
    for (int64_t d = 0; d < p.head_dim_v; ++d) {
      const double term = std::exp(logits[n] - result.lse) * of_value *
                          trial.tensor[ATTEST_V].at({key.batch, kv_head, key.row, d});
      result.o[size_t(d)] += term;
      result.magnitude[size_t(d)] += std::fabs(term);
    }
  }
  return result;
}

namespace {

/// Adds weight * row[channel] to a gradient's row, and its part of what errors are relative to.
void add_row(Gradient& to, int64_t row, double weight, double magnitude, const Tensor& from,
             const Index& first) {
  const int64_t width = from.spec.dim[3];
  for (int64_t d = 0; d < width; ++d) {
    Index at = first;
    at[3] = d;
    const double x = from.at(at);
    to.value[size_t(row * width + d)] += weight * x;
    to.magnitude[size_t(row * width + d)] += std::fabs(magnitude * x);
  }
}

struct Product {
  double sum = 0, magnitude = 0;
};
Product product(const Tensor& x, const Index& of_x, const Tensor& y, const Index& of_y) {
  Product made;
  Index at = of_x, other = of_y;
  for (int64_t d = 0; d < x.spec.dim[3]; ++d) {
    at[3] = other[3] = d;
    const double term = x.at(at) * y.at(other);
    made.sum += term;
    made.magnitude += std::fabs(term);
  }
  return made;
}

}  // namespace

Gradients differentiate(const Trial& trial) {
  const attest_softmax_params& p = trial.p();
  const Tensor &q = trial.tensor[ATTEST_Q], &k = trial.tensor[ATTEST_K],
               &v = trial.tensor[ATTEST_V], &o = trial.tensor[ATTEST_O],
               &d_o = trial.tensor[ATTEST_DO], &lse = trial.tensor[ATTEST_LSE];
  const int64_t queries = q.spec.dim[0] * q.spec.dim[1] * q.spec.dim[2],
                keys = k.spec.dim[0] * k.spec.dim[1] * k.spec.dim[2];
  Gradients made;
  for (const auto& [gradient, elements] :
       {std::pair{&made.dq, queries * p.head_dim}, std::pair{&made.dk, keys * p.head_dim},
        std::pair{&made.dv, keys * p.head_dim_v}}) {
    gradient->value.resize(size_t(elements));
    gradient->magnitude.resize(size_t(elements));
  }
  const Tensor& dbias = trial.tensor[ATTEST_DBIAS];
  const auto* const of_bias = dbias.spec.dim;
  if (dbias) {
    const auto elements = size_t(of_bias[0] * of_bias[1] * of_bias[2] * of_bias[3]);
    made.dbias.value.resize(elements);
    made.dbias.magnitude.resize(elements);
  }
  const Tensor &drel_bias = trial.tensor[ATTEST_DREL_BIAS], &dsinks = trial.tensor[ATTEST_DSINKS];
  const int64_t height = 2 * p.window_height - 1, width = 2 * p.window_width - 1;
  if (drel_bias) {
    made.drel_bias.value.resize(size_t(p.num_heads * height * width));
    made.drel_bias.magnitude.resize(size_t(p.num_heads * height * width));
  }
  if (dsinks) {
    made.dsinks.value.resize(size_t(p.num_heads));
    made.dsinks.magnitude.resize(size_t(p.num_heads));
  }
  const auto scale = double(p.softmax_scale);
  for (int64_t n = 0; n < p.batch * p.num_heads * p.seq_len_q; ++n) {
    const int64_t b = n / (p.num_heads * p.seq_len_q), h = n / p.seq_len_q % p.num_heads,
                  i = n % p.seq_len_q, kv_head = h / (p.num_heads / p.num_kv_heads);
    if (i >= length_q(trial, b)) continue;
    const Cell of_query = query_cell(trial, b, i);
    const int64_t row = (of_query.batch * p.num_heads + h) * q.spec.dim[2] + of_query.row;
    const Index query{of_query.batch, h, of_query.row, 0};
    const Product delta = product(d_o, query, o, query);
    const double of_q = factor(trial, ATTEST_Q_DESCALE, b, h, i);
    bool sees_any = false;
    std::vector<int64_t> keys_seen;
    std::vector<double> logits;
    for (int64_t j = 0; j < length_kv(trial, b); ++j)
      if (visible(trial, b, h, i, j)) {
        keys_seen.push_back(j);
        logits.push_back(logit(trial, b, h, i, j));
      }
    made.is_unclear |= keep_top_k(p, keys_seen, logits);
    for (const int64_t j : keys_seen) {
      sees_any = true;
      const Cell of_key = key_cell(trial, b, j);
      const Index key{of_key.batch, kv_head, of_key.row, 0};
      const int64_t key_row =
          (of_key.batch * p.num_kv_heads + kv_head) * k.spec.dim[2] + of_key.row;
      const double of_k = factor(trial, ATTEST_K_DESCALE, b, kv_head, j),
                   of_v = factor(trial, ATTEST_V_DESCALE, b, kv_head, j);
      Product gradient = product(d_o, query, v, key);
      gradient.sum *= of_v;
      gradient.magnitude *= of_v;
      const double of_pair = logit(trial, b, h, i, j),
                   of_row = lse.at({of_query.batch, h, of_query.row}),
                   weight = std::exp(of_pair - of_row);
      double slope = 1;
      if (p.softcap > 0)
        slope -= std::pow(std::tanh(scaled_score(trial, b, h, i, j) / double(p.softcap)), 2);
      made.largest = std::max({made.largest, std::fabs(of_pair), std::fabs(of_row)});
      const double unscaled = weight * (gradient.sum - delta.sum),
                   largest = weight * (gradient.magnitude + delta.magnitude),
                   ds = scale * slope * unscaled, magnitude = scale * largest;
      if (dbias) {
        const auto place = [&](int axis, int64_t at) { return of_bias[axis] == 1 ? 0 : at; };
        const auto at = size_t(
            ((place(0, b) * of_bias[1] + place(1, h)) * of_bias[2] + place(2, i)) * of_bias[3] +
            place(3, j));
        made.dbias.value[at] += unscaled;
        made.dbias.magnitude[at] += largest;
      }
      if (drel_bias) {
        const Rolled at = rolled(p, i), other = rolled(p, j);
        const int64_t dy = at.y % p.window_height - other.y % p.window_height,
                      dx = at.x % p.window_width - other.x % p.window_width;
        const auto to =
            size_t((h * height + dy + p.window_height - 1) * width + dx + p.window_width - 1);
        made.drel_bias.value[to] += unscaled;
        made.drel_bias.magnitude[to] += largest;
      }
      add_row(made.dq, row, of_k * ds, of_k * magnitude, k, key);
      add_row(made.dk, key_row, of_q * ds, of_q * magnitude, q, query);
      add_row(made.dv, key_row, weight, weight, d_o, query);
    }
    if (!dsinks || !sees_any) continue;
    const double sink = trial.tensor[ATTEST_SINKS].at({h}),
                 weight = std::exp(sink - lse.at({of_query.batch, h, of_query.row}));
    made.largest = std::max(made.largest, std::fabs(sink));
    made.dsinks.value[size_t(h)] -= weight * delta.sum;
    made.dsinks.magnitude[size_t(h)] += weight * delta.magnitude;
  }
  return made;
}

}  // namespace abi_test
