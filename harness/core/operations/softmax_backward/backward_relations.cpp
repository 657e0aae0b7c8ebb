// Relations between runs of the gradients.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/operations/relation.hpp"
#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax_backward/backward.hpp"
#include "core/tensor/random.hpp"

namespace attest::core::backward {
namespace {

using RelationParams = attest_softmax_params;

constexpr double kValueFactor = 4;

/// V and O, or dO, times a power of two: the gradients are linear in both. dV has no V in it. Of V
/// in 8 bits the factors are multiplied, if it has some.
class BackwardValueScale final : public SamePlaces {
 public:
  BackwardValueScale(const Problem& problem, const Tensors& inputs, bool of_gradient)
      : SamePlaces(problem, inputs), of_gradient_(of_gradient) {}
  std::string_view name() const override { return "value-scale"; }
  // In f16 dO, V, do.v, delta or a sum over queries may be too large.
  bool suits(const Arithmetic& arithmetic) const override {
    const BackwardArithmetic declared = BackwardArithmetic::of(arithmetic);
    return std::ranges::all_of(
        std::initializer_list<DType>{declared.score, declared.product, declared.accumulator,
                                     declared.operand, declared.delta},
        [](DType dtype) { return largest_finite(dtype) > 1e30; });
  }

 protected:
  void change(const Tensors& to) const override {
    if (of_gradient_) return scale(to[ATTEST_DO]);
    scale(to[ATTEST_V_DESCALE] ? to[ATTEST_V_DESCALE] : to[ATTEST_V]);
    scale(to[ATTEST_O]);
  }
  double factor(int32_t role) const override {
    return role == ATTEST_DV && !of_gradient_ ? 1 : kValueFactor;
  }

 private:
  static void scale(const Tensor& x) {
    for (int64_t n = 0; n < row_count(x.spec, x.spec.rank); ++n) {
      const int64_t at = row_offset(x.spec, x.spec.rank, n);
      store(x.data, x.spec.dtype, at, kValueFactor * load(x.data, x.spec.dtype, at));
    }
  }

  bool of_gradient_;
};

/// The sum of ds over the keys of a row is 0 without a softcap and a sink. Where the last channel
/// of K is 1, it is the last channel of dQ. That of Q is 0, so that the logits have nothing of it.
class BackwardRowSum final : public Relation {
 public:
  BackwardRowSum(const Problem& problem, const Tensors& inputs)
      : problems_{problem}, inputs_(inputs) {}
  std::string_view name() const override { return "row-sum"; }
  const std::vector<Problem>& problems() const override { return problems_; }
  bool own_sigmas() const override { return true; }

  void fill(size_t, const Tensors& to) const override {
    for (const Role& role : problems_[0].operation->roles())
      if (to[size_t(role.index)])
        copy_elements(inputs_[size_t(role.index)], to[size_t(role.index)]);
    set_last(to[ATTEST_K], 1);
    set_last(to[ATTEST_Q], 0);
    write_forward(problems_[0], to);
  }

  void compare(const RelationRun&, std::span<const RelationRun> runs,
               const Sink& sink) const override {
    const TensorSpec& spec = problems_[0].tensor[ATTEST_DQ];
    const double zero = 0;
    for (int64_t row = 0; row < row_count(spec, 3); ++row) {
      const int64_t at = (row + 1) * spec.dim[3] - 1;
      double got = 0;
      read_elements(runs[0].outputs[ATTEST_DQ], at, 1, &got);
      sink({ATTEST_DQ, 4, at, {&zero, 1}, {&got, 1}, {runs[0].sigmas->at(ATTEST_DQ, at), 1}});
    }
  }

 private:
  static void set_last(const Tensor& x, double value) {
    for (int64_t row = 0; row < row_count(x.spec, 3); ++row)
      store(x.data, x.spec.dtype,
            row_offset(x.spec, 3, row) + (x.spec.dim[3] - 1) * x.spec.stride[3], value);
  }

  std::vector<Problem> problems_;
  Tensors inputs_;
};

/// The rows of a tensor of queries or keys in another order. Packed tokens stay in their sequence.
std::vector<int64_t> shuffled_rows(const Tensor& tensor, const Tensor& cu_seqlens, uint64_t seed) {
  if (!cu_seqlens) return shuffled_places(tensor.spec.dim[2], seed);
  std::vector<int64_t> rows(size_t(tensor.spec.dim[2]));
  std::iota(rows.begin(), rows.end(), 0);
  for (int64_t b = 0; b + 1 < cu_seqlens.spec.dim[0]; ++b) {
    const auto begin = int64_t(cu_seqlens.at({b})), end = int64_t(cu_seqlens.at({b + 1}));
    const std::vector<int64_t> places =
        shuffled_places(end - begin, random_bits(seed, uint64_t(b)));
    for (int64_t n = begin; n < end; ++n) rows[size_t(n)] = begin + places[size_t(n - begin)];
  }
  return rows;
}

/// The most pairs that an element of DBIAS, DREL_BIAS or DSINKS sums over; 0: the problem has none
/// of them.
double pairs_in_sum(const Problem& problem) {
  const auto& p = problem.as<RelationParams>();
  const double rows = double(p.batch) * double(p.seq_len_q);  // of a head
  double pairs = problem.has(ATTEST_DREL_BIAS) || problem.has(ATTEST_DSINKS) ? rows : 0;
  if (problem.has(ATTEST_DBIAS))
    pairs = std::max(
        pairs, rows * double(p.num_heads) / double(row_count(problem.tensor[ATTEST_DBIAS], 3)));
  return pairs;
}

/// A bound of the magnitudes of V, dO and all gradients.
double largest_gradient(const Problem& problem, const Tensors& inputs) {
  const auto& p = problem.as<RelationParams>();
  const double d_o = largest_value(inputs[ATTEST_DO]), v = largest_value(inputs[ATTEST_V]),
               d_logit = 2 * d_o * v * double(p.head_dim_v),
               d_score = std::fabs(double(p.softmax_scale)) * d_logit,
               queries = double(p.seq_len_q) * double(p.num_heads) / double(p.num_kv_heads);
  return std::max({v, queries * d_o, queries * d_score * largest_value(inputs[ATTEST_Q]),
                   d_score * largest_value(inputs[ATTEST_K]), pairs_in_sum(problem) * d_logit});
}

/// Whether V, O, dO and all gradients stay in the range of their dtypes when they are enlarged. Of
/// V in 8 bits values_fit() says so.
bool fits_enlarged(const Problem& problem, const Tensors& inputs) {
  const double largest =
      kValueFactor * largest_gradient(problem, WithoutFactors(problem, inputs).tensors());
  return std::ranges::all_of(
      std::initializer_list<int32_t>{ATTEST_V, ATTEST_O, ATTEST_DO, ATTEST_DQ, ATTEST_DK, ATTEST_DV,
                                     ATTEST_DBIAS, ATTEST_DREL_BIAS, ATTEST_DSINKS},
      [&](int32_t role) {
        const DType dtype = problem.tensor[size_t(role)].dtype;
        return !problem.has(role) || is_f8(dtype) || largest < largest_finite(dtype);
      });
}
/// Whether what V stores in 8 bits may be enlarged. Its factors may be in any case.
bool values_fit(const Problem& problem, const Tensors& inputs) {
  return !has_f8(problem) || problem.has(ATTEST_V_DESCALE) ||
         kValueFactor * largest_value(inputs[ATTEST_V]) <=
             largest_finite(problem.tensor[ATTEST_V].dtype);
}

}  // namespace

std::vector<std::unique_ptr<Relation>> relations(const Problem& problem, const Tensors& inputs) {
  const auto& p = problem.as<RelationParams>();
  std::vector<std::unique_ptr<Relation>> list;
  // `rows`: of the tokens of these roles. Packed tokens have no common place in a mask or a bias.
  const auto permuted = [&](std::string_view name, std::initializer_list<int32_t> roles,
                            int pair_axis, bool is_packed, const std::vector<int64_t>& rows) {
    std::vector<Rearrangement> changes;
    for (const int32_t role : roles) changes.push_back({role, -1, 2, rows});
    for (const int32_t role : {ATTEST_MASK, ATTEST_BIAS, ATTEST_DBIAS})
      if (const TensorSpec& spec = problem.tensor[size_t(role)]; spec.dim[pair_axis] > 1) {
        if (is_packed) return;
        changes.push_back({role, -1, pair_axis, rows});
      }
    list.push_back(rearranged(name, problem, inputs, std::move(changes)));
  };
  // A permutation of keys changes which of equal ones come first.
  const bool places_matter =
      (p.top_k > 0 && p.top_k_ties == ATTEST_TOP_K_FIRST) || p.window_left >= 0 ||
      p.window_right >= 0 || p.patch_size > 0 || p.grid_height > 0 ||
      std::ranges::any_of(
          std::initializer_list<int32_t>{ATTEST_ALIBI_SLOPES, ATTEST_BLOCK_MASK, ATTEST_SEQ_LENS_Q,
                                         ATTEST_SEQ_LENS_KV, ATTEST_ORDER},
          [&](int32_t role) { return problem.has(role); });
  // A permutation moves no factors, so that rows would get those of others.
  if (!places_matter && !has_factors(problem)) {
    permuted("key-permutation", {ATTEST_K, ATTEST_V, ATTEST_DK, ATTEST_DV}, 3,
             problem.has(ATTEST_CU_SEQLENS_KV),
             shuffled_rows(inputs[ATTEST_K], inputs[ATTEST_CU_SEQLENS_KV], 1));
    permuted("query-permutation", {ATTEST_Q, ATTEST_O, ATTEST_LSE, ATTEST_DO, ATTEST_DQ}, 2,
             problem.has(ATTEST_CU_SEQLENS_Q),
             shuffled_rows(inputs[ATTEST_Q], inputs[ATTEST_CU_SEQLENS_Q], 2));
  }
  // Packed tokens have no batch to repeat. A bias that sequences or heads share has a gradient that
  // grows with their number; so have rel_bias and sinks, which sequences share.
  const auto more = [&](std::string_view name, size_t axis,
                        const std::function<void(RelationParams&)>& grow) {
    if (problem.features & ATTEST_WITH_VARLEN) return;
    if (problem.has(ATTEST_DBIAS) && problem.tensor[ATTEST_DBIAS].dim[axis] == 1) return;
    if (axis == 0 && (problem.has(ATTEST_DREL_BIAS) || problem.has(ATTEST_DSINKS))) return;
    list.push_back(repeated(name, inputs, resized(problem, [&](Problem& larger) {
                              grow(larger.as<RelationParams>());
                            })));
  };
  more("batch-repetition", 0,
       [](RelationParams& larger) { larger.batch *= larger.batch == 1 ? 3 : 2; });
  more("head-repetition", 1, [](RelationParams& larger) {
    larger.num_heads *= 2;
    larger.num_kv_heads *= 2;
  });
  if (forward_is_cheap(problem) && p.softcap == 0 && !problem.has(ATTEST_SINKS) &&
      !problem.has(ATTEST_K_DESCALE))
    list.push_back(std::make_unique<BackwardRowSum>(problem, inputs));
  const bool fits = fits_enlarged(problem, inputs);
  for (const bool of_gradient : {false, true})
    if (fits && (of_gradient || values_fit(problem, inputs)))
      list.push_back(std::make_unique<BackwardValueScale>(problem, inputs, of_gradient));
  return list;
}

}  // namespace attest::core::backward
