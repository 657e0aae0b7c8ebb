#include "testing/honesty/random_problem.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "core/operations/deformable/deformable.hpp"
#include "core/operations/linear/linear.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/operations/softmax_backward/backward.hpp"
#include "core/tensor/random.hpp"

namespace attest::core::testing {
namespace {

using SoftmaxParams = attest_softmax_params;
using LinearParams = attest_linear_params;
using DeformableParams = attest_deformable_params;

constexpr DType kDtypes[] = {ATTEST_F32, ATTEST_F32,  ATTEST_F32,  ATTEST_F16,  ATTEST_F16,
                             ATTEST_F16, ATTEST_BF16, ATTEST_BF16, ATTEST_BF16, ATTEST_F64};
// Gradients in f64 are not judged.
constexpr std::span<const DType> kBackwardDtypes = std::span(kDtypes).first(std::size(kDtypes) - 1);

// Making, reading and judging an element cost about as much as so many operations.
constexpr double kElementFlops = 100;
constexpr int kBackwardPercent = 6;
// Draws of their own, so that the other problems of a stream stay what they are.
constexpr uint64_t kTopKStream = 0x746f706b, kF8Stream = 0x6638, kBackwardStream = 0x6277,
                   kBackwardTopKStream = 0x62746b, kBackwardF8Stream = 0x627766;

class Draw {
 public:
  Draw(uint64_t seed, uint64_t index) : seed_(random_bits(seed, index)) {}
  int64_t below(int64_t n) { return int64_t(random_below(seed_, next_++, uint64_t(n))); }
  int64_t between(int64_t least, int64_t most) { return least + below(most - least + 1); }
  bool chance(int percent) { return below(100) < percent; }
  double uniform() { return double(random_uniform(seed_, next_++)); }
  double spread(double least, double most) { return least * std::pow(most / least, uniform()); }
  template <class Range>
  auto any(const Range& range) {
    return std::data(range)[below(int64_t(std::size(range)))];
  }

 private:
  uint64_t seed_, next_ = 0;
};

/// False: the number is 1 and stays so.
template <class Number>
bool halve(Number& n) {
  if (n <= 1) return false;
  n /= 2;
  return true;
}

class Maker {
 public:
  Maker(Draw& draw, const ProblemLimits& limits, std::span<const DType> dtypes = kDtypes)
      : d_(draw), limits_(limits), dtypes_(dtypes) {}

 protected:
  int64_t tokens() {
    const double most = double(limits_.most_tokens),
                 drawn = d_.spread(double(limits_.least_tokens), most + 1);
    return int64_t(std::min(drawn, most));
  }
  int64_t channels() {
    static constexpr int64_t kUsual[] = {8, 16, 24, 32, 40, 48, 64, 64, 64, 72, 80, 96, 128};
    return d_.chance(70) ? d_.any(kUsual) : d_.between(1, 160);
  }
  template <class Params>
  void heads(Params& p) {
    p.batch = d_.between(1, 4);
    p.num_kv_heads = d_.between(1, 3);
    p.num_heads = p.num_kv_heads * (d_.chance(30) ? d_.between(2, 3) : 1);
    p.head_dim = channels();
    p.head_dim_v = d_.chance(25) ? channels() : p.head_dim;
  }
  /// What a problem may cost: in most cases a twentieth of the limit or less.
  double draw_most() {
    const double usual = std::max(limits_.least_flops, limits_.most_flops / 20);
    return d_.spread(limits_.least_flops, d_.chance(97) ? usual : limits_.most_flops);
  }
  template <class Params, class Flops>
  static double cost(const Params& p, const Flops& flops) {
    const double rows = double(p.batch * p.num_heads * p.seq_len_q),
                 keys = double(p.batch * p.num_kv_heads * p.seq_len_kv);
    return std::max(flops(), kElementFlops * (rows + keys) * double(p.head_dim + p.head_dim_v));
  }
  /// Halves what costs most until the problem costs no more than that. Keys stay as many as they
  /// are, if that helps.
  template <class Params, class Flops>
  void bound(Params& p, bool self, const Flops& flops) {
    const double most = draw_most();
    while (cost(p, flops) > most) {
      if (p.num_heads > p.num_kv_heads)
        p.num_heads = p.num_kv_heads;
      else if (halve(p.batch))
        continue;
      else if (p.num_kv_heads > 1)
        p.num_heads = p.num_kv_heads = 1;
      else if (halve(p.seq_len_q))
        p.seq_len_kv = self ? p.seq_len_q : p.seq_len_kv;
      else if (!halve(p.head_dim_v) && !halve(p.head_dim) && !halve(p.seq_len_kv))
        break;
    }
  }
  void set_band(SoftmaxParams& p) {
    if (d_.chance(25)) p.window_right = 0;
    if (d_.chance(20)) p.window_left = int64_t(d_.spread(1, double(p.seq_len_kv) + 1)) - 1;
    if (p.window_left >= 0 && p.window_right < 0 && d_.chance(60))
      p.window_right = int64_t(d_.spread(1, double(p.seq_len_kv) + 1));
    if (d_.chance(25)) p.diagonal = ATTEST_BOTTOM_RIGHT;
    if (d_.chance(15)) p.diagonal_offset = d_.between(-20, 20);
  }
  void set_blocks(Problem& problem) {
    auto& p = problem.as<SoftmaxParams>();
    p.block_q = d_.chance(70) ? int64_t{1} << d_.between(3, 7) : d_.between(1, 100);
    p.block_kv = d_.chance(50) ? p.block_q : int64_t{1} << d_.between(3, 7);
    note(problem, ATTEST_BLOCK_MASK);
  }

  void set_grid(SoftmaxParams& p) {
    const int64_t widest = d_.chance(20) ? 28 : 9, most = widest > 9 ? 3 : 12;
    p.window_height = d_.between(1, widest);
    p.window_width = d_.between(1, widest);
    p.grid_height = p.window_height * d_.between(1, most);
    p.grid_width = p.window_width * d_.between(1, most);
    if (d_.chance(60)) {
      p.shift_y = d_.below(p.window_height);
      p.shift_x = d_.below(p.window_width);
      p.shift_bias = d_.chance(70) ? -100 : -2;
    }
    p.seq_len_q = p.seq_len_kv = p.grid_height * p.grid_width;
  }

  /// Whole rows of windows go, then heads and batch.
  template <class Flops>
  void cut_grid(SoftmaxParams& p, const Flops& flops) {
    const double most = draw_most();
    auto one_head_each = [&p] {
      return std::exchange(p.num_heads, p.num_kv_heads) > p.num_kv_heads;
    };
    auto one_head = [&p] {
      p.num_heads = 1;
      return std::exchange(p.num_kv_heads, 1) > 1;
    };
    while (p.seq_len_q > limits_.most_tokens || cost(p, flops) > most) {
      int64_t rows = p.grid_height / p.window_height, columns = p.grid_width / p.window_width;
      if (!halve(p.batch) && !one_head_each() && !halve(rows) && !halve(columns) && !one_head() &&
          !halve(p.head_dim) && !halve(p.head_dim_v))
        break;
      p.grid_height = rows * p.window_height;
      p.grid_width = columns * p.window_width;
      p.seq_len_q = p.seq_len_kv = p.grid_height * p.grid_width;
    }
  }

  /// A little more than there are: bands and patches are as wide as they may be.
  static double visible_pairs(const SoftmaxParams& p) {
    double keys = double(p.seq_len_kv);
    if (p.grid_height > 0) keys = double(p.window_height * p.window_width);
    if (p.patch_size > 0) keys = std::min(keys, double(p.patch_size));
    if (p.window_left >= 0 && p.window_right >= 0)
      keys = std::min(keys, double(p.window_left + p.window_right + 1));
    return double(p.seq_len_q) * keys;
  }

  void note(Problem& problem, int32_t role) {
    problem.tensor[size_t(role)].dtype = ATTEST_I32;
  }  // dims() sees that it is there

  /// Specs of the tensors noted, dense unless strides are drawn.
  void place(Problem& problem) {
    const bool mixed = d_.chance(15), strided = d_.chance(20);
    if (d_.chance(15)) problem.features |= ATTEST_WITH_UNALIGNED;
    std::array<TensorSpec, ATTEST_ROLES> made{};
    for (const Role& role : problem.operation->roles()) {
      if (!role.required && !problem.has(role.index)) continue;
      std::vector<int64_t> dims = problem.operation->dims(problem, role.index);
      double elements = 1;
      for (size_t axis = 0; axis < dims.size(); ++axis)
        if (problem.operation->may_broadcast(role.index, int(axis)) && d_.chance(40))
          dims[axis] = 1;
      for (const int64_t dim : dims) elements *= double(dim);
      if (!role.required && elements > double(limits_.most_pairs)) continue;
      const DType dtype = role.dtype != ATTEST_NONE ? role.dtype
                          : mixed && d_.chance(50)  ? d_.any(dtypes_)
                                                    : problem.dtype;
      made[size_t(role.index)] = strided && dims.size() >= 4
                                     ? strided_spec(dtype, role.access, dims)
                                     : dense_tensor(dtype, role.access, dims);
    }
    problem.tensor = made;
  }

  /// Heads between channels, or rows and heads further apart than they are long.
  TensorSpec strided_spec(DType dtype, int32_t access, const std::vector<int64_t>& dims) {
    static constexpr int kTokensFirst[] = {0, 2, 1, 3, 4, 5};
    if (d_.chance(50))
      return permuted_tensor(dtype, access, dims, std::span(kTokensFirst).first(dims.size()));
    TensorSpec spec = dense_tensor(dtype, access, dims);
    int64_t pitch = 1;
    for (int axis = spec.rank - 1; axis >= 0; --axis) {
      if (dims[size_t(axis)] > 1) spec.stride[axis] = pitch;
      pitch = pitch * dims[size_t(axis)] + (axis == spec.rank - 1   ? d_.below(9)
                                            : axis == spec.rank - 2 ? d_.below(3)
                                                                    : 0);
    }
    return spec;
  }

  Draw& d_;
  const ProblemLimits& limits_;
  const std::span<const DType> dtypes_;
};

class SoftmaxMaker : Maker {
 public:
  using Maker::Maker;

  Problem make() {
    Problem problem = blank_problem(softmax_operation(), d_.any(kDtypes));
    auto& p = problem.as<SoftmaxParams>();
    heads(p);
    p.seq_len_q = d_.chance(10) ? 1 : tokens();
    p.seq_len_kv = tokens();
    if (d_.chance(15))
      p.softmax_scale = float(d_.spread(0.02, 0.5)) * (d_.chance(10) ? -1.0f : 1.0f);
    if (d_.chance(15)) p.softcap = float(d_.spread(0.5, 50));
    const bool grid = d_.chance(12);
    if (!grid) {
      order_ = d_.chance(15);
      patches_ = d_.chance(12);
    }
    const bool self = !grid && (order_ || patches_);
    if (grid) set_grid(p);
    if (self) p.seq_len_kv = p.seq_len_q = std::max(p.seq_len_q, p.seq_len_kv);
    if (patches_) p.patch_size = std::min<int64_t>(int64_t(d_.spread(2, 2049)), p.seq_len_q + 3);
    if (!grid) set_band(p);
    bound(p, self, grid);
    if (!grid) set_sequences(problem, self);
    set_terms(problem, grid);
    softmax_operation().complete(problem);
    place(problem);
    finish_problem(problem);
    return problem;
  }

 private:
  void bound(SoftmaxParams& p, bool self, bool grid) {
    auto flops = [&] {
      return visible_pairs(p) * double(p.batch * p.num_heads) * 2 *
             double(p.head_dim + p.head_dim_v);
    };
    if (!grid) return Maker::bound(p, self, flops);
    cut_grid(p, flops);
  }
  void set_sequences(Problem& problem, bool self) {
    auto& p = problem.as<SoftmaxParams>();
    if (order_) note(problem, ATTEST_ORDER);
    if (d_.chance(20)) {
      const int side = self ? 2 : int(d_.below(3));
      if (side != 1) note(problem, ATTEST_CU_SEQLENS_Q);
      if (side != 0) note(problem, ATTEST_CU_SEQLENS_KV);
    } else if (d_.chance(20)) {
      if (self || d_.chance(60)) note(problem, ATTEST_SEQ_LENS_Q);
      if (self || d_.chance(80)) note(problem, ATTEST_SEQ_LENS_KV);
    }
    if (!self && !present(problem.tensor[ATTEST_CU_SEQLENS_KV]) && d_.chance(20)) {
      p.page_size = d_.chance(70) ? int64_t{1} << d_.between(3, 8) : d_.between(1, 100);
      note(problem, ATTEST_PAGE_TABLE);
    }
  }

  void set_terms(Problem& problem, bool grid) {
    // Terms for which no closed form is known together
    const bool combined = d_.chance(15);
    if (d_.chance(combined ? 50 : 15)) note(problem, ATTEST_BIAS);
    if (d_.chance(combined ? 50 : 15)) note(problem, ATTEST_MASK);
    if (grid && d_.chance(60)) note(problem, ATTEST_REL_BIAS);
    if (!grid && d_.chance(combined ? 70 : 12)) note(problem, ATTEST_ALIBI_SLOPES);
    if (d_.chance(70)) note(problem, ATTEST_LSE);
    if (d_.chance(combined ? 40 : 12)) note(problem, ATTEST_SINKS);
    auto& p = problem.as<attest_softmax_params>();
    bool self = p.seq_len_q == p.seq_len_kv && p.patch_size == 0;
    for (const int32_t role :
         {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV})
      self = self && !present(problem.tensor[size_t(role)]);
    const bool band = p.window_left >= 0 || p.window_right >= 0;
    if (self && band && d_.chance(40))
      p.global_tokens = d_.between(1, std::min<int64_t>(p.seq_len_q, 20));
    if (d_.chance(10)) set_blocks(problem);
  }

  bool order_ = false, patches_ = false;
};

class BackwardMaker : Maker {
 public:
  BackwardMaker(Draw& draw, const ProblemLimits& limits) : Maker(draw, limits, kBackwardDtypes) {}

  Problem make() {
    Problem problem = blank_problem(softmax_backward_operation(), d_.any(dtypes_));
    auto& p = problem.as<SoftmaxParams>();
    heads(p);
    p.seq_len_q = d_.chance(10) ? 1 : tokens();
    const bool self = d_.chance(15);
    p.seq_len_kv = self ? p.seq_len_q : tokens();
    if (d_.chance(15))
      p.softmax_scale = float(d_.spread(0.02, 0.5)) * (d_.chance(10) ? -1.0f : 1.0f);
    if (d_.chance(20)) p.softcap = float(d_.spread(0.5, 50));
    if (d_.chance(12)) return make_grid(problem);
    set_band(p);
    bound(p, self, [&p] { return flops(p); });
    const bool band = p.window_left >= 0 || p.window_right >= 0,
               global = p.seq_len_q == p.seq_len_kv && band && d_.chance(60);
    if (global) p.global_tokens = d_.between(1, std::min<int64_t>(p.seq_len_q, 20));
    const bool patches = self && !global && d_.chance(50);
    if (patches) p.patch_size = std::min<int64_t>(int64_t(d_.spread(2, 2049)), p.seq_len_q + 3);
    for (const int32_t role :
         {int32_t(ATTEST_BIAS), int32_t(ATTEST_MASK), int32_t(ATTEST_ALIBI_SLOPES)})
      if (d_.chance(20)) note(problem, role);
    if (d_.chance(15)) note(problem, ATTEST_SINKS);
    if (d_.chance(15)) set_blocks(problem);
    // One side packed, or both; patches and global tokens want both.
    const bool packed = d_.chance(20);
    const int side = global || patches ? 2 : int(d_.below(3));
    if (packed && side != 1) note(problem, ATTEST_CU_SEQLENS_Q);
    if (packed && side != 0) note(problem, ATTEST_CU_SEQLENS_KV);
    const bool ordered = p.seq_len_q == p.seq_len_kv && (!packed || side == 2) && d_.chance(50);
    if (ordered) note(problem, ATTEST_ORDER);
    for (const auto& [role, cu_seqlens] : {std::pair(ATTEST_SEQ_LENS_Q, ATTEST_CU_SEQLENS_Q),
                                           {ATTEST_SEQ_LENS_KV, ATTEST_CU_SEQLENS_KV}})
      if (!global && !patches && !ordered && !problem.has(cu_seqlens) && d_.chance(15))
        note(problem, role);
    return finish(problem);
  }

 private:
  static double flops(const SoftmaxParams& p) {
    return visible_pairs(p) * double(p.batch * p.num_heads) * 2 *
           double(3 * p.head_dim + 2 * p.head_dim_v);
  }
  Problem make_grid(Problem& problem) {
    auto& p = problem.as<SoftmaxParams>();
    set_grid(p);
    cut_grid(p, [&p] { return flops(p); });
    for (const int32_t role : {int32_t(ATTEST_BIAS), int32_t(ATTEST_MASK), int32_t(ATTEST_SINKS)})
      if (d_.chance(20)) note(problem, role);
    if (d_.chance(60)) note(problem, ATTEST_REL_BIAS);
    if (d_.chance(15)) set_blocks(problem);
    return finish(problem);
  }

  Problem finish(Problem& problem) {
    const auto& p = problem.as<SoftmaxParams>();
    softmax_backward_operation().complete(problem);
    place(problem);
    finish_problem(problem);
    if (const TensorSpec& bias = problem.tensor[ATTEST_BIAS];
        bias.dim[3] == p.seq_len_kv && d_.chance(60)) {
      problem.tensor[ATTEST_DBIAS] = dense_tensor(d_.any(dtypes_), ATTEST_WRITE, dims(bias));
      finish_problem(problem);
    }
    for (const auto& [gradient, of] :
         {std::pair(int32_t(ATTEST_DREL_BIAS), ATTEST_REL_BIAS), {ATTEST_DSINKS, ATTEST_SINKS}})
      if (problem.has(of) && d_.chance(60)) {
        const DType dtype = gradient == ATTEST_DSINKS ? ATTEST_F32 : d_.any(dtypes_);
        problem.tensor[size_t(gradient)] =
            dense_tensor(dtype, ATTEST_WRITE, dims(problem.tensor[size_t(of)]));
        finish_problem(problem);
      }
    return problem;
  }
};

class LinearMaker : Maker {
 public:
  using Maker::Maker;

  Problem make() {
    Problem problem = blank_problem(linear_operation(), d_.any(kDtypes));
    auto& p = problem.as<LinearParams>();
    heads(p);
    p.seq_len_q = tokens();
    p.seq_len_kv = tokens();
    if (d_.chance(30)) p.eps = float(d_.spread(1e-8, 1e-2));
    bound(p, false, [&] { return linear_operation().flops(problem); });
    for (const int32_t role : {int32_t(ATTEST_MASK), int32_t(ATTEST_QUERY_MASK)})
      if (d_.chance(25)) note(problem, role);
    linear_operation().complete(problem);
    place(problem);
    finish_problem(problem);
    return problem;
  }
};

class DeformableMaker : Maker {
 public:
  using Maker::Maker;

  Problem make() {
    static constexpr int64_t kPoints[] = {1, 2, 3, 4, 4, 4, 5, 8, 8, 13};
    Problem problem = blank_problem(deformable_operation(), d_.any(kDtypes));
    auto& p = problem.as<DeformableParams>();
    p.batch = d_.between(1, 4);
    p.num_heads = d_.between(1, 8);
    p.seq_len_q = tokens();
    p.head_dim_v = channels();
    p.num_points = d_.any(kPoints);
    p.align_corners = d_.chance(35);
    p.num_levels = int32_t(d_.between(1, d_.chance(90) ? 4 : 8));
    for (int level = 0; level < p.num_levels; ++level) {
      p.level_height[level] = side();
      p.level_width[level] = side();
    }
    bound(problem);
    place(problem);
    finish_problem(problem);
    return problem;
  }

 private:
  int32_t side() { return d_.chance(10) ? 1 : int32_t(d_.spread(2, 200)); }

  static double cost(const Problem& problem) {
    const auto& p = problem.as<DeformableParams>();
    double tokens = 0;
    for (int level = 0; level < p.num_levels; ++level)
      tokens += double(p.level_height[level]) * double(p.level_width[level]);
    const double rows = double(p.batch * p.num_heads * p.seq_len_q),
                 pixels = double(p.batch * p.num_heads) * tokens;
    return std::max(deformable_operation().flops(problem),
                    kElementFlops * (rows + pixels) * double(p.head_dim_v));
  }
  void bound(Problem& problem) {
    auto& p = problem.as<DeformableParams>();
    const double most = draw_most();
    while (cost(problem) > most) {
      if (halve(p.batch) || halve(p.num_heads)) continue;
      bool smaller = false;
      for (int level = 0; level < p.num_levels; ++level)
        if (p.level_height[level] * p.level_width[level] > p.seq_len_q)
          smaller |= halve(p.level_height[level]) || halve(p.level_width[level]);
      if (!smaller && !halve(p.seq_len_q) && !halve(p.head_dim_v)) break;
    }
  }
};

void set_top_k(Problem& problem, Draw& draw) {
  auto& p = problem.as<SoftmaxParams>();
  p.top_k = std::min(int64_t(draw.spread(1, double(p.seq_len_kv) + 1)), p.seq_len_kv);
  p.top_k_ties = draw.chance(40) ? ATTEST_TOP_K_ALL_TIES : ATTEST_TOP_K_FIRST;
  finish_problem(problem);
}

// Q, K and V in 8 bits, with factors or without.
void set_f8(Problem& problem, Draw& draw) {
  auto& p = problem.as<SoftmaxParams>();
  const DType f8 = draw.chance(50) ? ATTEST_F8E4M3 : ATTEST_F8E5M2;
  for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V}) problem.tensor[size_t(role)].dtype = f8;
  const bool q = draw.chance(60), k = draw.chance(60), v = draw.chance(60);
  if (q && draw.chance(50)) p.descale_block_q = draw.between(1, p.seq_len_q);
  if ((k || v) && p.page_size == 0 && draw.chance(50))
    p.descale_block_kv = draw.between(1, p.seq_len_kv);
  for (const auto& [role, given] :
       {std::pair(ATTEST_Q_DESCALE, q), {ATTEST_K_DESCALE, k}, {ATTEST_V_DESCALE, v}}) {
    if (!given) continue;
    std::vector<int64_t> dims = problem.operation->dims(problem, role);
    for (int64_t& dim : dims)
      if (draw.chance(30)) dim = 1;
    problem.tensor[size_t(role)] = dense_tensor(ATTEST_F32, ATTEST_READ, dims);
  }
  finish_problem(problem);
}

}  // namespace

Problem random_problem(uint64_t seed, uint64_t index, const ProblemLimits& limits) {
  Draw of_backward(random_bits(seed, kBackwardStream), index);
  if (limits.operation == "softmax_backward" ||
      (limits.operation.empty() && of_backward.chance(kBackwardPercent))) {
    Problem problem = BackwardMaker(of_backward, limits).make();
    Draw of_top_k(random_bits(seed, kBackwardTopKStream), index);
    if (of_top_k.chance(limits.top_k_percent)) set_top_k(problem, of_top_k);
    Draw of_f8(random_bits(seed, kBackwardF8Stream), index);
    if (of_f8.chance(limits.f8_percent)) set_f8(problem, of_f8);
    return problem;
  }
  Draw draw(seed, index);
  const int64_t drawn = draw.below(100);
  const auto is = [&](const char* operation, int64_t below) {
    return limits.operation.empty() ? drawn < below : limits.operation == operation;
  };
  if (is("softmax", 85)) {
    Problem problem = SoftmaxMaker(draw, limits).make();
    Draw of_top_k(random_bits(seed, kTopKStream), index);
    if (of_top_k.chance(limits.top_k_percent)) set_top_k(problem, of_top_k);
    Draw of_f8(random_bits(seed, kF8Stream), index);
    if (of_f8.chance(limits.f8_percent)) set_f8(problem, of_f8);
    return problem;
  }
  if (is("linear", 93)) return LinearMaker(draw, limits).make();
  return DeformableMaker(draw, limits).make();
}

}  // namespace attest::core::testing
