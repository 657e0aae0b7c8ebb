// attest.hpp: makes the C table of attest.h from a C++17 class, and views that are easy to read
// from the tensors of a problem.
//
//   struct Mine {
//     static constexpr attest::Info kInfo{
//         .name = "mine", .version = "1", .summary = "...", .dtypes = ATTEST_BIT(ATTEST_F32)};
//     // The first member. create makes a Mine, destroy deletes it. More members may follow.
//     const attest_problem& problem;
//     // Optional: declares arithmetic and workspace. Returns why it refuses the problem, or null.
//     static const char* query(const attest_problem&, attest_support&);
//     // T: float, attest::Half, attest::BFloat16 or double, whichever Q is.
//     template <class T>
//     void run(void* const* data, void* workspace, void* stream);
//     // Instead, for problems of several dtypes, f8 among them: void run(...), with Softmax<Any>.
//   };
//   ATTEST_PLUGIN(attest::table<Mine>())  // or several tables, separated by commas
//
// No exception crosses the boundary: std::bad_alloc becomes ATTEST_OUT_OF_MEMORY, any other
// exception ATTEST_RUNTIME_ERROR with its what(). The views below read the CPU's memory. In a
// kernel compiled by nvcc, views made from copies of problem, params and tensor[] on the device
// read the device's memory. example/naive_minimal.cpp is a complete implementation, and
// example/backward_minimal.cpp is one of gradients.
#pragma once
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "attest.h"

#ifdef __CUDACC__
#define ATTEST_HD __host__ __device__  // what kernels may call too
#else
#define ATTEST_HD
#endif

namespace attest {

// --- Element types ---

ATTEST_HD inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
ATTEST_HD inline float float_of_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// IEEE binary16 to float, exactly. No operation in it meets a subnormal float, so flush-to-zero
/// modes do not matter.
ATTEST_HD inline float float_from_half(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16, magnitude = half & 0x7fff;
  if (magnitude >= 0x7c00) return float_of_bits(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude >= 0x0400) return float_of_bits(sign | ((magnitude << 13) + (112u << 23)));
  return float_of_bits(sign | bits_of(static_cast<float>(magnitude) * 0x1p-24f));
}
/// Rounds to nearest even, keeps subnormals and NaN, overflows to infinity.
ATTEST_HD inline uint16_t half_from_float(float value) {
  const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  const auto with_sign = [sign](uint32_t half) { return static_cast<uint16_t>(sign | half); };
  if (magnitude > 0x7f800000) return with_sign(0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return with_sign(0x7c00);  // 65520, where rounding reaches 65536
  if (magnitude >= 0x38800000)
    return with_sign((magnitude + 0xfff + (magnitude >> 13 & 1) - (112u << 23)) >> 13);
  if (magnitude < 0x33000000) return with_sign(0);  // below 2^-25, half of the smallest number
  const uint32_t shift = 126 - (magnitude >> 23), mantissa = (magnitude & 0x7fffff) | 0x800000;
  const uint32_t kept = mantissa >> shift, rest = mantissa & ((1u << shift) - 1),
                 tie = 1u << (shift - 1);
  return with_sign(kept + (rest > tie || (rest == tie && (kept & 1))));
}

/// bfloat16 is the upper half of a float.
ATTEST_HD inline float float_from_bfloat16(uint16_t bfloat16) {
  return float_of_bits(static_cast<uint32_t>(bfloat16) << 16);
}
/// Rounds to nearest even, keeps NaN, overflows to infinity.
ATTEST_HD inline uint16_t bfloat16_from_float(float value) {
  const uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// The value of an 8-bit code, exactly, from the widths of its exponent and mantissa. Exponents of
/// f8e4m3 all count, and only codes whose other bits are all 1 are NaN.
ATTEST_HD inline float float_from_f8e4m3(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24, magnitude = code & 0x7f;
  if (magnitude == 0x7f) return float_of_bits(sign | 0x7fc00000);
  if (magnitude >= 0x08) return float_of_bits(sign | ((magnitude << 20) + (120u << 23)));
  return float_of_bits(sign | bits_of(static_cast<float>(magnitude) * 0x1p-9f));
}
/// f8e5m2 is the upper half of a binary16.
ATTEST_HD inline float float_from_f8e5m2(uint8_t code) {
  return float_from_half(static_cast<uint16_t>(code << 8));
}

/// One stored element. It reads as a float and takes a float.
struct Half {
  uint16_t bits;
  ATTEST_HD operator float() const { return float_from_half(bits); }
  ATTEST_HD Half& operator=(float value) {
    bits = half_from_float(value);
    return *this;
  }
};
struct BFloat16 {
  uint16_t bits;
  ATTEST_HD operator float() const { return float_from_bfloat16(bits); }
  ATTEST_HD BFloat16& operator=(float value) {
    bits = bfloat16_from_float(value);
    return *this;
  }
};
/// Elements of inputs: they are only read.
struct F8E4M3 {
  uint8_t code;
  ATTEST_HD operator float() const { return float_from_f8e4m3(code); }
};
struct F8E5M2 {
  uint8_t code;
  ATTEST_HD operator float() const { return float_from_f8e5m2(code); }
};

/// Stands for T where the dtype is known only at run time (ATTEST_WITH_MIXED_DTYPE). Softmax<Any>
/// reads f32, f16, bf16, f64, f8e4m3 and f8e5m2.
struct Any {};
/// One element of a View<Any>, which computes in float. An element of any other dtype reads as NaN
/// and is never written; f8e4m3 and f8e5m2 are only read.
class AnyElement {
 public:
  ATTEST_HD AnyElement(void* data, int32_t dtype, int64_t index)
      : data_(data), index_(index), dtype_(dtype) {}
  ATTEST_HD operator float() const {
    switch (dtype_) {
      case ATTEST_F32: return at<float>();
      case ATTEST_F16: return at<Half>();
      case ATTEST_BF16: return at<BFloat16>();
      case ATTEST_F64: return static_cast<float>(at<double>());
      case ATTEST_F8E4M3: return at<F8E4M3>();
      case ATTEST_F8E5M2: return at<F8E5M2>();
      default: return std::numeric_limits<float>::quiet_NaN();
    }
  }
  ATTEST_HD const AnyElement& operator=(float value) const {
    switch (dtype_) {
      case ATTEST_F32: at<float>() = value; break;
      case ATTEST_F16: at<Half>() = value; break;
      case ATTEST_BF16: at<BFloat16>() = value; break;
      case ATTEST_F64: at<double>() = static_cast<double>(value); break;
      default: break;
    }
    return *this;
  }

 private:
  template <class T>
  ATTEST_HD T& at() const {
    return static_cast<T*>(data_)[index_];
  }

  void* data_;
  int64_t index_;
  int32_t dtype_;
};

// --- Tensors ---

/// The tensor of one role; false if the problem has none. view(b, h, i, d) is an element: it takes
/// as many indices as the role has dims in attest.h. A broadcast dim takes any index. T is the
/// stored type (uint8_t for ATTEST_BOOL), or Any.
template <class T>
class View {
 public:
  View() = default;
  ATTEST_HD View(const attest_problem& problem, void* const* data, int32_t role)
      : spec_(&problem.tensor[role]) {
    if (spec_->dtype != ATTEST_NONE) data_ = data[role];
  }
  ATTEST_HD explicit operator bool() const { return data_ != nullptr; }

  template <class... Index>
  ATTEST_HD decltype(auto) operator()(Index... index) const {
    if constexpr (std::is_same_v<T, Any>) {
      return AnyElement(data_, spec_->dtype, offset(index...));
    } else {
      return static_cast<T*>(data_)[offset(index...)];
    }
  }
  /// Elements from the first one to this one.
  template <class... Index>
  ATTEST_HD int64_t offset(Index... index) const {
    assert(data_ && sizeof...(index) == static_cast<size_t>(spec_->rank));
    const int64_t indices[] = {static_cast<int64_t>(index)...};
    int64_t elements = 0;
    for (size_t axis = 0; axis < sizeof...(index); ++axis)
      elements += indices[axis] * spec_->stride[axis];
    return elements;
  }
  ATTEST_HD int64_t dim(int axis) const { return spec_->dim[axis]; }
  /// In elements; 0 exactly where the dim is 1.
  ATTEST_HD int64_t stride(int axis) const { return spec_->stride[axis]; }

 private:
  void* data_ = nullptr;
  const attest_tensor* spec_ = nullptr;
};

/// The parameters of a problem: params<attest_softmax_params>(problem).
template <class Params>
ATTEST_HD const Params& params(const attest_problem& problem) {
  return *static_cast<const Params*>(problem.params);
}

// --- Softmax attention ---

/// The first and third index of a row of Q, O and LSE, or of K and V, as in
/// q(cell.batch, h, cell.row, d). batch is 0 where tokens are packed, the page where K, V are
/// paged.
struct Cell {
  int64_t batch, row;
};
/// The positions begin .. end - 1.
struct Keys {
  int64_t begin, end;
};

/// Swin: a grid of tokens that is rolled up by shift_y and left by shift_x, then cut into windows.
/// Positions count window by window, so that a position sees an interval of positions. Tokens count
/// along the rows of the grid, as they are stored.
class Grid {
 public:
  ATTEST_HD explicit Grid(const attest_softmax_params& params) : p_(params) {}
  ATTEST_HD explicit operator bool() const { return p_.grid_height > 0; }
  ATTEST_HD int64_t windows() const {
    return p_.grid_height / p_.window_height * (p_.grid_width / p_.window_width);
  }
  ATTEST_HD int64_t window_size() const { return p_.window_height * p_.window_width; }

  struct Point {
    int64_t y, x;                // in the rolled grid
    int64_t window_y, window_x;  // in its window
  };
  ATTEST_HD Point point(int64_t position) const {
    const int64_t window = position / window_size(), inside = position % window_size(),
                  across = p_.grid_width / p_.window_width;
    const int64_t window_y = inside / p_.window_width, window_x = inside % p_.window_width;
    return {window / across * p_.window_height + window_y,
            window % across * p_.window_width + window_x, window_y, window_x};
  }
  ATTEST_HD int64_t token(int64_t position) const {
    const Point at = point(position);
    return (at.y + p_.shift_y) % p_.grid_height * p_.grid_width +
           (at.x + p_.shift_x) % p_.grid_width;
  }
  /// The position of a token.
  ATTEST_HD int64_t position(int64_t token) const {
    const int64_t y = rolled(token / p_.grid_width, p_.shift_y, p_.grid_height),
                  x = rolled(token % p_.grid_width, p_.shift_x, p_.grid_width),
                  window = y / p_.window_height * (p_.grid_width / p_.window_width) +
                           x / p_.window_width;
    return window * window_size() + y % p_.window_height * p_.window_width + x % p_.window_width;
  }
  /// Whether only rolling brought two positions of a window together: one of them has gone round
  /// an edge, the other has not.
  ATTEST_HD bool rolled_together(int64_t i, int64_t j) const {
    const Point query = point(i), key = point(j);
    const int64_t seam_y = p_.grid_height - p_.shift_y, seam_x = p_.grid_width - p_.shift_x;
    return (query.y < seam_y) != (key.y < seam_y) || (query.x < seam_x) != (key.x < seam_x);
  }
  /// The second and third index into REL_BIAS for the positions of a query and a key of one window.
  ATTEST_HD std::pair<int64_t, int64_t> relative(int64_t i, int64_t j) const {
    const Point query = point(i), key = point(j);
    return {query.window_y - key.window_y + p_.window_height - 1,
            query.window_x - key.window_x + p_.window_width - 1};
  }

 private:
  ATTEST_HD static int64_t rolled(int64_t at, int64_t shift, int64_t size) {
    return (at - shift + size) % size;
  }
  const attest_softmax_params& p_;
};

/// Where query position i and key position j of sequence b lie, and which keys a query may see. It
/// covers packing, pages, order, lengths, bands, patches and grid windows. A position is a token's
/// number in its sequence, as ORDER or Grid counts where there is one.
class Sequences {
 public:
  ATTEST_HD Sequences(const attest_problem& problem, void* const* data)
      : p(params<attest_softmax_params>(problem)),
        grid(p),
        cu_seqlens_q_(problem, data, ATTEST_CU_SEQLENS_Q),
        cu_seqlens_kv_(problem, data, ATTEST_CU_SEQLENS_KV),
        seq_lens_q_(problem, data, ATTEST_SEQ_LENS_Q),
        seq_lens_kv_(problem, data, ATTEST_SEQ_LENS_KV),
        page_table_(problem, data, ATTEST_PAGE_TABLE),
        order_(problem, data, ATTEST_ORDER) {}

  const attest_softmax_params& p;
  const Grid grid;

  /// How many query positions to write: those that count and, in a dense problem with SEQ_LENS_Q,
  /// those beyond them, which see no key.
  ATTEST_HD int64_t rows(int64_t b) const { return cu_seqlens_q_ ? length_q(b) : p.seq_len_q; }
  /// How many key positions have a gradient to write, likewise: 0 beyond those that count.
  ATTEST_HD int64_t key_rows(int64_t b) const {
    return cu_seqlens_kv_ ? length_kv(b) : p.seq_len_kv;
  }
  ATTEST_HD int64_t length_q(int64_t b) const {
    return length(cu_seqlens_q_, seq_lens_q_, p.seq_len_q, b);
  }
  ATTEST_HD int64_t length_kv(int64_t b) const {
    return length(cu_seqlens_kv_, seq_lens_kv_, p.seq_len_kv, b);
  }

  ATTEST_HD Cell query(int64_t b, int64_t i) const { return cell(cu_seqlens_q_, b, i); }
  ATTEST_HD Cell key(int64_t b, int64_t j) const {
    if (page_table_) return {page_table_(b, j / p.page_size), j % p.page_size};
    return cell(cu_seqlens_kv_, b, j);
  }

  /// The key position on the diagonal in row i. Bands and ALIBI_SLOPES count from it.
  ATTEST_HD int64_t diagonal(int64_t b, int64_t i) const {
    return i + p.diagonal_offset +
           (p.diagonal == ATTEST_BOTTOM_RIGHT ? length_kv(b) - length_q(b) : 0);
  }
  /// The key positions that band, patch and grid window let position i see. MASK, BLOCK_MASK and
  /// BIAS may hide some of them. Beside global tokens these are all positions, and the band hides
  /// some. begin <= end.
  ATTEST_HD Keys keys(int64_t b, int64_t i) const {
    const int64_t tokens_q = length_q(b), tokens_kv = length_kv(b);
    if (i >= tokens_q) return {0, 0};
    int64_t begin = 0, end = tokens_kv;
    if (grid) {
      begin = i / grid.window_size() * grid.window_size();
      end = begin + grid.window_size();
    }
    const int64_t centre = diagonal(b, i);
    const bool band = p.global_tokens == 0;
    if (band && p.window_left >= 0) begin = larger(begin, centre - p.window_left);
    if (band && p.window_right >= 0) end = smaller(end, centre + p.window_right + 1);
    if (p.patch_size > 0) {
      const int64_t patch_end = (i / p.patch_size + 1) * p.patch_size;
      // A short last patch is filled up from the one before it.
      begin = larger(begin, smaller(patch_end, tokens_kv) - p.patch_size);
      end = smaller(end, patch_end);
    }
    return begin < end ? Keys{begin, end} : Keys{0, 0};
  }
  /// Beside global tokens: whether the band hides key j from query i.
  ATTEST_HD bool hidden_by_band(int64_t b, int64_t i, int64_t j) const {
    if (i < p.global_tokens || j < p.global_tokens) return false;
    const int64_t centre = diagonal(b, i);
    return (p.window_left >= 0 && j < centre - p.window_left) ||
           (p.window_right >= 0 && j > centre + p.window_right);
  }
  /// How BIAS, MASK and BLOCK_MASK count a position: on a grid by its token.
  ATTEST_HD int64_t token(int64_t position) const { return grid ? grid.token(position) : position; }
  /// The position that BIAS, MASK and BLOCK_MASK count so.
  ATTEST_HD int64_t position(int64_t token) const { return grid ? grid.position(token) : token; }

 private:
  using Integers = View<const int32_t>;
  ATTEST_HD static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
  ATTEST_HD static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
  ATTEST_HD static int64_t length(const Integers& cu_seqlens, const Integers& seq_lens,
                                  int64_t longest, int64_t b) {
    if (cu_seqlens) return cu_seqlens(b + 1) - cu_seqlens(b);
    return seq_lens ? seq_lens(b) : longest;
  }
  ATTEST_HD Cell cell(const Integers& cu_seqlens, int64_t b, int64_t position) const {
    const int64_t batch = cu_seqlens ? 0 : b;
    const int64_t at = (cu_seqlens ? cu_seqlens(b) : 0) + token(position);
    return {batch, order_ ? order_(batch, at) : at};
  }

  Integers cu_seqlens_q_, cu_seqlens_kv_, seq_lens_q_, seq_lens_kv_, page_table_, order_;
};

/// All of ATTEST_SOFTMAX and of ATTEST_SOFTMAX_BACKWARD: the tensors as views, the parameters as
/// `p`, and the logit of a pair.
template <class T>
class Softmax : public Sequences {
 public:
  ATTEST_HD Softmax(const attest_problem& problem, void* const* data)
      : Sequences(problem, data),
        q(problem, data, ATTEST_Q),
        k(problem, data, ATTEST_K),
        v(problem, data, ATTEST_V),
        o(problem, data, ATTEST_O),
        bias(problem, data, ATTEST_BIAS),
        rel_bias(problem, data, ATTEST_REL_BIAS),
        d_o(problem, data, ATTEST_DO),
        d_q(problem, data, ATTEST_DQ),
        d_k(problem, data, ATTEST_DK),
        d_v(problem, data, ATTEST_DV),
        d_bias(problem, data, ATTEST_DBIAS),
        d_rel_bias(problem, data, ATTEST_DREL_BIAS),
        d_sinks(problem, data, ATTEST_DSINKS),
        lse(problem, data, ATTEST_LSE),
        alibi_slopes(problem, data, ATTEST_ALIBI_SLOPES),
        sinks(problem, data, ATTEST_SINKS),
        q_descale(problem, data, ATTEST_Q_DESCALE),
        k_descale(problem, data, ATTEST_K_DESCALE),
        v_descale(problem, data, ATTEST_V_DESCALE),
        mask(problem, data, ATTEST_MASK),
        block_mask(problem, data, ATTEST_BLOCK_MASK) {}

  const View<T> q, k, v, o, bias, rel_bias, d_o, d_q, d_k, d_v, d_bias, d_rel_bias;
  const View<float> d_sinks, lse;
  const View<const float> alibi_slopes, sinks, q_descale, k_descale, v_descale;
  const View<const uint8_t> mask, block_mask;

  ATTEST_HD int64_t kv_head(int64_t h) const { return h / (p.num_heads / p.num_kv_heads); }

  /// The logit without a value that joins the sum of every row of head h that sees a key; -inf if
  /// there is none.
  ATTEST_HD float sink(int64_t h) const { return sinks ? sinks(h) : kHidden; }

  /// What a stored query, key or value of a position is multiplied by: 1 without its tensor.
  ATTEST_HD float q_factor(int64_t b, int64_t h, int64_t i) const {
    return factor(q_descale, b, h, i, p.descale_block_q);
  }
  ATTEST_HD float k_factor(int64_t b, int64_t kv_head, int64_t j) const {
    return factor(k_descale, b, kv_head, j, p.descale_block_kv);
  }
  ATTEST_HD float v_factor(int64_t b, int64_t kv_head, int64_t j) const {
    return factor(v_descale, b, kv_head, j, p.descale_block_kv);
  }

  /// Whether pair_term can be anything but 0.
  ATTEST_HD bool has_pair_terms() const {
    return mask || block_mask || bias || rel_bias || alibi_slopes || p.global_tokens > 0 ||
           (grid && p.shift_bias != 0);
  }
  /// What is added to the score of a pair: bias, rel_bias, the ALiBi term and shift_bias; -inf if
  /// the pair is hidden.
  ATTEST_HD float pair_term(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (mask && !mask(b, h, token(i), token(j))) return kHidden;
    if (block_mask && !block_mask(b, h, token(i) / p.block_q, token(j) / p.block_kv))
      return kHidden;
    if (p.global_tokens > 0 && this->hidden_by_band(b, i, j)) return kHidden;
    float term = bias ? static_cast<float>(bias(b, h, token(i), token(j))) : 0.0f;
    if (rel_bias) {
      const auto at = grid.relative(i, j);
      term += static_cast<float>(rel_bias(h, at.first, at.second));
    }
    if (alibi_slopes)
      term -= alibi_slopes(b, h) * static_cast<float>(std::abs(this->diagonal(b, i) - j));
    if (grid && p.shift_bias != 0 && grid.rolled_together(i, j)) term += p.shift_bias;
    return term;
  }
  /// The logit of query position i and key position j of sequence b, from dot = q.k. It is -inf if
  /// something hides the pair, whatever dot is, NaN included.
  ATTEST_HD float logit(float dot, int64_t b, int64_t h, int64_t i, int64_t j) const {
    const float term = pair_term(b, h, i, j);
    if (term == kHidden) return kHidden;
    const float score = p.softmax_scale * dot;
    return (p.softcap > 0 ? p.softcap * std::tanh(score / p.softcap) : score) + term;
  }

 private:
  ATTEST_HD float factor(const View<const float>& descale, int64_t b, int64_t head,
                         int64_t position, int64_t block) const {
    if (!descale) return 1;
    return descale(b, head, block > 0 ? this->token(position) / block : 0);
  }

  static constexpr float kHidden = -std::numeric_limits<float>::infinity();
};

// --- Linear attention ---

/// All of ATTEST_LINEAR: the tensors as views, the parameters as `p`, and phi.
template <class T>
class Linear {
 public:
  ATTEST_HD Linear(const attest_problem& problem, void* const* data)
      : p(params<attest_linear_params>(problem)),
        q(problem, data, ATTEST_Q),
        k(problem, data, ATTEST_K),
        v(problem, data, ATTEST_V),
        o(problem, data, ATTEST_O),
        mask(problem, data, ATTEST_MASK),
        query_mask(problem, data, ATTEST_QUERY_MASK) {}

  const attest_linear_params& p;
  const View<T> q, k, v, o;
  const View<const uint8_t> mask, query_mask;

  ATTEST_HD int64_t kv_head(int64_t h) const { return h / (p.num_heads / p.num_kv_heads); }
  ATTEST_HD static float phi(float channel) {
    return channel > 0 ? channel + 1 : std::exp(channel);
  }
  /// Whether key j, or query i, of sequence b counts. If not, its phi is 0, and what is stored
  /// there must not be read: it may be NaN.
  ATTEST_HD bool key_counts(int64_t b, int64_t j) const { return !mask || mask(b, 0, 0, j); }
  ATTEST_HD bool query_counts(int64_t b, int64_t i) const {
    return !query_mask || query_mask(b, 0, i, 0);
  }
};

// --- Deformable attention ---

/// All of ATTEST_DEFORMABLE: the tensors as views, the parameters as `p`, and the pixels that a
/// location touches.
template <class T>
class Deformable {
 public:
  ATTEST_HD Deformable(const attest_problem& problem, void* const* data)
      : p(params<attest_deformable_params>(problem)),
        v(problem, data, ATTEST_V),
        o(problem, data, ATTEST_O),
        locations(problem, data, ATTEST_LOCATIONS),
        weights(problem, data, ATTEST_WEIGHTS) {}

  const attest_deformable_params& p;
  const View<T> v, o, locations, weights;

  /// The token of V that is pixel (0, 0) of `level`. Pixel (y, x) is level_width * y + x tokens
  /// further.
  ATTEST_HD int64_t first_token(int64_t level) const {
    int64_t first = 0;
    for (int64_t l = 0; l < level; ++l)
      first += static_cast<int64_t>(p.level_height[l]) * p.level_width[l];
    return first;
  }
  /// The pixel coordinate of a location along an axis of `size` pixels.
  ATTEST_HD float coordinate(float location, int32_t size) const {
    return p.align_corners ? location * static_cast<float>(size - 1)
                           : location * static_cast<float>(size) - 0.5f;
  }
  /// Whether a coordinate touches a pixel of the axis; false for NaN.
  ATTEST_HD static bool inside(float coordinate, int32_t size) {
    return coordinate > -1 && coordinate < static_cast<float>(size);
  }
};

// --- The table ---

/// What a table says of its implementation. `dtypes` and `features` hold everything that it takes,
/// each alone and all together.
struct Info {
  const char* name = "";
  const char* version = "";
  const char* summary = "";
  int32_t operation = ATTEST_SOFTMAX;
  int32_t device = ATTEST_CPU;
  uint64_t dtypes = 0;
  uint64_t features = 0;
};

/// Thrown by a constructor whose plan cannot exist beside those that are alive. create then returns
/// ATTEST_UNSUPPORTED.
struct Refusal : std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace detail {

inline constexpr size_t kMessageBytes = 512;
inline char* last_error() {
  static thread_local char message[kMessageBytes];
  return message;
}

inline attest_status fail(attest_status status, const char* message) {
  std::snprintf(last_error(), kMessageBytes, "%s", message);
  return status;
}

/// Calls `body`, which returns a status. What it throws becomes a status too.
template <class Body>
attest_status guarded(const Body& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(ATTEST_OUT_OF_MEMORY, "out of memory");
  } catch (const Refusal& refusal) {
    return fail(ATTEST_UNSUPPORTED, refusal.what());
  } catch (const std::exception& error) {
    return fail(ATTEST_RUNTIME_ERROR, error.what());
  } catch (...) {
    return fail(ATTEST_RUNTIME_ERROR, "an exception that is no std::exception");
  }
}

template <class Impl, class = void>
struct HasQuery : std::false_type {};
template <class Impl>
struct HasQuery<Impl, std::void_t<decltype(&Impl::query)>> : std::true_type {};

/// Whether run is not a template. It then looks at dtypes by itself.
template <class Impl, class = void>
struct RunsUntyped : std::false_type {};
template <class Impl>
struct RunsUntyped<Impl, std::void_t<decltype(std::declval<Impl&>().run(
                             std::declval<void* const*>(), nullptr, nullptr))>> : std::true_type {};

/// Q's dtype, or V's if there is no Q.
inline int32_t main_dtype(const attest_problem& problem) {
  const int32_t dtype = problem.tensor[ATTEST_Q].dtype;
  return dtype != ATTEST_NONE ? dtype : problem.tensor[ATTEST_V].dtype;
}

/// Runs impl.run<T> if `dtype` is kDtype and the table lists it. Where the table does not, run<T>
/// is not even compiled.
template <int32_t kDtype, class T, class Impl>
bool run_as(Impl& impl, int32_t dtype, void* const* data, void* workspace, void* stream) {
  if constexpr ((Impl::kInfo.dtypes & ATTEST_BIT(kDtype)) != 0) {
    if (dtype == kDtype) {
      impl.template run<T>(data, workspace, stream);
      return true;
    }
  }
  return false;
}

template <class Impl>
void run(Impl& impl, int32_t dtype, void* const* data, void* workspace, void* stream) {
  if constexpr (RunsUntyped<Impl>::value) {
    impl.run(data, workspace, stream);
  } else if (!run_as<ATTEST_F32, float>(impl, dtype, data, workspace, stream) &&
             !run_as<ATTEST_F16, Half>(impl, dtype, data, workspace, stream) &&
             !run_as<ATTEST_BF16, BFloat16>(impl, dtype, data, workspace, stream) &&
             !run_as<ATTEST_F64, double>(impl, dtype, data, workspace, stream)) {
    throw std::runtime_error("attest.hpp has no element type for this dtype: make run no template");
  }
}

/// The functions of the table. A plan is an Impl with the dtype that chooses its run<T>.
template <class Impl>
struct Table {
  struct Plan {
    Impl impl;
    int32_t dtype;
  };
  static attest_status query(const attest_problem* problem, attest_support* support) {
    return guarded([&]() -> attest_status {
      if constexpr (HasQuery<Impl>::value) {
        // static const char* query(const attest_problem&, attest_support&)
        const char* why_not = Impl::query(*problem, *support);
        if (why_not) {
          std::snprintf(support->reason, sizeof support->reason, "%s", why_not);
          return ATTEST_UNSUPPORTED;
        }
      }
      return ATTEST_OK;
    });
  }
  static attest_status create(const attest_problem* problem, void** plan) {
    return guarded([&]() -> attest_status {
      *plan = new Plan{Impl{*problem}, main_dtype(*problem)};
      return ATTEST_OK;
    });
  }
  static attest_status run(void* plan, void* const* data, void* workspace, void* stream) {
    return guarded([&]() -> attest_status {
      Plan& made = *static_cast<Plan*>(plan);
      detail::run(made.impl, made.dtype, data, workspace, stream);
      return ATTEST_OK;
    });
  }
  static void destroy(void* plan) { delete static_cast<Plan*>(plan); }
  static const char* last_error() { return detail::last_error(); }
};

}  // namespace detail

/// The table of an implementation; the same one at each call.
template <class Impl>
const attest_impl* table() {
  using Functions = detail::Table<Impl>;
  static constexpr Info info = Impl::kInfo;
  static const attest_impl table{
      sizeof(attest_impl), info.operation,       info.device,       0,
      info.dtypes,         info.features,        info.name,         info.version,
      info.summary,        Functions::query,     Functions::create, Functions::run,
      Functions::destroy,  Functions::last_error};
  return &table;
}

}  // namespace attest

/// The plugin's one symbol, from pointers to its tables.
#define ATTEST_PLUGIN(...)                                                   \
  extern "C" const attest_impl* attest_plugin_v1(size_t index) {             \
    static const attest_impl* const tables[] = {__VA_ARGS__};                \
    return index < sizeof tables / sizeof *tables ? tables[index] : nullptr; \
  }
