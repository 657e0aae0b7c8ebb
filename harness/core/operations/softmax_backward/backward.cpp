// Gradients of softmax attention as an operation: roles, shapes, cost, and what is not judged yet.
#include "core/operations/softmax_backward/backward.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "core/operations/mistake.hpp"
#include "core/operations/relation.hpp"
#include "core/operations/softmax/fills/top_k.hpp"
#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/operations/variant.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using BackwardParams = attest_softmax_params;

constexpr Role kBackwardRoles[] = {
    {ATTEST_Q, "q", ATTEST_READ, true, ATTEST_NONE},
    {ATTEST_K, "k", ATTEST_READ, true, ATTEST_NONE},
    {ATTEST_V, "v", ATTEST_READ, true, ATTEST_NONE},
    {ATTEST_O, "o", ATTEST_READ, true, ATTEST_NONE},
    {ATTEST_LSE, "lse", ATTEST_READ, true, ATTEST_F32},
    {ATTEST_DO, "do", ATTEST_READ, true, ATTEST_NONE},
    {ATTEST_DQ, "dq", ATTEST_WRITE, true, ATTEST_NONE},
    {ATTEST_DK, "dk", ATTEST_WRITE, true, ATTEST_NONE},
    {ATTEST_DV, "dv", ATTEST_WRITE, true, ATTEST_NONE},
    {ATTEST_BIAS, "bias", ATTEST_READ, false, ATTEST_NONE},
    {ATTEST_MASK, "mask", ATTEST_READ, false, ATTEST_BOOL},
    {ATTEST_ALIBI_SLOPES, "alibi_slopes", ATTEST_READ, false, ATTEST_F32},
    {ATTEST_SINKS, "sinks", ATTEST_READ, false, ATTEST_F32},
    {ATTEST_BLOCK_MASK, "block_mask", ATTEST_READ, false, ATTEST_BOOL},
    {ATTEST_CU_SEQLENS_Q, "cu_seqlens_q", ATTEST_READ, false, ATTEST_I32},
    {ATTEST_CU_SEQLENS_KV, "cu_seqlens_kv", ATTEST_READ, false, ATTEST_I32},
    {ATTEST_SEQ_LENS_Q, "seq_lens_q", ATTEST_READ, false, ATTEST_I32},
    {ATTEST_SEQ_LENS_KV, "seq_lens_kv", ATTEST_READ, false, ATTEST_I32},
    {ATTEST_ORDER, "order", ATTEST_READ, false, ATTEST_I32},
    {ATTEST_REL_BIAS, "rel_bias", ATTEST_READ, false, ATTEST_NONE},
    {ATTEST_Q_DESCALE, "q_descale", ATTEST_READ, false, ATTEST_F32},
    {ATTEST_K_DESCALE, "k_descale", ATTEST_READ, false, ATTEST_F32},
    {ATTEST_V_DESCALE, "v_descale", ATTEST_READ, false, ATTEST_F32},
    {ATTEST_DBIAS, "dbias", ATTEST_WRITE, false, ATTEST_NONE},  // after BIAS, whose dims it has
    {ATTEST_DREL_BIAS, "drel_bias", ATTEST_WRITE, false, ATTEST_NONE},
    {ATTEST_DSINKS, "dsinks", ATTEST_WRITE, false, ATTEST_F32},
    // attest.h has this, too; check() refuses it.
    {ATTEST_PAGE_TABLE, "page_table", ATTEST_READ, false, ATTEST_I32},
};

/// The role of softmax whose dims a tensor has.
int32_t shape_of(int32_t role) {
  switch (role) {
    case ATTEST_DO: return ATTEST_O;
    case ATTEST_DQ: return ATTEST_Q;
    case ATTEST_DK: return ATTEST_K;
    case ATTEST_DV: return ATTEST_V;
    case ATTEST_DBIAS: return ATTEST_BIAS;
    case ATTEST_DREL_BIAS: return ATTEST_REL_BIAS;
    case ATTEST_DSINKS: return ATTEST_SINKS;
    default: return role;
  }
}

void check_shared_gradients(const Problem& problem) {
  if (problem.has(ATTEST_DREL_BIAS) && !problem.has(ATTEST_REL_BIAS))
    throw Error("drel_bias: the problem has no rel_bias; add one");
  if (problem.has(ATTEST_DSINKS) && !problem.has(ATTEST_SINKS))
    throw Error("dsinks: the problem has no sinks; add some");
}

void check_bias_gradient(const Problem& problem) {
  if (!problem.has(ATTEST_DBIAS)) return;
  if (!problem.has(ATTEST_BIAS)) throw Error("dbias: the problem has no bias; add one");
  if (problem.tensor[ATTEST_BIAS].dim[3] != problem.as<BackwardParams>().seq_len_kv)
    throw Error(
        "dbias: the gradient of a bias that all keys share is not judged yet; give the bias a "
        "number for each key, or leave dbias out");
}

class SoftmaxBackwardOperation final : public Operation {
 public:
  int32_t number() const override { return ATTEST_SOFTMAX_BACKWARD; }
  std::string_view name() const override { return "softmax_backward"; }
  size_t params_size() const override { return sizeof(BackwardParams); }
  std::span<const Field> fields() const override { return softmax_operation().fields(); }
  std::span<const Role> roles() const override { return kBackwardRoles; }
  std::span<const ArithmeticStage> stages() const override { return backward_stages(); }

  void complete(Problem& problem) const override { softmax_operation().complete(problem); }
  std::vector<int64_t> dims(const Problem& problem, int32_t role) const override {
    if (role == ATTEST_DBIAS && problem.has(ATTEST_BIAS)) {
      const std::span<const int64_t> of_bias = core::dims(problem.tensor[ATTEST_BIAS]);
      return {of_bias.begin(), of_bias.end()};
    }
    return softmax_operation().dims(problem, shape_of(role));
  }
  bool may_broadcast(int32_t role, int axis) const override {
    return role != ATTEST_DBIAS && softmax_operation().may_broadcast(shape_of(role), axis);
  }
  // Of Q, K and V alone: gradients have no factors.
  bool may_be_f8(int32_t role) const override { return softmax_operation().may_be_f8(role); }
  std::string dim_name(int32_t role, int axis) const override {
    if (role == ATTEST_DSINKS || role == ATTEST_DREL_BIAS)
      return axis == 0 ? "query head" : axis == 1 ? "dy" : "dx";
    const bool of_keys = role == ATTEST_DK || role == ATTEST_DV;
    return of_keys && axis == 1 ? "key head" : of_keys && axis == 2 ? "key" : attention_dim(axis);
  }

  void check(const Problem& problem) const override {
    const auto& p = problem.as<BackwardParams>();
    if (p.page_size != 0 || problem.has(ATTEST_PAGE_TABLE))
      throw Error(
          "page_size: gradients of paged K and V are not judged, since pages hold the keys of "
          "generation, which computes no gradients; leave page_size and page_table out");
    softmax_operation().check(problem);
    check_bias_gradient(problem);
    check_shared_gradients(problem);
    for (const Role& role : roles())
      if (problem.tensor[size_t(role.index)].dtype == ATTEST_F64)
        throw Error(fmt::format(
            "{}: softmax_backward in f64 is not judged yet; must be f32, f16 or bf16", role.name));
  }

  // LSE is an input, which needs no bit.
  uint64_t features(const Problem& problem) const override {
    return (softmax_operation().features(problem) & ~uint64_t{ATTEST_WITH_LSE}) |
           (problem.has(ATTEST_DBIAS) ? uint64_t{ATTEST_WITH_DBIAS} : 0) |
           (problem.has(ATTEST_DREL_BIAS) ? uint64_t{ATTEST_WITH_DREL_BIAS} : 0) |
           (problem.has(ATTEST_DSINKS) ? uint64_t{ATTEST_WITH_DSINKS} : 0);
  }
  std::string_view own_feature(int n) const override {
    return n == 0 ? "DBIAS" : n == 1 ? "DREL_BIAS" : n == 2 ? "DSINKS" : std::string_view();
  }

  // Five products where the forward pass has two: scores, do.v, and the three gradients.
  double flops(const Problem& problem) const override {
    const auto& p = problem.as<BackwardParams>();
    return softmax_operation().flops(problem) / double(p.head_dim + p.head_dim_v) *
           double(3 * p.head_dim + 2 * p.head_dim_v);
  }

  std::vector<std::string> fills(const Problem& problem) const override {
    return backward::fills(problem);
  }
  std::vector<std::string> more_fills(const Problem& problem) const override {
    return backward::more_fills(problem);
  }
  void fill(const Problem& problem, const Fill& fill, const Tensors& tensors,
            bool only_own) const override {
    backward::fill(problem, fill, tensors, only_own);
  }
  // Else p could be far above 1, or infinite where an lse of -inf stays while a key appears.
  bool follows(int32_t role) const override { return role == ATTEST_O || role == ATTEST_LSE; }
  void write_following(const Problem& problem, const Tensors& inputs) const override {
    if (backward::forward_is_cheap(problem)) backward::write_forward(problem, inputs);
  }
  std::unique_ptr<Golden> golden(const Problem& problem, const Fill& fill,
                                 const Tensors& tensors) const override {
    return backward::golden(problem, tensors, top_k_ties_hold(problem, fill.name),
                            backward::Judged::kAffordable, fill.name == backward::kRepeatedName);
  }
  std::vector<NumericEvent> events(const Problem& problem) const override {
    return backward::events(problem);
  }
  std::set<std::string> count_events(const Problem& problem, const Tensors& inputs,
                                     const std::vector<bool>& judged) const override {
    return backward::count_events(problem, inputs, judged);
  }
  bool relations_hold_on(std::string_view fill) const override {
    return fill != "wild" && fill != kTopKWildName;
  }
  std::vector<Variant> variants(const Problem& problem) const override {
    std::vector<Variant> variants = softmax_operation().variants(problem);
    // O and LSE follow what a variant changes.
    std::erase_if(variants, [](const Variant& one) {
      return one.change && !backward::forward_is_cheap(one.problem);
    });
    for (Variant& one : variants)
      if (one.change)
        one.change = [change = one.change, other = one.problem](const Tensors& inputs) {
          change(inputs);
          backward::write_forward(other, inputs);
        };
    return variants;
  }
  std::vector<Mistake> mistakes(const Problem& problem, const Tensors& inputs) const override {
    std::vector<Mistake> mistakes;
    add_mistake(mistakes, "delta, the sum of do * o, were left out", problem, inputs,
                [](Mistake& mistake) {
                  Tensor& o = mistake.inputs[ATTEST_O];
                  mistake.storage.emplace_back(size_t(extent_bytes(o.spec)));
                  o.data = mistake.storage.back().data();
                });
    for (Mistake& mistake : softmax_operation().mistakes(problem, inputs))
      mistakes.push_back(std::move(mistake));
    return mistakes;
  }
  std::vector<std::unique_ptr<Relation>> relations(const Problem& problem,
                                                   const Tensors& inputs) const override {
    return backward::relations(problem, inputs);
  }
  int kernels(const Problem&, const Arithmetic&) const override { return backward::kKernels; }
  void emulate(const Problem& problem, const Tensors& tensors, const Arithmetic& arithmetic,
               int kernel, std::span<const int64_t> rows,
               const EmulationSink& sink) const override {
    backward::emulate(problem, tensors, BackwardArithmetic::of(arithmetic, problem), kernel, rows,
                      sink);
  }
};

}  // namespace

const Operation& softmax_backward_operation() {
  static const SoftmaxBackwardOperation operation;
  return operation;
}

Problem backward::forward_problem(const Problem& problem) {
  Problem forward = blank_problem(softmax_operation(), problem.dtype);
  forward.as<BackwardParams>() = problem.as<BackwardParams>();
  for (const Role& role : softmax_operation().roles()) {
    TensorSpec& spec = forward.tensor[size_t(role.index)];
    spec = problem.tensor[size_t(role.index)];
    if (present(spec)) spec.access = role.access;
  }
  finish_problem(forward);
  return forward;
}

}  // namespace attest::core
